package jsonpatch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	library "gopkg.in/evanphx/json-patch.v4"
)

const testDepth = 100

// limits are large enough for most random patches.
var limits = Limits{Depth: testDepth, Copied: 1 << 20}

func ExampleMerge() {
	out, err := Merge(context.Background(), []byte(`{"a":1,"b":{"c":2,"d":3}}`), []byte(`{"b":{"c":null,"e":4}}`), 100)
	fmt.Println(string(out), err)
	// Output: {"a":1,"b":{"d":3,"e":4}} <nil>
}

func ExamplePatch_Apply() {
	p, _, err := Decode(context.Background(), []byte(`[{"op":"add","path":"/a/-","value":3},{"op":"remove","path":"/a/0"}]`), 10, 100)
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := p.Apply(context.Background(), []byte(`{"a":[1,2]}`), Limits{Depth: 100})
	fmt.Println(string(out), err)
	// Output: {"a":[2,3]} <nil>
}

// libraryApply returns the library's result for a patch. The library panics if an operation lacks a
// field.
func libraryApply(document, patch []byte) (out []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	operations, err := library.DecodePatch(patch)
	if err != nil {
		return nil, err
	}
	return operations.Apply(document)
}

func ourApply(document, patch []byte) ([]byte, error) {
	p, _, err := Decode(context.Background(), patch, 10_000, testDepth)
	if err != nil {
		return nil, err
	}
	return p.Apply(context.Background(), document, limits)
}

// same reports whether two texts are equivalent, apart from duplicates.
func same(t *testing.T, a, b []byte) bool {
	t.Helper()
	return reflect.DeepEqual(decoded(t, a), decoded(t, b))
}

func decoded(t *testing.T, text []byte) (v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("Decode(%q): %v", text, err)
	}
	return v
}

// maker makes random documents with few names, so that patches match something.
type maker struct{ *rand.Rand }

func (m maker) name() string { return []string{"a", "b", "c", "d", "a/b", "m~n", "", "0"}[m.IntN(8)] }

func (m maker) value(level int) string {
	switch n := m.IntN(9); {
	case n < 3 && level > 0:
		return m.object(level)
	case n < 5 && level > 0:
		return m.array(level)
	case n < 6:
		return "null"
	}
	return []string{"1", "true", `"x"`, "2.5e3", `""`}[m.IntN(5)]
}

func (m maker) object(level int) string {
	var fields []string
	width := 4
	if m.IntN(20) == 0 {
		width = 30
	}
	for i := range m.IntN(width) {
		name := m.name()
		if width > 4 && i > 3 {
			name = fmt.Sprint("n", m.IntN(25))
		}
		fields = append(fields, fmt.Sprintf("%q: %s", name, m.value(level-1)))
	}
	return "{" + strings.Join(fields, " , ") + "}"
}

func (m maker) array(level int) string {
	var items []string
	width := 4
	if m.IntN(30) == 0 {
		width = 1200
	}
	if width > 4 {
		level = 1
	}
	for range m.IntN(width) {
		items = append(items, m.value(level-1))
	}
	return "[" + strings.Join(items, " , ") + "]"
}

func (m maker) path() string {
	var out strings.Builder
	for range 1 + m.IntN(3) {
		step := strings.NewReplacer("~", "~0", "/", "~1").Replace(m.name())
		if m.IntN(3) == 0 {
			step = []string{"0", "1", "-", "-1", "2", "+1", "600", "-3", "x", "01"}[m.IntN(10)]
		}
		out.WriteString("/" + step)
	}
	if m.IntN(40) == 0 {
		return []string{"", "a", "a/b", "/"}[m.IntN(4)]
	}
	return out.String()
}

func (m maker) operation() string {
	op := []string{"add", "add", "add", "remove", "replace", "move", "copy", "test", "test", "what"}[m.IntN(10)]
	if op == "what" && m.IntN(10) > 0 {
		op = "add"
	}
	fields := []string{fmt.Sprintf(`"op":%q`, op), fmt.Sprintf(`"path":%q`, m.path())}
	if op == "move" || op == "copy" || m.IntN(20) == 0 {
		fields = append(fields, fmt.Sprintf(`"from":%q`, m.path()))
	}
	if op != "remove" && m.IntN(20) > 0 {
		fields = append(fields, `"value":`+m.value(3))
	}
	return "{" + strings.Join(fields, ",") + "}"
}

func seeded(t *testing.T) maker {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return maker{rand.New(rand.NewPCG(seed, 0))}
}

// TestMergeIsTheLibrarys merges random documents as the library does.
func TestMergeIsTheLibrarys(t *testing.T) {
	m := seeded(t)
	for range 2000 {
		compareMerge(t, []byte(m.object(5)), []byte(m.object(5)))
	}
}

func compareMerge(t *testing.T, document, patch []byte) {
	t.Helper()
	want, err := library.MergePatch(document, patch)
	got, ours := Merge(context.Background(), document, patch, testDepth)
	switch {
	case errors.Is(ours, ErrTooDeep):
	case (err == nil) != (ours == nil):
		t.Fatalf("%s\n%s: %v, the library says %v", document, patch, ours, err)
	case err == nil && !same(t, got, want):
		t.Fatalf("%s\n%s makes\n%s, the library says\n%s", document, patch, got, want)
	}
}

// TestApplyIsTheLibrarys patches random documents as the library does, one operation at a time,
// because most fail.
func TestApplyIsTheLibrarys(t *testing.T) {
	m := seeded(t)
	done := 0
	for range 400 {
		document := []byte(m.object(5))
		operations := []string{}
		for range 12 {
			tried := append(operations, m.operation())
			patch := []byte("[" + strings.Join(tried, ",") + "]")
			if comparePatch(t, document, patch) {
				operations = tried
				done++
			}
		}
	}
	if done < 500 {
		t.Errorf("only %d operations fit", done)
	}
}

// comparePatch reports whether the patch can be applied.
func comparePatch(t *testing.T, document, patch []byte) bool {
	t.Helper()
	want, err := libraryApply(document, patch)
	got, ours := ourApply(document, patch)
	switch {
	case errors.Is(ours, ErrTooDeep), errors.Is(ours, ErrTooMuchCopied):
	case err != nil && strings.HasPrefix(err.Error(), "panic"):
		// The library fails for null items and others, which RFC 6902 allows.
	case (err == nil) != (ours == nil):
		t.Fatalf("%s\n%s: %v, the library says %v", document, patch, ours, err)
	case err == nil && !same(t, got, want):
		t.Fatalf("%s\n%s makes\n%s, the library says\n%s", document, patch, got, want)
	}
	return ours == nil
}

func TestApply(t *testing.T) {
	for _, c := range []struct{ document, patch, want string }{
		{`{"a":[null]}`, `[{"op":"test","path":"/a","value":[null]}]`, `{"a":[null]}`},
		{`{"a":"\u003c"}`, `[{"op":"test","path":"/a","value":"<"}]`, `{"a":"\u003c"}`},
		{`{"a":1}`, `[{"op":"test","path":"/a","value":1.0}]`, "testing value /a failed: test failed"},
		{`{"a":{}}`, `[{"op":"move","from":"/a","path":"/a/b"}]`, `move operation does not apply: doc is missing path`},
		{`{"a":{"b":1}}`, `[{"op":"copy","from":"/a","path":"/a/b"}]`, `{"a":{"b":{"b":1}}}`},
		{`{"a":1}`, `[null]`, "Unexpected kind"},
		{`{"a":null}`, `[{"op":"test","path":"/a"}]`, `{"a":null}`},
		{`{}`, `[{"op":"add","path":"/a","value":null},{"op":"test","path":"/a"}]`, "testing value /a failed: test failed"},
		{`{}`, `[{"op":"add","path":"/a","value":null},{"op":"test","path":"/a","value":null}]`, `{"a":null}`},
		{`{}`, `[{"op":"add","path":"/a"},{"op":"test","path":"/a"}]`, `{"a":null}`},
		{`{"a":1}`, `[{"op":"remove","path":"/b"}]`, "error in remove for path: '/b': Unable to remove nonexistent key: b: missing value"},
		{`{"a":1}`, `[{"op":"remove","path":"/b/c"}]`, `remove operation does not apply: doc is missing path: "/b/c": missing value`},
		{`{"a":1}`, `[{"op":"remove"}]`, `remove operation failed to decode path: missing value`},
		{`{"a":1}`, `[{"op":"move","path":"/b"}]`, `move operation failed to decode from: missing value`},
		{`{"a":1}`, `[{"op":"replace","path":""}]`, `must be object or array`},
		{`{"a":1}`, `[{"op":"replace","path":"","value":[1]},{"op":"add","path":"/0","value":2}]`, `[2,1]`},
		{`{"a":[1]}`, `[{"op":"add","path":"/a/9","value":2}]`, "invalid index"},
		{` {"a":1} `, `[]`, `{"a":1}`},
		{`{"a":1}`, ` null `, `{"a":1}`},
	} {
		out, err := ourApply([]byte(c.document), []byte(c.patch))
		if got := strings.TrimSpace(fmt.Sprintf("%s %v", out, err)); !strings.Contains(got, c.want) {
			t.Errorf("%s of %s: %s, want %s", c.patch, c.document, got, c.want)
		}
	}
}

func TestRefusals(t *testing.T) {
	deep := strings.Repeat(`{"a":`, testDepth+1) + "1" + strings.Repeat("}", testDepth+1)
	nested := strings.Repeat(`{"a":`, testDepth-1) + "{}" + strings.Repeat("}", testDepth-1)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	wide := "{" + strings.Repeat(`"a":1,`, 3*checkEvery) + `"b":1}`
	for _, c := range []struct {
		name            string
		ctx             context.Context
		document, patch string
		want            error
	}{
		{"deep merge", nil, `{}`, deep, ErrTooDeep},
		{"deep document", nil, deep, `{}`, ErrTooDeep},
		{"deep operation", nil, `{}`, `[{"value":` + deep + `}]`, ErrTooDeep},
		{"operations that nest", nil, nested, `[{"op":"move","from":"/a","path":"/b"},{"op":"add","path":"/a","value":{}},{"op":"move","from":"/b","path":"/a/b"}]`, ErrTooDeep},
		{"array for a merge", nil, `{}`, `[]`, nil},
		{"cut off", nil, `{}`, `{"a":`, ErrMalformed},
		{"copies", nil, `{"a":"` + strings.Repeat("x", 1<<19) + `"}`, `[{"op":"copy","from":"/a","path":"/b"},{"op":"copy","from":"/a","path":"/b"},{"op":"copy","from":"/a","path":"/b"}]`, ErrTooMuchCopied},
		{"copies of what is open", nil, `{"a":{"b":"` + strings.Repeat("x", 1<<19) + `"}}`, `[{"op":"add","path":"/a/c","value":1},{"op":"copy","from":"/a","path":"/b"},{"op":"copy","from":"/a","path":"/b"},{"op":"copy","from":"/a","path":"/b"}]`, ErrTooMuchCopied},
		{"ended merge", ended, wide, wide, context.Canceled},
		{"ended patch", ended, `{}`, `[{"op":"add","path":"/a"}]`, context.Canceled},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := c.ctx
			if ctx == nil {
				ctx = context.Background()
			}
			if c.patch[0] == '{' {
				_, err := Merge(ctx, []byte(c.document), []byte(c.patch), testDepth)
				if !errors.Is(err, c.want) || err == nil {
					t.Errorf("%v, want %v", err, c.want)
				}
				return
			}
			p, _, err := Decode(ctx, []byte(c.patch), 10, testDepth)
			if err == nil {
				_, err = p.Apply(ctx, []byte(c.document), limits)
			}
			if c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
	if p, n, err := Decode(context.Background(), []byte(`[{},{},{}]`), 2, 3); p != nil || n != 3 || err != nil {
		t.Errorf("too many operations: %v, %d, %v", p, n, err)
	}
}

func FuzzMerge(f *testing.F) {
	m := maker{rand.New(rand.NewPCG(1, 2))}
	for range 20 {
		f.Add([]byte(m.object(3)), []byte(m.object(3)))
	}
	f.Fuzz(func(t *testing.T, document, patch []byte) {
		var a, b map[string]any
		if json.Unmarshal(document, &a) != nil || json.Unmarshal(patch, &b) != nil || a == nil || b == nil {
			if _, err := Merge(context.Background(), document, patch, testDepth); err == nil {
				t.Errorf("%q %q: no error", document, patch)
			}
			return
		}
		compareMerge(t, document, patch)
	})
}

func FuzzApply(f *testing.F) {
	m := maker{rand.New(rand.NewPCG(1, 2))}
	for range 40 {
		f.Add([]byte(m.object(3)), []byte("["+m.operation()+","+m.operation()+"]"))
	}
	f.Fuzz(func(t *testing.T, document, patch []byte) {
		if len(document) == 0 || len(bytes.TrimSpace(document)) != len(document) {
			return // the library assumes that there is a first byte
		}
		if bytes.Contains(document, []byte(`\`)) || bytes.Contains(patch, []byte(`\`)) {
			_, _ = ourApply(document, patch) // the library distinguishes escapes
			return
		}
		var v []map[string]json.RawMessage
		if json.Unmarshal(patch, &v) != nil || string(document) == "null" {
			return
		}
		comparePatch(t, document, patch)
	})
}
