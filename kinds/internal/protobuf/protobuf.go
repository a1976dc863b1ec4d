// Package protobuf writes and reads structs as protobuf messages. The table is the structs themselves: their tags have
// the numbers of fields, as those of Kubernetes' types do.
//
//	func (s *APIService) Marshal() ([]byte, error)    { return protobuf.Marshal(s) }
//	func (s *APIService) Unmarshal(data []byte) error { return protobuf.Unmarshal(data, s) }
//
// The bytes are those of the code that Kubernetes generates: fields in the order of their numbers, also if they are zero,
// unless they are nil, and maps by key. A struct with methods Marshal and Unmarshal of its own, such as metav1.ObjectMeta,
// is written by them. Unknown fields are skipped.
//
// How it fails: Unmarshal returns an error for a message that is malformed, that has a field of another type, or in
// which messages are nested more than 1,000 levels deep.
//
// What it leaves out: enums, floats of 32 bits, packed lists, maps by anything but strings, and fields of these kinds panic.
package protobuf

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
)

// maxDepth bounds the levels of messages.
const maxDepth = 1000

// message is a struct that writes itself.
type message interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

var messageType = reflect.TypeFor[message]()

// A field is a field of a struct with a number.
type field struct {
	index  int
	number protowire.Number
}

// tables holds the fields of each struct type, by number.
var tables sync.Map

func fieldsOf(t reflect.Type) []field {
	if known, ok := tables.Load(t); ok {
		return known.([]field)
	}
	var all []field
	for i := range t.NumField() {
		if tag := t.Field(i).Tag.Get("protobuf"); tag != "" {
			number, _ := strconv.Atoi(strings.Split(tag, ",")[1])
			f := field{i, protowire.Number(number)}
			at, _ := find(all, f.number)
			all = slices.Insert(all, at, f)
		}
	}
	tables.Store(t, all)
	return all
}

// find returns where the field with that number is, or belongs, among the fields by number.
func find(fields []field, number protowire.Number) (int, bool) {
	return slices.BinarySearchFunc(fields, number, func(f field, n protowire.Number) int { return int(f.number - n) })
}

// Marshal returns *v as a message. v is a pointer to a struct.
func Marshal(v any) ([]byte, error) { return appendStruct(nil, reflect.ValueOf(v).Elem()) }

func appendStruct(to []byte, v reflect.Value) ([]byte, error) {
	var err error
	for _, f := range fieldsOf(v.Type()) {
		if to, err = appendField(to, f.number, v.Field(f.index)); err != nil {
			return nil, err
		}
	}
	return to, nil
}

// appendField appends all values of a field.
func appendField(to []byte, number protowire.Number, v reflect.Value) (_ []byte, err error) {
	switch {
	case v.Kind() == reflect.Pointer:
		if v.IsNil() {
			return to, nil
		}
		return appendOne(to, number, v.Elem())
	case v.Kind() == reflect.Map:
		return appendMap(to, number, v)
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8:
		if v.IsNil() {
			return to, nil
		}
		return protowire.AppendBytes(protowire.AppendTag(to, number, protowire.BytesType), v.Bytes()), nil
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			if to, err = appendOne(to, number, v.Index(i)); err != nil {
				return nil, err
			}
		}
		return to, nil
	}
	return appendOne(to, number, v)
}

// appendOne appends one value with its tag.
func appendOne(to []byte, number protowire.Number, v reflect.Value) ([]byte, error) {
	switch v.Kind() {
	case reflect.String:
		return protowire.AppendString(protowire.AppendTag(to, number, protowire.BytesType), v.String()), nil
	case reflect.Bool:
		return protowire.AppendVarint(protowire.AppendTag(to, number, protowire.VarintType), protowire.EncodeBool(v.Bool())), nil
	case reflect.Int32, reflect.Int64:
		return protowire.AppendVarint(protowire.AppendTag(to, number, protowire.VarintType), uint64(v.Int())), nil
	case reflect.Float64:
		return protowire.AppendFixed64(protowire.AppendTag(to, number, protowire.Fixed64Type), math.Float64bits(v.Float())), nil
	}
	var inner []byte
	var err error
	if own, ok := ownMessage(v); ok {
		inner, err = own.Marshal()
	} else {
		inner, err = appendStruct(nil, v)
	}
	return protowire.AppendBytes(protowire.AppendTag(to, number, protowire.BytesType), inner), err
}

// ownMessage returns v as a message that writes itself. The values of maps have no address and are copied.
func ownMessage(v reflect.Value) (message, bool) {
	if !reflect.PointerTo(v.Type()).Implements(messageType) {
		return nil, false
	}
	if !v.CanAddr() {
		copied := reflect.New(v.Type()).Elem()
		copied.Set(v)
		v = copied
	}
	return v.Addr().Interface().(message), true
}

// appendMap appends the entries of a map, which are messages with a key and a value, by key.
func appendMap(to []byte, number protowire.Number, v reflect.Value) ([]byte, error) {
	var keys []string
	for _, key := range v.MapKeys() {
		keys = append(keys, key.String())
	}
	slices.Sort(keys)
	for _, name := range keys {
		key := reflect.ValueOf(name).Convert(v.Type().Key())
		entry, err := appendOne(nil, 1, key)
		if err == nil {
			entry, err = appendOne(entry, 2, v.MapIndex(key))
		}
		if err != nil {
			return nil, err
		}
		to = protowire.AppendBytes(protowire.AppendTag(to, number, protowire.BytesType), entry)
	}
	return to, nil
}

var (
	errTooDeep = errors.New("protobuf: messages are nested too deeply")
	errType    = errors.New("protobuf: the field has another type")
)

// Unmarshal reads a message into *v, a struct. Fields that the message does not have keep their values.
func Unmarshal(data []byte, v any) error { return readStruct(data, reflect.ValueOf(v).Elem(), 1) }

func readStruct(data []byte, v reflect.Value, depth int) error {
	if depth > maxDepth {
		return errTooDeep
	}
	fields := fieldsOf(v.Type())
	return each(data, func(number protowire.Number, kind protowire.Type, value []byte) error {
		i, ok := find(fields, number)
		if !ok {
			return nil
		}
		if err := readField(kind, value, v.Field(fields[i].index), depth); err != nil {
			return fmt.Errorf("%s: %w", v.Type().Field(fields[i].index).Name, err)
		}
		return nil
	})
}

// each calls f with each field of a message. The value of bytes comes without its length.
func each(data []byte, f func(protowire.Number, protowire.Type, []byte) error) error {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return protowire.ParseError(n)
		}
		data = data[n:]
		length := protowire.ConsumeFieldValue(number, kind, data)
		if length < 0 {
			return protowire.ParseError(length)
		}
		value := data[:length]
		if kind == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(value) // its length was checked
		}
		if err := f(number, kind, value); err != nil {
			return err
		}
		data = data[length:]
	}
	return nil
}

// readField adds a value to a list or map, or sets a field.
func readField(kind protowire.Type, data []byte, v reflect.Value, depth int) error {
	switch {
	case v.Kind() == reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		return readOne(kind, data, v.Elem(), depth)
	case v.Kind() == reflect.Map:
		return readEntry(kind, data, v, depth)
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8:
		if kind != protowire.BytesType {
			return errType
		}
		v.SetBytes(append([]byte{}, data...))
		return nil
	case v.Kind() == reflect.Slice:
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
		return readOne(kind, data, v.Index(v.Len()-1), depth)
	}
	return readOne(kind, data, v, depth)
}

// wireTypes are the types of values on the wire.
var wireTypes = map[reflect.Kind]protowire.Type{
	reflect.Bool: protowire.VarintType, reflect.Int32: protowire.VarintType, reflect.Int64: protowire.VarintType,
	reflect.Float64: protowire.Fixed64Type, reflect.String: protowire.BytesType, reflect.Struct: protowire.BytesType,
}

// readOne reads one value, which has been consumed once and is whole.
func readOne(kind protowire.Type, data []byte, v reflect.Value, depth int) error {
	if wireTypes[v.Kind()] != kind {
		return errType
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(string(data))
		return nil
	case reflect.Bool:
		n, _ := protowire.ConsumeVarint(data)
		v.SetBool(n != 0)
		return nil
	case reflect.Int32:
		n, _ := protowire.ConsumeVarint(data)
		v.SetInt(int64(int32(n)))
		return nil
	case reflect.Int64:
		n, _ := protowire.ConsumeVarint(data)
		v.SetInt(int64(n))
		return nil
	case reflect.Float64:
		n, _ := protowire.ConsumeFixed64(data)
		v.SetFloat(math.Float64frombits(n))
		return nil
	}
	if own, ok := ownMessage(v); ok {
		return own.Unmarshal(data)
	}
	return readStruct(data, v, depth+1)
}

// readEntry adds an entry to a map.
func readEntry(kind protowire.Type, data []byte, v reflect.Value, depth int) error {
	if kind != protowire.BytesType {
		return errType
	}
	key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
	err := each(data, func(number protowire.Number, kind protowire.Type, data []byte) error {
		switch number {
		case 1:
			return readOne(kind, data, key, depth)
		case 2:
			return readOne(kind, data, value, depth)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	v.SetMapIndex(key, value)
	return nil
}
