package jsonpath

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strconv"
)

// filter reads a condition and the parenthesis behind it.
func (p *parser) filter() (step, error) {
	left, err := p.operand()
	if err != nil {
		return nil, err
	}
	p.spaces()
	operator := ""
	for _, o := range []string{"==", "!=", "<=", ">=", "<", ">"} {
		if p.take(o) {
			operator = o
			break
		}
	}
	if operator == "" {
		if !p.take(")") {
			return nil, errors.New("unclosed array expect )")
		}
		return keep(func(item any) bool { return len(left(item)) > 0 }), nil
	}
	p.spaces()
	right, err := p.operand()
	if err != nil {
		return nil, err
	}
	if p.spaces(); !p.take(")") {
		return nil, errors.New("unclosed array expect )")
	}
	return keep(func(item any) bool {
		a, b := left(item), right(item)
		return len(a) == 1 && len(b) == 1 && compare(operator, a[0], b[0])
	}), nil
}

// keep finds the items of a list, or the fields of an object, for which holds is true.
func keep(holds func(any) bool) step {
	return func(v any, add func(any)) {
		each(v, func(item any) {
			if holds(item) {
				add(item)
			}
		})
	}
}

// operand reads a path from the item, or a literal.
func (p *parser) operand() (func(item any) []any, error) {
	p.spaces()
	literal := func(v any) (func(any) []any, error) { return func(any) []any { return []any{v} }, nil }
	switch c := p.peek(); {
	case c == '@' || c == '$':
		path, err := p.path()
		if err != nil {
			return nil, err
		}
		return func(item any) []any { return path.find(item, maxCompared) }, nil
	case c == '\'' || c == '"':
		text, err := p.quoted()
		if err != nil {
			return nil, err
		}
		return literal(text)
	}
	begin := p.at
	for p.at < len(p.text) && (p.text[p.at] == '.' || p.text[p.at] == '-' || p.text[p.at] == '+' || isWord(p.text[p.at])) {
		p.at++
	}
	word := p.text[begin:p.at]
	switch word {
	case "true", "false":
		return literal(word == "true")
	case "":
		return nil, fmt.Errorf("unrecognized %q in a filter", p.text[begin:])
	}
	if n, err := strconv.ParseInt(word, 10, 64); err == nil {
		return literal(n)
	}
	n, err := strconv.ParseFloat(word, 64)
	if err != nil {
		return nil, fmt.Errorf("unrecognized %q in a filter", word)
	}
	return literal(n)
}

func isWord(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// compare compares two values of the same kind; all numbers are of one kind.
func compare(operator string, a, b any) bool {
	switch operator {
	case "==":
		return equal(a, b)
	case "!=":
		return !equal(a, b)
	}
	var order int
	x, number := float(a)
	y, other := float(b)
	if number && other {
		order = cmp.Compare(x, y)
	} else {
		s, ok := a.(string)
		t, same := b.(string)
		if !ok || !same {
			return false
		}
		order = cmp.Compare(s, t)
	}
	switch operator {
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	}
	return order >= 0
}

func equal(a, b any) bool {
	x, number := float(a)
	y, other := float(b)
	if number && other {
		return x == y
	}
	return reflect.DeepEqual(a, b)
}

func float(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}
