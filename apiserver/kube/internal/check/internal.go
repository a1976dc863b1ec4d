package check

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
)

// Internal returns a value as errors of Kubernetes show it. Its internal types have no names in JSON, so that a struct has
// the names of all of its Go fields.
func Internal(value any) any {
	v := reflect.ValueOf(value)
	if !v.IsValid() || !external(elem(v.Type())) {
		return value
	}
	return internal{v}
}

// elem returns the type of the items of lists and maps, and of what pointers lead to.
func elem(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	return t
}

// external reports whether a type is of a version of the API.
func external(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && strings.HasPrefix(t.PkgPath(), "k8s.io/api/")
}

type internal struct{ v reflect.Value }

func (i internal) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	err := write(&b, i.v)
	return b.Bytes(), err
}

func write(b *bytes.Buffer, v reflect.Value) error {
	switch k := v.Kind(); {
	case !external(elem(v.Type())), k == reflect.Map:
		data, err := json.Marshal(v.Interface())
		b.Write(data)
		return err
	case (k == reflect.Pointer || k == reflect.Slice) && v.IsNil():
		b.WriteString("null")
		return nil
	case k == reflect.Pointer:
		return write(b, v.Elem())
	case k == reflect.Slice:
		b.WriteByte('[')
		for i := range v.Len() {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := write(b, v.Index(i)); err != nil {
				return err
			}
		}
		b.WriteByte(']')
		return nil
	}
	b.WriteByte('{')
	err := writeFields(b, v)
	b.WriteByte('}')
	return err
}

// writeFields writes the fields of a struct. Those of an embedded struct are its own.
func writeFields(b *bytes.Buffer, v reflect.Value) error {
	for f, value := range v.Fields() {
		if f.Anonymous && external(f.Type) {
			if err := writeFields(b, value); err != nil {
				return err
			}
			continue
		}
		if b.Bytes()[b.Len()-1] != '{' {
			b.WriteByte(',')
		}
		b.WriteString(`"` + f.Name + `":`)
		if err := write(b, value); err != nil {
			return err
		}
	}
	return nil
}
