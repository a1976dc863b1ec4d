package ownership

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// elemKind is the kind of a path element, in the order in which siblings are sorted.
type elemKind uint8

const (
	byName  elemKind = iota // a field or map key
	byKeys                  // a list item with these keys
	byValue                 // the item of a set
	byIndex
)

// elem is one element of a path.
type elem struct {
	kind elemKind
	// name is the name of a field.
	name string
	// parts are the keys of a list item by name, or the one value.
	parts []part
	// text is the element as a JSON string in FieldsV1; empty until it is needed.
	text string
}

// part is a scalar, and its name if it is a key.
type part struct {
	name string
	kind scalarKind
	text string
	// number is exact. Integers beyond 2^53 are left to structured-merge-diff.
	number float64
}

// scalarKind is in the order of structured-merge-diff's values.
type scalarKind uint8

const (
	isNumber scalarKind = iota
	isString
	isBool
	isNull
)

// exactIntegers is the first integer that has a neighbour of the same float64.
const exactIntegers = 1 << 53

var errOdd = errors.New("ownership: a list key that is not a plain scalar")

func named(name string) elem {
	e := elem{kind: byName, name: name}
	e.text = string(e.appendText(nil))
	return e
}

func (e *elem) compare(o *elem) int {
	if e.kind != o.kind {
		return cmp.Compare(e.kind, o.kind)
	}
	if e.kind == byName {
		return strings.Compare(e.name, o.name)
	}
	return comparePartLists(e.parts, o.parts)
}

func comparePartLists(a, b []part) int {
	for i := range min(len(a), len(b)) {
		if c := a[i].compare(&b[i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

func (p *part) compare(o *part) int {
	if c := strings.Compare(p.name, o.name); c != 0 {
		return c
	}
	if p.kind != o.kind {
		return cmp.Compare(p.kind, o.kind)
	}
	if p.kind == isString {
		return strings.Compare(p.text, o.text)
	}
	return cmp.Compare(p.number, o.number)
}

// appendText appends the element as the JSON string that is its key in FieldsV1.
func (e *elem) appendText(out []byte) []byte {
	if e.text != "" {
		return append(out, e.text...)
	}
	if e.kind == byName {
		return append(appendEscaped(append(out, `"f:`...), e.name), '"')
	}
	if !e.plain() {
		return e.appendForeign(out)
	}
	if e.kind == byValue {
		out = e.parts[0].appendJSON(append(out, `"v:`...))
		return append(out, '"')
	}
	out = append(out, `"k:{`...)
	for i := range e.parts {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, `\"`...), e.parts[i].name...), `\":`...)
		out = e.parts[i].appendJSON(out)
	}
	return append(out, `}"`...)
}

// appendJSON appends the part as JSON within a JSON string.
func (p *part) appendJSON(out []byte) []byte {
	switch p.kind {
	case isString:
		return append(append(append(out, `\"`...), p.text...), `\"`...)
	case isBool:
		return strconv.AppendBool(out, p.number != 0)
	case isNull:
		return append(out, "null"...)
	}
	return strconv.AppendInt(out, int64(p.number), 10)
}

// plain reports whether no character of the element needs an escape and no number has a fraction.
func (e *elem) plain() bool {
	for i := range e.parts {
		p := &e.parts[i]
		if p.kind == isNumber && (p.number != float64(int64(p.number)) || p.number >= exactIntegers || p.number <= -exactIntegers) ||
			!plainText(p.text) || !plainText(p.name) {
			return false
		}
	}
	return e.kind != byIndex
}

func plainText(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return true
}

// appendForeign appends the element as structured-merge-diff encodes it.
func (e *elem) appendForeign(out []byte) []byte {
	text, err := fieldpath.SerializePathElement(e.path())
	if err != nil {
		return append(out, `""`...) // an element has what it selects by
	}
	return append(appendEscaped(append(out, '"'), text), '"')
}

// appendEscaped appends s as part of a JSON string. It escapes only what it must: FieldsV1 is
// compared byte by byte.
func appendEscaped(out []byte, s string) []byte {
	const hex = "0123456789abcdef"
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
		case c >= ' ':
			out = append(out, c)
		case c == '\n':
			out = append(out, `\n`...)
		case c == '\r':
			out = append(out, `\r`...)
		case c == '\t':
			out = append(out, `\t`...)
		default:
			out = append(out, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
		}
	}
	return out
}

// path returns the element in structured-merge-diff's form.
func (e *elem) path() fieldpath.PathElement {
	switch e.kind {
	case byName:
		return fieldpath.FieldNameElement(e.name)
	case byKeys:
		fields := make([]value.Field, len(e.parts))
		for i := range e.parts {
			fields[i] = value.Field{Name: e.parts[i].name, Value: value.NewValueInterface(e.parts[i].scalar())}
		}
		return fieldpath.KeyElement(fields...)
	case byValue:
		return fieldpath.ValueElement(value.NewValueInterface(e.parts[0].scalar()))
	}
	return fieldpath.IndexElement(int(e.parts[0].number))
}

func (p *part) scalar() any {
	switch p.kind {
	case isString:
		return p.text
	case isBool:
		return p.number != 0
	case isNull:
		return nil
	}
	if i := int64(p.number); float64(i) == p.number {
		return i
	}
	return p.number
}

// elemOf is the inverse of path.
func elemOf(p fieldpath.PathElement) (elem, error) {
	var e elem
	switch {
	case p.FieldName != nil:
		return named(*p.FieldName), nil
	case p.Key != nil:
		e.kind = byKeys
		for _, f := range *p.Key {
			one, err := partOf(f.Value)
			if err != nil {
				return e, err
			}
			one.name = f.Name
			e.parts = append(e.parts, one)
		}
	case p.Value != nil:
		one, err := partOf(*p.Value)
		if err != nil {
			return e, err
		}
		e.kind, e.parts = byValue, []part{one}
	case p.Index != nil:
		e.kind, e.parts = byIndex, []part{{number: float64(*p.Index)}}
	}
	text, err := fieldpath.SerializePathElement(p)
	if err != nil {
		return e, fmt.Errorf("ownership: %w", err)
	}
	e.text = string(append(appendEscaped([]byte{'"'}, text), '"'))
	return e, nil
}

func partOf(v value.Value) (part, error) {
	switch {
	case v.IsNull():
		return part{kind: isNull}, nil
	case v.IsString():
		return part{kind: isString, text: v.AsString()}, nil
	case v.IsBool():
		if v.AsBool() {
			return part{kind: isBool, number: 1}, nil
		}
		return part{kind: isBool}, nil
	case v.IsFloat():
		return part{number: v.AsFloat()}, nil
	case v.IsInt() && v.AsInt() < exactIntegers && v.AsInt() > -exactIntegers:
		return part{number: float64(v.AsInt())}, nil
	}
	return part{}, errOdd
}

// flatten appends the paths of s.
func flatten(out set, s *fieldpath.Set) (set, error) {
	var members, children []fieldpath.PathElement
	s.Members.Iterate(func(p fieldpath.PathElement) { members = append(members, p) })
	s.Children.Iterate(func(p fieldpath.PathElement) { children = append(children, p) })
	all := append(members, children...)
	// Not slices.SortFunc, which is compiled again for each struct: 13 kB.
	sort.Slice(all, func(i, j int) bool { return all[i].Less(all[j]) })
	all = slices.CompactFunc(all, fieldpath.PathElement.Equals)
	for _, p := range all {
		e, err := elemOf(p)
		if err != nil {
			return nil, err
		}
		at := len(out)
		out = out.open(&e, s.Members.Has(p))
		if below, ok := s.Children.Get(p); ok {
			if out, err = flatten(out, below); err != nil {
				return nil, err
			}
		}
		out = out.close(at)
	}
	return out, nil
}
