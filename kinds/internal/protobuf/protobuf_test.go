package protobuf_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/planekit/planekit/kinds/internal/protobuf"
	"google.golang.org/protobuf/encoding/protowire"
)

type lamp struct {
	Name   string           `protobuf:"bytes,2,opt,name=name"`
	On     bool             `protobuf:"varint,1,opt,name=on"`
	Watts  *float64         `protobuf:"fixed64,3,opt,name=watts"`
	Count  int32            `protobuf:"varint,4,opt,name=count"`
	Size   *int64           `protobuf:"varint,5,opt,name=size"`
	Raw    []byte           `protobuf:"bytes,6,opt,name=raw"`
	Labels []string         `protobuf:"bytes,7,rep,name=labels"`
	Inner  *lamp            `protobuf:"bytes,8,opt,name=inner"`
	Parts  []lamp           `protobuf:"bytes,9,rep,name=parts"`
	ByName map[string]lamp  `protobuf:"bytes,10,rep,name=byName"`
	Texts  map[string]short `protobuf:"bytes,11,rep,name=texts"`
	Local  int              // without a number
}

// short writes itself.
type short struct{ text string }

func (s *short) Marshal() ([]byte, error) { return []byte(s.text), nil }

func (s *short) Unmarshal(data []byte) error {
	if s.text = string(data); len(data) > 3 {
		return errors.New("too long")
	}
	return nil
}

func Example() {
	data, err := protobuf.Marshal(&lamp{Name: "a", On: true})
	fmt.Printf("%x %v\n", data, err)
	var l lamp
	err = protobuf.Unmarshal(data, &l)
	fmt.Println(l.Name, l.On, err)
	// Output:
	// 08011201612000 <nil>
	// a true <nil>
}

func whole() *lamp {
	return &lamp{
		Name: "n", On: true, Watts: new(1.5), Count: -3, Size: new(int64(1 << 40)), Raw: []byte{}, Labels: []string{"", "x"},
		Inner: &lamp{}, Parts: []lamp{{}, {Name: "p"}}, ByName: map[string]lamp{"b": {Count: 2}, "a": {}},
		Texts: map[string]short{"k": {"abc"}},
	}
}

func TestRoundTrip(t *testing.T) {
	data, err := protobuf.Marshal(whole())
	if err != nil {
		t.Fatalf("Marshal() = %v, want nil", err)
	}
	var got lamp
	if err := protobuf.Unmarshal(data, &got); err != nil || !reflect.DeepEqual(&got, whole()) {
		t.Errorf("Unmarshal() = %+v, %v, want %+v, nil", got, err, whole())
	}
}

func TestMalformed(t *testing.T) {
	deep := []byte{}
	for range 2000 {
		deep = protowire.AppendBytes(protowire.AppendTag(nil, 8, protowire.BytesType), deep)
	}
	for _, one := range []struct{ name, data, want string }{
		{"a number that ends early", "\x08", "EOF"},
		{"a text that ends early", "\x12\x05a", "EOF"},
		{"a bool as text", "\x0a\x01a", "On: protobuf: the field has another type"},
		{"bytes as a number", "\x30\x01", "Raw: protobuf: the field has another type"},
		{"a map as a number", "\x50\x01", "ByName: protobuf: the field has another type"},
		{"field number zero", "\x00\x01", "invalid field number"},
		{"an entry that refuses", "\x5a\x06\x12\x04long", "Texts: too long"},
		{"2,000 levels", string(deep), "nested too deeply"},
	} {
		err := protobuf.Unmarshal([]byte(one.data), &lamp{})
		if err == nil || !strings.Contains(err.Error(), one.want) {
			t.Errorf("Unmarshal(%s) = %v, want an error with %q", one.name, err, one.want)
		}
	}
	if err := protobuf.Unmarshal([]byte("\xfa\x01\x01x\x12\x01a"), &lamp{}); err != nil {
		t.Errorf("Unmarshal(an unknown field) = %v, want nil", err)
	}
}

// FuzzUnmarshal: what can be read is written to a message that is read as the same.
func FuzzUnmarshal(f *testing.F) {
	data, err := protobuf.Marshal(whole())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte("\x0a\x01a"))
	f.Add([]byte("\x42\x02\x42\x00\x4a\x02\x10\x01"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var first, second lamp
		if protobuf.Unmarshal(data, &first) != nil {
			return
		}
		again, err := protobuf.Marshal(&first)
		if err != nil {
			t.Fatalf("Marshal(%+v) = %v, want nil", first, err)
		}
		if err := protobuf.Unmarshal(again, &second); err != nil {
			t.Fatalf("Unmarshal(%x) = %v, want nil", again, err)
		}
		if last, err := protobuf.Marshal(&second); err != nil || !bytes.Equal(last, again) {
			t.Errorf("Marshal(%+v) = %x, %v, want %x, nil", second, last, err, again)
		}
	})
}
