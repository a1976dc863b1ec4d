package structural

import (
	"fmt"
	"reflect"
)

// A Pair is a value and what it was before an update, as far as that is known.
type Pair struct {
	New, Old any
	schema   *Schema
	equal    *bool
	fields   map[string]*Pair
	items    map[int]*Pair
	// byKey holds the old items of a list of type map.
	byKey map[string]any
}

// Correlate returns the pair of a value of schema s, which may be nil.
func Correlate(v, old any, s *Schema) *Pair { return &Pair{New: v, Old: old, schema: s} }

// Equal reports whether the value is the same, as far as kube-apiserver can tell: a field without a schema
// makes an object another one.
func (p *Pair) Equal() bool {
	if p == nil {
		return false
	}
	if p.equal == nil {
		equal := p.compare()
		p.equal = &equal
	}
	return *p.equal
}

func (p *Pair) compare() bool {
	switch now := p.New.(type) {
	case map[string]any:
		old, ok := p.Old.(map[string]any)
		if !ok || len(old) != len(now) {
			return false
		}
		for name := range now {
			if !p.Key(name).Equal() {
				return false
			}
		}
		return true
	case []any:
		old, ok := p.Old.([]any)
		if !ok || len(old) != len(now) {
			return false
		}
		for i := range now {
			one := p.Index(i)
			if one == nil && p.byKey == nil {
				return reflect.DeepEqual(now, old)
			}
			if !one.Equal() {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(p.New, p.Old)
}

// Key returns the pair of a field; nil if the field was not there or has no schema.
func (p *Pair) Key(name string) *Pair {
	if p == nil {
		return nil
	}
	old, ok := p.Old.(map[string]any)
	now, _ := p.New.(map[string]any)
	if !ok || p.schema == nil {
		return nil
	}
	if have := p.fields[name]; have != nil {
		return have
	}
	was, existed := old[name]
	is, exists := now[name]
	if !existed || !exists {
		return nil
	}
	part, known := p.schema.field(name)
	if !known || part == nil {
		return nil
	}
	if p.fields == nil {
		p.fields = map[string]*Pair{}
	}
	p.fields[name] = Correlate(is, was, part)
	return p.fields[name]
}

// Index returns the pair of an item of a list of type map; nil if there was no item with its keys, or for
// any other list.
func (p *Pair) Index(i int) *Pair {
	if p == nil || p.schema == nil || p.schema.Items == nil {
		return nil
	}
	old, ok := p.Old.([]any)
	now, _ := p.New.([]any)
	if !ok || i >= len(now) || p.schema.ListType != "map" {
		return nil
	}
	if have := p.items[i]; have != nil {
		return have
	}
	if p.byKey == nil {
		p.byKey = map[string]any{}
		for _, item := range old {
			key, ok := p.schema.keyOf(item)
			if _, twice := p.byKey[key]; ok && !twice {
				p.byKey[key] = item
			}
		}
	}
	key, ok := p.schema.keyOf(now[i])
	was, existed := p.byKey[key]
	if !ok || !existed {
		return nil
	}
	if p.items == nil {
		p.items = map[int]*Pair{}
	}
	p.items[i] = Correlate(now[i], was, p.schema.Items)
	return p.items[i]
}

// OldItems returns a function that finds the item of old, a former list of type map, that has the
// keys of an item; nil if there is none, and for any other list.
func (s *Schema) OldItems(old []any) func(item any) any {
	if s.ListType != "map" || len(s.ListMapKeys) == 0 || len(old) == 0 {
		return func(any) any { return nil }
	}
	byKey := make(map[string]any, len(old))
	for _, item := range old {
		if key, ok := s.keyOf(item); ok {
			if _, twice := byKey[key]; !twice {
				byKey[key] = item
			}
		}
	}
	return func(item any) any {
		if key, ok := s.keyOf(item); ok {
			return byKey[key]
		}
		return nil
	}
}

// keyOf returns the values of the keys of an item of a list of type map that has all of them.
func (s *Schema) keyOf(item any) (string, bool) {
	fields, _ := item.(map[string]any)
	key := ""
	for _, name := range s.ListMapKeys {
		switch v := fields[name].(type) {
		case bool, float64, int64, string:
			key += fmt.Sprintf("%T %q ", v, fmt.Sprint(v))
		default:
			return "", false
		}
	}
	return key, fields != nil && key != ""
}
