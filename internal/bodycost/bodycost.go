// Package bodycost estimates the memory that a Go value needs for a JSON or protobuf text, before
// the text is decoded.
//
//	cost, err := types.JSON(ctx, body, reflect.TypeFor[corev1.Pod](), bodycost.Limits{Depth: 256, Bytes: 16 << 20})
//
// A container of a pod takes two bytes of protobuf, or three of JSON, and 800 bytes of memory:
// three megabytes would become a gigabyte. The estimate includes items of slices, entries of maps
// and values behind pointers. It excludes the bytes of strings, which take as much memory as in the
// text, and the results of a type's own UnmarshalJSON. Quantities that would take long to decode are
// refused.
package bodycost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/planekit/planekit/internal/jsonscan"
)

// ErrTooMuch marks a text that would take more memory than allowed.
var ErrTooMuch = errors.New("too many values")

// Limits limits a text.
type Limits struct {
	// Depth is the maximum number of levels of objects and arrays, or of messages.
	Depth int
	// Bytes is the maximum memory for the text.
	Bytes int
	// Values is the maximum number of fields, items and entries; zero means no limit. Code that
	// handles an object, such as field ownership, needs memory for each.
	Values int
}

// Cost holds the counts for a text.
type Cost struct {
	// Bytes is the estimate, and Values the number of values.
	Bytes, Values int
	// Merged counts the items of lists that a strategic merge patch merges item by item.
	Merged int
}

// Types caches the shapes of Go types. The zero value is ready to use. It is safe for concurrent
// use.
type Types struct{ known sync.Map } // reflect.Type to *shape

type form uint8

const (
	leaf    form = iota
	record       // a struct
	list         // a slice
	table        // a map
	dynamic      // an interface
)

// shape holds the facts about a type that an estimate needs.
type shape struct {
	form form
	// size is the size of the value behind a pointer; zero if the type is not a pointer.
	size int
	elem *shape
	each int // size of an item or entry
	// quantity is true for a resource.Quantity.
	quantity bool
	// merges is true if a strategic merge patch merges the list.
	merges bool
	once   sync.Once
	fields map[string]*shape
	// numbers holds the fields of a protobuf message.
	numbers map[int32]*shape
	// entry is the protobuf message of an entry of a map.
	entry *shape
	of    reflect.Type
	types *Types
}

// Sizes that the size of a type does not include: an entry of a map beside key and value, and a
// value in an interface.
const (
	entrySize   = 16
	dynamicSize = 64
)

var anything = &shape{form: dynamic}

// unstructured is a type that decodes its fields into maps.
type unstructured interface{ UnstructuredContent() map[string]any }

// shape returns the shape of t.
func (ts *Types) shape(t reflect.Type) *shape {
	if s, ok := ts.known.Load(t); ok {
		return s.(*shape)
	}
	s, _ := ts.known.LoadOrStore(t, ts.shapeOf(t))
	return s.(*shape)
}

func (ts *Types) shapeOf(t reflect.Type) *shape {
	size := 0
	for ; t.Kind() == reflect.Pointer; t = t.Elem() {
		size += int(t.Elem().Size())
	}
	s := &shape{size: size, of: t, types: ts, quantity: t.Name() == "Quantity" && strings.HasSuffix(t.PkgPath(), "api/resource")}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[unstructured]()) {
		s.form = dynamic
		return s
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return s
	}
	switch t.Kind() {
	case reflect.Struct:
		s.form = record
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 {
			s.form, s.each = list, int(t.Elem().Size())
		}
	case reflect.Map:
		s.form, s.each = table, int(t.Key().Size()+t.Elem().Size())+entrySize
	case reflect.Interface:
		s.form = dynamic
	}
	return s
}

// below returns the shape of items, entries or fields. It is computed at the first use, because
// types may be recursive.
func (s *shape) below() *shape {
	if s.types == nil { // a leaf
		return s.elem
	}
	s.once.Do(func() {
		switch s.form {
		case record:
			s.fields, s.numbers = map[string]*shape{}, map[int32]*shape{}
			s.addFields(s.of, true)
		case list:
			s.elem = s.types.shape(s.of.Elem())
		case table:
			s.elem = s.types.shape(s.of.Elem())
			s.entry = &shape{form: record, numbers: map[int32]*shape{2: s.elem}}
		}
	})
	return s.elem
}

// addFields adds the fields of t by name and, if messages is set, by number.
func (s *shape) addFields(t reflect.Type, messages bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		of := s.types.shape(f.Type)
		if strings.Contains(f.Tag.Get("patchStrategy"), "merge") && of.form == list {
			of = &shape{form: list, size: of.size, each: of.each, merges: true, of: of.of, types: of.types}
		}
		if number, ok := protobufNumber(f.Tag.Get("protobuf")); ok && messages {
			s.numbers[number] = of
		}
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if (strings.Contains(options, "inline") || f.Anonymous && name == "") && inner.Kind() == reflect.Struct {
			s.addFields(inner, false)
			continue
		}
		if name == "" {
			name = f.Name
		}
		if _, known := s.fields[name]; !known {
			s.fields[name] = of
		}
	}
}

// protobufNumber parses a tag such as bytes,2,rep,name=containers.
func protobufNumber(tag string) (int32, bool) {
	_, rest, _ := strings.Cut(tag, ",")
	digits, _, _ := strings.Cut(rest, ",")
	n, err := strconv.ParseInt(digits, 10, 32)
	return int32(n), err == nil
}

// JSON estimates the memory of a value of type t for text. Its errors are those of jsonscan.Scan,
// ErrTooMuch and ErrQuantity.
func (ts *Types) JSON(ctx context.Context, text []byte, t reflect.Type, l Limits) (Cost, error) {
	v := visitor{limits: l, next: ts.shape(t)}
	err := jsonscan.Scan(ctx, text, l.Depth, &v)
	return v.cost, err
}

// Dynamic estimates the memory of maps, slices and interfaces for text.
func Dynamic(ctx context.Context, text []byte, l Limits) (Cost, error) {
	v := visitor{limits: l, next: anything}
	err := jsonscan.Scan(ctx, text, l.Depth, &v)
	return v.cost, err
}

// visitor follows a text through the shapes of its values. The shape of a value that is not decoded
// is nil.
type visitor struct {
	cost   Cost
	limits Limits
	stack  []*shape // open objects and arrays
	// path is how long the path of the next value is, and paths holds that of each open object and array.
	path  int
	paths []int
	// named is the length of the paths of all values with names of dynamic objects.
	named int
	next  *shape // the next value
}

// charge adds one value and its bytes.
func (v *visitor) charge(bytes int) error {
	if v.cost.Bytes += bytes; v.cost.Bytes > v.limits.Bytes {
		return fmt.Errorf("%w: they take more than %d bytes of memory", ErrTooMuch, v.limits.Bytes)
	}
	if v.cost.Values++; v.cost.Values > v.limits.Values && v.limits.Values > 0 {
		return fmt.Errorf("%w: more than %d fields, items and entries", ErrTooMuch, v.limits.Values)
	}
	return nil
}

// value returns the shape of the value that begins, and charges for the value.
func (v *visitor) value() (*shape, error) {
	s, bytes := v.next, 0
	if len(v.stack) > 0 {
		top := v.stack[len(v.stack)-1]
		if top != nil && top.form == list {
			s, bytes = top.below(), top.each
			if top.merges {
				v.cost.Merged++
			}
		} else if top == anything {
			s = anything
		}
	}
	if s == nil {
		return nil, nil
	}
	if bytes += s.size; s.form == dynamic {
		bytes += dynamicSize
	}
	return s, v.charge(bytes)
}

func (v *visitor) Begin(open byte, _ int) error {
	s, err := v.value()
	switch {
	case s == nil:
	case s.form == dynamic:
		s = anything
	case open == '{' && s.form != record && s.form != table, open == '[' && s.form != list:
		s = nil // it cannot be decoded
	}
	v.stack, v.paths = append(v.stack, s), append(v.paths, v.path)
	v.next = nil
	return err
}

func (v *visitor) End(int) {
	last := len(v.stack) - 1
	v.path, v.stack, v.paths = v.paths[last], v.stack[:last], v.paths[:last]
}

func (v *visitor) Scalar(text []byte) error {
	s, err := v.value()
	if err != nil || s == nil || !s.quantity {
		return err
	}
	if text[0] == '"' {
		return CheckQuantity(jsonscan.Unquote(text))
	}
	return CheckQuantity(string(text))
}

// longName limits the key of a map whose values have fields, because errors name fields by their
// whole path.
const longName = 1024

// longPaths limits the paths of the fields of dynamic objects, all together, for the same reason. Those of 60,000 fields
// with paths of 100 bytes are six megabytes.
const longPaths = 32 << 20

// directives is the shape of lists that a strategic merge patch searches for every item of another
// list.
var directives = &shape{form: list, merges: true, elem: anything}

func (v *visitor) Name(quoted []byte) error {
	top := v.stack[len(v.stack)-1]
	switch {
	case top == nil:
		v.next = nil
		return nil
	case top.form == table:
		v.next = top.below()
		if len(quoted) > longName && (v.next.form == record || v.next.form == table) {
			return fmt.Errorf("%w: a key of %d bytes", ErrTooMuch, len(quoted))
		}
		v.cost.Bytes += top.each
	case top.form == record:
		top.below()
		v.next = top.fields[string(quoted[1:len(quoted)-1])]
		if len(quoted) > 1 && quoted[1] == '$' {
			v.next = directives
		}
	default:
		v.next = anything
		v.path = v.paths[len(v.paths)-1] + len(quoted)
		if v.named += v.path; v.named > longPaths {
			return fmt.Errorf("%w: the paths of their names have more than %d bytes", ErrTooMuch, longPaths)
		}
	}
	return nil
}
