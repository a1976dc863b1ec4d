package cborjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

var limits = Limits{Depth: 256, Items: 10_000, Text: 1 << 20}

// creater and typer are for objects without Go types.
type (
	creater struct{}
	typer   struct{}
)

func (creater) New(schema.GroupVersionKind) (runtime.Object, error) {
	return &unstructured.Unstructured{}, nil
}

func (typer) ObjectKinds(o runtime.Object) ([]schema.GroupVersionKind, bool, error) {
	return []schema.GroupVersionKind{o.GetObjectKind().GroupVersionKind()}, false, nil
}

func (typer) Recognizes(schema.GroupVersionKind) bool { return true }

// TestIsKubernetesCBOR converts objects as apimachinery's serializer reads and writes them.
func TestIsKubernetesCBOR(t *testing.T) {
	serializer := cbor.NewSerializer(creater{}, typer{})
	for _, text := range []string{
		`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a","labels":{"x":"<&>"}},"spec":{"n":-7,"big":9007199254740993,"half":0.5,"whole":1e300,"list":[true,false,null,{}],"text":"é 世"}}`,
		`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","creationTimestamp":null},"data":{"k":"aGk="}}`,
	} {
		object := &unstructured.Unstructured{}
		if err := utiljson.Unmarshal([]byte(text), &object.Object); err != nil {
			t.Fatal(err)
		}
		var want bytes.Buffer
		if err := serializer.Encode(object, &want); err != nil {
			t.Fatal(err)
		}
		got, err := FromJSON([]byte(text))
		if err != nil || !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%s is\n%x, %v, apimachinery writes\n%x", text, got, err, want.Bytes())
		}
		back, err := ToJSON(want.Bytes(), limits)
		if err != nil {
			t.Fatal(err)
		}
		var read map[string]any
		if err := utiljson.Unmarshal(back, &read); err != nil || !reflect.DeepEqual(read, object.Object) {
			t.Errorf("%s comes back as %s, %v", text, back, err)
		}
	}
}

func TestToJSON(t *testing.T) {
	for name, test := range map[string]struct{ data, want string }{
		"of indefinite length":  {"\xbf\x61a\x9f\x01\x7f\x61x\x61y\xff\xff\xff", `{"a":[1,"xy"]}`},
		"a tag for base64":      {"\xd6\x42hi", `"aGk="`},
		"a byte string":         {"\x42hi", `"hi"`},
		"a time":                {"\xc1\x1a\x51\x4b\x67\xb0", `"2013-03-21T20:04:00Z"`},
		"self-described":        {"\xd9\xd9\xf7\xa0", `{}`},
		"no HTML escapes":       {"\x63<&>", `"<&>"`},
		"the same key twice":    {"\xa2\x61a\x01\x61a\x02", "error duplicate"},
		"not a number":          {"\xf9\x7e\x00", "error NaN"},
		"beyond 64 bits":        {"\x1b\xff\xff\xff\xff\xff\xff\xff\xff", "error overflow"},
		"a big number":          {"\xc2\x41\x01", "error"},
		"undefined":             {"\xf7", "error"},
		"a key that is no text": {"\xa1\x01\x02", "error"},
		"no UTF-8":              {"\xa1\x61a\x42\xff\xfe", `error a: the text "\xff\xfe" is not valid UTF-8`},
		"two documents":         {"\xa0\xa0", "error"},
		"empty":                 {"", "error EOF"},
		"cut off":               {"\xa1\x61", "error EOF"},
		"a break alone":         {"\xff", "error"},
		"longer than it is":     {"\x9b\xff\xff\xff\xff\xff\xff\xff\xff", "error"},
		"a text longer than it": {"\x7b\xff\xff\xff\xff\xff\xff\xff\xff", "error"},
	} {
		got, err := ToJSON([]byte(test.data), limits)
		if text, fails := strings.CutPrefix(test.want, "error"); fails {
			if err == nil || !strings.Contains(err.Error(), strings.TrimSpace(text)) {
				t.Errorf("%s: %s, %v, want %s", name, got, err, test.want)
			}
		} else if err != nil || strings.TrimSpace(string(got)) != test.want {
			t.Errorf("%s: %s, %v, want %s", name, got, err, test.want)
		}
	}
}

// TestLimits: nothing is built of what a few bytes make large or deep.
func TestLimits(t *testing.T) {
	for name, data := range map[string]string{
		"arrays in arrays":    strings.Repeat("\x81", 1<<20) + "\x00",
		"maps without end":    strings.Repeat("\xbf\x60", 1<<20),
		"tags on tags":        strings.Repeat("\xc6", 1<<20) + "\x00",
		"many empty maps":     "\x9a\x00\x10\x00\x00" + strings.Repeat("\xa0", 1<<20),
		"many pieces of text": "\x7f" + strings.Repeat("\x60", 1<<20) + "\xff",
	} {
		if _, err := ToJSON([]byte(data), limits); !errors.Is(err, ErrTooMuch) {
			t.Errorf("ToJSON(%s) = %v, want ErrTooMuch", name, err)
		}
	}
}

// TestLongText: what would be too long in JSON is not written.
func TestLongText(t *testing.T) {
	for text, length := range map[string]int{"abc": 3, "\x01\x02": 12, `"\`: 4, "é": 2} {
		data := append([]byte{0x81, 0x60 | byte(len(text))}, text...)
		if got, err := ToJSON(data, Limits{Depth: 2, Items: 4, Text: length}); err != nil || len(got) != length+len("[\"\"]\n") {
			t.Errorf("ToJSON of [%q] with at most %d bytes of text = %q, %v, want %d bytes", text, length, got, err, length+len("[\"\"]\n"))
		}
		if _, err := ToJSON(data, Limits{Depth: 2, Items: 4, Text: length - 1}); !errors.Is(err, ErrTooLong) {
			t.Errorf("%q in %d bytes: %v", text, length-1, err)
		}
	}
}

// FuzzToJSON: JSON that was made of CBOR is the same again after another way there and back, and the items that
// were counted are at least as many as there are.
func FuzzToJSON(f *testing.F) {
	for _, text := range []string{`{"a":[1,-1,0.5,"x",null,true]}`, `[]`, `"é"`, `9007199254740993`} {
		data, err := FromJSON([]byte(text))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("\xbf\x61a\x9f\x01\x7f\x61x\x61y\xff\xff\xff"))
	f.Add([]byte("\xa1\x61a\xd6\x42hi"))
	f.Fuzz(func(t *testing.T, data []byte) {
		text, err := ToJSON(data, limits)
		if err != nil {
			return
		}
		var tree any
		if err := json.Unmarshal(text, &tree); err != nil {
			t.Fatalf("ToJSON(%x) = %q, want JSON that Unmarshal takes: %v", data, text, err)
		}
		c := checker{data: data, limits: limits}
		if ok, err := c.item(0); !ok || err != nil || len(c.data) > 0 || c.items < count(tree) {
			t.Fatalf("%x: %v, %v, %d items counted of %d, %d bytes left", data, ok, err, c.items, count(tree), len(c.data))
		}
		again, err := FromJSON(text)
		if err != nil {
			t.Fatal(err)
		}
		back, err := ToJSON(again, limits)
		if err != nil {
			t.Fatal(err)
		}
		var same any // -0 is 0 then
		if err := json.Unmarshal(back, &same); err != nil || !reflect.DeepEqual(tree, same) {
			t.Fatalf("%s is %s, %v after another way", text, back, err)
		}
	})
}

// count returns the data items of a tree.
func count(tree any) int {
	n := 1
	switch v := tree.(type) {
	case []any:
		for _, one := range v {
			n += count(one)
		}
	case map[string]any:
		for _, one := range v {
			n += 1 + count(one)
		}
	}
	return n
}

func ExampleToJSON() {
	data, err := FromJSON([]byte(`{"kind":"Thing"}`))
	if err != nil {
		panic(err)
	}
	text, err := ToJSON(data, Limits{Depth: 256, Items: 100, Text: 1000})
	fmt.Printf("%x\n%s%v\n", data, text, err)
	// Output:
	// d9d9f7a1446b696e64455468696e67
	// {"kind":"Thing"}
	// <nil>
}
