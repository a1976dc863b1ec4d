// Package jsonpath finds values in JSON by paths as kubectl and the columns of CustomResourceDefinitions have
// them (https://kubernetes.io/docs/reference/kubectl/jsonpath/).
//
//	path, err := jsonpath.Parse(`.status.conditions[?(@.type=="Ready")].status`)
//	values := path.Find(object)
//
// A path has names (.a, ['a'], a dot in a name is \.), all fields or items (.*, [*]), indexes ([0], [-1]), ranges
// ([0:2], [::2]), lists of names or indexes (['a','b'], [0,1]), all values below (..a) and filters, which compare
// a path from an item with a literal or another such path (==, !=, <, <=, >, >=), or test that it exists.
//
// A path that leads nowhere has no values, which is no error. A Path may be used by many goroutines.
//
// What it leaves out: text around paths, range and end.
package jsonpath

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// maxLength bounds a path, and with it the depth of its filters.
const maxLength = 4096

// A Path finds values.
type Path struct{ steps []step }

// A step finds values in a value.
type step func(v any, add func(any))

// maxFound bounds the values that a path finds, also on its way, and maxCompared those of a path in a filter.
const maxFound, maxCompared = 100_000, 1000

// Find returns the values in v, which must not be changed. A path that leads to very many values has none.
func (p *Path) Find(v any) []any { return p.find(v, maxFound) }

func (p *Path) find(v any, most int) []any {
	values := []any{v}
	for _, s := range p.steps {
		var next []any
		for _, v := range values {
			s(v, func(found any) {
				if most--; most >= 0 {
					next = append(next, found)
				}
			})
			if most < 0 {
				return nil
			}
		}
		if values = next; len(values) == 0 {
			return nil
		}
	}
	return values
}

// Parse reads a path, with or without braces around it.
func Parse(text string) (*Path, error) {
	if len(text) > maxLength {
		return nil, fmt.Errorf("jsonpath: the path is longer than %d bytes", maxLength)
	}
	if inner, ok := strings.CutPrefix(text, "{"); ok {
		if text, ok = strings.CutSuffix(inner, "}"); !ok {
			return nil, errors.New("jsonpath: unclosed action")
		}
	}
	p := &parser{text: text}
	path, err := p.path()
	if err == nil && p.at < len(p.text) {
		err = fmt.Errorf("unexpected %q", p.text[p.at:])
	}
	if err != nil {
		return nil, fmt.Errorf("jsonpath: %w", err)
	}
	return path, nil
}

type parser struct {
	text string
	at   int
}

func (p *parser) peek() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

func (p *parser) take(prefix string) bool {
	if strings.HasPrefix(p.text[p.at:], prefix) {
		p.at += len(prefix)
		return true
	}
	return false
}

func (p *parser) spaces() {
	for p.peek() == ' ' {
		p.at++
	}
}

// path reads steps as long as there are some.
func (p *parser) path() (*Path, error) {
	out := &Path{}
	if !p.take("$") {
		p.take("@")
	}
	if c := p.peek(); c != 0 && c != '.' && c != '[' {
		out.steps = append(out.steps, child(p.name())) // the first dot may be missing
	}
	for {
		switch {
		case p.take(".."):
			out.steps = append(out.steps, descend)
			if c := p.peek(); c == '[' {
				continue
			}
			if err := p.named(out); err != nil {
				return nil, err
			}
		case p.take("."):
			if c := p.peek(); c == 0 || c == '[' {
				continue
			}
			if err := p.named(out); err != nil {
				return nil, err
			}
		case p.take("["):
			s, err := p.bracket()
			if err != nil {
				return nil, err
			}
			out.steps = append(out.steps, s)
		default:
			return out, nil
		}
	}
}

// named reads a name or an asterisk.
func (p *parser) named(out *Path) error {
	if p.take("*") {
		out.steps = append(out.steps, each)
		return nil
	}
	name := p.name()
	if name == "" {
		return errors.New("a name is missing")
	}
	out.steps = append(out.steps, child(name))
	return nil
}

// name reads a name, in which a backslash escapes a character.
func (p *parser) name() string {
	var out strings.Builder
	for p.at < len(p.text) {
		c := p.text[p.at]
		if c == '\\' && p.at+1 < len(p.text) {
			out.WriteByte(p.text[p.at+1])
			p.at += 2
			continue
		}
		if strings.IndexByte(".[]()=!<>, ", c) >= 0 {
			break
		}
		out.WriteByte(c)
		p.at++
	}
	return out.String()
}

// bracket reads what is between brackets.
func (p *parser) bracket() (step, error) {
	p.spaces()
	var s step
	var err error
	switch {
	case p.take("*"):
		s = each
	case p.take("?("):
		if s, err = p.filter(); err != nil {
			return nil, err
		}
	case p.peek() == '\'' || p.peek() == '"':
		if s, err = p.names(); err != nil {
			return nil, err
		}
	default:
		if s, err = p.indexes(); err != nil {
			return nil, err
		}
	}
	p.spaces()
	if !p.take("]") {
		return nil, errors.New("unterminated array")
	}
	return s, nil
}

func (p *parser) names() (step, error) {
	var all []step
	for {
		p.spaces()
		name, err := p.quoted()
		if err != nil {
			return nil, err
		}
		all = append(all, child(name))
		if p.spaces(); !p.take(",") {
			return union(all), nil
		}
	}
}

// quoted reads a text in single or double quotes.
func (p *parser) quoted() (string, error) {
	quote := p.peek()
	if quote != '\'' && quote != '"' {
		return "", errors.New("a quoted text is missing")
	}
	var out strings.Builder
	for p.at++; p.at < len(p.text); p.at++ {
		switch c := p.text[p.at]; {
		case c == quote:
			p.at++
			return out.String(), nil
		case c == '\\' && p.at+1 < len(p.text):
			p.at++
			out.WriteByte(p.text[p.at])
		default:
			out.WriteByte(c)
		}
	}
	return "", errors.New("unterminated quoted string")
}

// indexes reads indexes and ranges.
func (p *parser) indexes() (step, error) {
	end := strings.IndexByte(p.text[p.at:], ']')
	if end < 0 {
		return nil, errors.New("unterminated array")
	}
	text := p.text[p.at : p.at+end]
	p.at += end
	var all []step
	for part := range strings.SplitSeq(text, ",") {
		numbers := strings.Split(strings.TrimSpace(part), ":")
		if len(numbers) > 3 {
			return nil, fmt.Errorf("invalid array index %s", text)
		}
		var bounds [3]*int
		for i, digits := range numbers {
			if digits == "" && len(numbers) > 1 {
				continue
			}
			n, err := strconv.Atoi(digits)
			if err != nil {
				return nil, fmt.Errorf("invalid array index %s", text)
			}
			bounds[i] = &n
		}
		if len(numbers) == 1 {
			all = append(all, index(*bounds[0]))
			continue
		}
		if bounds[2] != nil && *bounds[2] <= 0 {
			return nil, errors.New("step must be > 0")
		}
		all = append(all, slice(bounds))
	}
	return union(all), nil
}

func child(name string) step {
	return func(v any, add func(any)) {
		if fields, ok := v.(map[string]any); ok {
			if v, ok := fields[name]; ok {
				add(v)
			}
		}
	}
}

func each(v any, add func(any)) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			add(item)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			add(v[name])
		}
	}
}

// descend finds v and all values below.
func descend(v any, add func(any)) {
	add(v)
	each(v, func(below any) { descend(below, add) })
}

func union(all []step) step {
	if len(all) == 1 {
		return all[0]
	}
	return func(v any, add func(any)) {
		for _, s := range all {
			s(v, add)
		}
	}
}

func index(i int) step {
	return func(v any, add func(any)) {
		items, _ := v.([]any)
		at := i
		if at < 0 {
			at += len(items)
		}
		if at >= 0 && at < len(items) {
			add(items[at])
		}
	}
}

func slice(bounds [3]*int) step {
	return func(v any, add func(any)) {
		items, _ := v.([]any)
		bound := func(p *int, missing int) int {
			if p == nil {
				return missing
			}
			n := *p
			if n < 0 {
				n += len(items)
			}
			return min(max(n, 0), len(items))
		}
		by := 1
		if bounds[2] != nil {
			by = *bounds[2]
		}
		for i := bound(bounds[0], 0); i < bound(bounds[1], len(items)) && i >= 0; i += by {
			add(items[i])
		}
	}
}
