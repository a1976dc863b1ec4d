package typed

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sync"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/planekit/planekit/internal/structural"
)

// list is a list: that of an object, or a concatenation of two.
type list struct {
	size int
	at   func(int) ref.Val
	raw  func() []any
	// text is set if the elements are texts.
	text bool
	// key returns the key of an element of a set, or of a list of type map; nil for any other list.
	// Lists with keys are equal in any order, and their sum has each key once.
	key   func(ref.Val) any
	index func() map[any]ref.Val
}

var _ traits.Lister = (*list)(nil)

func newList(items []any, s *structural.Schema) ref.Val {
	if s.Items == nil {
		return types.NewErr("invalid array type, expected Items with a non-empty Schema")
	}
	l := &list{
		size: len(items), text: s.Items.Type == "string",
		at:  func(i int) ref.Val { return Value(items[i], s.Items) },
		raw: func() []any { return items },
	}
	switch s.ListType {
	case "", "atomic":
	case "set":
		l.keyed(identity)
	case "map":
		l.keyed(func(item ref.Val) any { return keyOf(item, s.ListMapKeys) })
	default:
		return types.NewErr("invalid x-kubernetes-list-type, expected 'map', 'set' or 'atomic' but got %s", s.ListType)
	}
	return l
}

// keyed makes l a list with keys.
func (l *list) keyed(key func(ref.Val) any) {
	l.key = key
	l.index = sync.OnceValue(func() map[any]ref.Val {
		all := make(map[any]ref.Val, l.size)
		for i := range l.size {
			item := l.at(i)
			all[key(item)] = item
		}
		return all
	})
}

// identity returns something that is equal for equal values.
func identity(v ref.Val) any {
	switch v := v.(type) {
	case types.String, types.Int, types.Uint, types.Double, types.Bool, types.Null:
		return v
	case types.Bytes:
		return "bytes" + string(v)
	case types.Timestamp:
		return v.UTC()
	case types.Duration:
		return v.Duration
	}
	data, err := json.Marshal(v.Value())
	if err != nil {
		return err.Error()
	}
	return compound(data)
}

// compound is the JSON of an object or a list, which no other key equals.
type compound string

// keyOf returns the values of the keys of an element of a list of type map.
func keyOf(item ref.Val, names []string) any {
	fields, _ := item.Value().(map[string]any)
	if len(names) == 1 {
		switch v := fields[names[0]].(type) {
		case string, int64, float64, bool, nil:
			return v
		}
	}
	key := ""
	for _, name := range names {
		key += fmt.Sprintf("%T %[1]q ", fields[name])
	}
	return key
}

// Get implements [traits.Indexer].
func (l *list) Get(index ref.Val) ref.Val {
	n, ok := index.(types.Int)
	if !ok {
		return types.ValOrErr(index, "unsupported index: %v", index)
	}
	if n < 0 || n >= types.Int(l.size) {
		return types.NewErr("index out of bounds: %v", index)
	}
	return l.at(int(n))
}

// Iterator implements [traits.Iterable].
func (l *list) Iterator() traits.Iterator { return &iterator{size: l.size, at: l.at} }

// Size implements [traits.Sizer].
func (l *list) Size() ref.Val { return types.Int(l.size) }

// Contains implements [traits.Container].
func (l *list) Contains(v ref.Val) ref.Val {
	if types.IsUnknownOrError(v) {
		return v
	}
	var wrong ref.Val
	for i := range l.size {
		same := l.at(i).Equal(v)
		if same == types.True {
			return types.True
		}
		if _, ok := same.(types.Bool); !ok && wrong == nil {
			wrong = types.MaybeNoSuchOverloadErr(same)
		}
	}
	if wrong != nil {
		return wrong
	}
	return types.False
}

// Equal implements [ref.Val].
func (l *list) Equal(other ref.Val) ref.Val {
	with, ok := other.(traits.Lister)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	if l.Size() != with.Size() {
		return types.False
	}
	i := 0
	for it := with.Iterator(); it.HasNext() == types.True; i++ {
		item := it.Next()
		var mine ref.Val
		if l.key == nil {
			mine = l.at(i)
		} else if mine, ok = l.index()[l.key(item)]; !ok {
			return types.False
		}
		if same := mine.Equal(item); same != types.True {
			return same
		}
	}
	return types.True
}

// Add implements [traits.Adder]. The sum of lists with keys has the elements of other in place of
// those with the same keys, and the rest of other at its end.
func (l *list) Add(other ref.Val) ref.Val {
	with, ok := other.(traits.Lister)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	if l.key == nil {
		return l.concatenate(with)
	}
	all := make([]ref.Val, 0, l.size)
	position := make(map[any]int, l.size)
	put := func(item ref.Val) {
		key := l.key(item)
		if at, ok := position[key]; ok {
			all[at] = item
			return
		}
		position[key] = len(all)
		all = append(all, item)
	}
	for i := range l.size {
		put(l.at(i))
	}
	for it := with.Iterator(); it.HasNext() == types.True; {
		put(it.Next())
	}
	out := &list{size: len(all), text: l.text, at: func(i int) ref.Val { return all[i] }, raw: func() []any {
		values := make([]any, len(all))
		for i, item := range all {
			values[i] = item.Value()
		}
		return values
	}}
	out.keyed(l.key)
	return out
}

// concatenate copies nothing, because CEL charges nothing for the sum of two lists.
func (l *list) concatenate(other traits.Lister) ref.Val {
	n, _ := other.Size().(types.Int)
	return &list{size: l.size + int(n), text: l.text,
		at: func(i int) ref.Val {
			if i < l.size {
				return l.at(i)
			}
			return other.Get(types.Int(i - l.size))
		},
		raw: func() []any {
			all := append([]any(nil), l.raw()...)
			for it := other.Iterator(); it.HasNext() == types.True; {
				all = append(all, it.Next().Value())
			}
			return all
		}}
}

// ConvertToNative implements [ref.Val].
func (l *list) ConvertToNative(t reflect.Type) (any, error) {
	if t.Kind() != reflect.Slice {
		return nil, fmt.Errorf("type conversion error from '%s' to '%s'", l.Type(), t)
	}
	if !l.text {
		return l.raw(), nil
	}
	var texts []string
	for _, v := range l.raw() {
		text, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("expected all elements to be of type string, but got %T", v)
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// ConvertToType implements [ref.Val].
func (l *list) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case types.ListType:
		return l
	case types.TypeType:
		return types.ListType
	}
	return types.NewErr("type conversion error from '%s' to '%s'", l.Type(), t.TypeName())
}

// Type implements [ref.Val].
func (l *list) Type() ref.Type { return types.ListType }

// Value implements [ref.Val].
func (l *list) Value() any { return l.raw() }
