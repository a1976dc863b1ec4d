package structural

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"strconv"

	"github.com/planekit/planekit/internal/budget"
	"github.com/planekit/planekit/internal/pattern"
	"github.com/planekit/planekit/kinds/apiextensions"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// checks are the validations of one value, beside its type.
type checks struct {
	// slow is set if kube-openapi decides whether a value fulfils them.
	slow           bool
	format         string
	min, max       *float64
	exMin, exMax   bool
	minLen, maxLen int64 // -1 is none, as below
	pattern        *pattern.Pattern
	minItems       int64
	maxItems       int64
	minProps       int64
	maxProps       int64
	required       []string
	unique         bool
	enum           *enum
	// also holds the schemas that restrict the same value; nil if there are none.
	also *branches
	// words is about how long the text of an error is, without the value.
	words int
}

// branches are the schemas that restrict the value of another one.
type branches struct {
	allOf, anyOf, oneOf []*Schema
	not                 *Schema
	// count is the number of all schemas in them, and words about how long the texts of their errors are.
	count, words int
}

func orNone(p *int64) int64 {
	if p == nil {
		return -1
	}
	return *p
}

// noChecks has no validation. Most schemas share it.
var noChecks = &checks{minLen: -1, maxLen: -1, minItems: -1, maxItems: -1, minProps: -1, maxProps: -1, words: errorWords}

// errorWords is about how long the text of an error is that has no value and no list.
const errorWords = 100

func compileChecks(ctx context.Context, s *apiextensions.JSONSchemaProps) (*checks, error) {
	c := &checks{
		min: s.Minimum, max: s.Maximum, exMin: s.ExclusiveMinimum, exMax: s.ExclusiveMaximum,
		minLen: orNone(s.MinLength), maxLen: orNone(s.MaxLength), minItems: orNone(s.MinItems), maxItems: orNone(s.MaxItems),
		minProps: orNone(s.MinProperties), maxProps: orNone(s.MaxProperties), required: s.Required, unique: s.UniqueItems,
	}
	c.format = usedFormat(s)
	c.slow = s.MultipleOf != nil || s.UniqueItems
	for _, limit := range []*float64{s.Minimum, s.Maximum} {
		// Limits that are no integers of a few digits are compared in one of several ways.
		if limit != nil && (*limit != math.Trunc(*limit) || math.Abs(*limit) > 1<<52) {
			c.slow = true
		}
	}
	c.words = errorWords + len(s.Pattern)
	if s.Pattern != "" {
		var err error
		if c.pattern, err = pattern.Compile(budget.From(ctx), s.Pattern); isExceeded(err) {
			return nil, err
		} else if err != nil {
			c.slow = true
		}
	}
	var ok bool
	if c.enum, ok = newEnum(s.Enum); !ok {
		c.slow = true
	}
	if c.enum != nil {
		c.words += c.enum.words
	}
	var err error
	if c.also, err = compileNested(ctx, s); err != nil {
		return nil, err
	}
	if reflect.DeepEqual(c, noChecks) {
		return noChecks, nil
	}
	return c, nil
}

// compileNested compiles the schemas that restrict the value of s.
func compileNested(ctx context.Context, s *apiextensions.JSONSchemaProps) (*branches, error) {
	if len(s.AllOf)+len(s.AnyOf)+len(s.OneOf) == 0 && s.Not == nil || s.XIntOrString && plainIntOrString(s) {
		return nil, nil
	}
	out := &branches{}
	one := func(s *apiextensions.JSONSchemaProps) (*Schema, error) {
		part, err := compileBranch(ctx, s, out)
		return part, err
	}
	for _, list := range []struct {
		from []apiextensions.JSONSchemaProps
		to   *[]*Schema
	}{{s.AllOf, &out.allOf}, {s.AnyOf, &out.anyOf}, {s.OneOf, &out.oneOf}} {
		for i := range list.from {
			part, err := one(&list.from[i])
			if err != nil {
				return nil, err
			}
			*list.to = append(*list.to, part)
		}
	}
	var err error
	if s.Not != nil {
		out.not, err = one(s.Not)
	}
	return out, err
}

// compileBranch compiles what validates a value. It adds to the sums of in.
func compileBranch(ctx context.Context, s *apiextensions.JSONSchemaProps, in *branches) (*Schema, error) {
	out := &Schema{Type: s.Type, Nullable: s.Nullable, IntOrString: s.XIntOrString, Source: keywords(s)}
	var err error
	if out.checks, err = compileChecks(ctx, s); err != nil {
		return nil, err
	}
	in.count++
	in.words += out.checks.words
	if also := out.checks.also; also != nil {
		in.count += also.count
		in.words += also.words
	}
	if s.Items != nil && s.Items.Schema != nil {
		if out.Items, err = compileBranch(ctx, s.Items.Schema, in); err != nil {
			return nil, err
		}
	}
	for name, p := range s.Properties {
		part, err := compileBranch(ctx, &p, in)
		if err != nil {
			return nil, err
		}
		if out.Properties == nil {
			out.Properties = make(map[string]*Schema, len(s.Properties))
		}
		out.Properties[name] = part
	}
	if a := s.AdditionalProperties; a != nil {
		out.HasAdditional = true
		if a.Schema != nil {
			out.Additional, err = compileBranch(ctx, a.Schema, in)
		}
	}
	return out, err
}

// plainIntOrString reports whether the only thing that s says in anyOf or allOf is that a value is an integer
// or a string, as the extension does.
func plainIntOrString(s *apiextensions.JSONSchemaProps) bool {
	return len(s.AllOf) == 0 && len(s.OneOf) == 0 && s.Not == nil && isIntOrString(s.AnyOf)
}

func isIntOrString(anyOf []apiextensions.JSONSchemaProps) bool {
	if len(anyOf) != 2 {
		return false
	}
	data, err := json.Marshal(anyOf)
	return err == nil && string(data) == `[{"type":"integer"},{"type":"string"}]`
}

// An enum is a set of values.
type enum struct {
	// scalars holds the values that are no maps and no lists, and the keys of those that are.
	scalars map[any]struct{}
	// texts are the values that are strings.
	texts []string
	// words is how long the text of all values is.
	words int
}

// newEnum returns the set of the values; nil if there are none. It returns false if one of them is malformed.
func newEnum(values []apiextensions.JSON) (*enum, bool) {
	if len(values) == 0 {
		return nil, true
	}
	out := &enum{scalars: make(map[any]struct{}, len(values))}
	for _, e := range values {
		var v any
		if len(e.Raw) > 0 && utiljson.Unmarshal(e.Raw, &v) != nil {
			return out, false
		}
		out.words += len(e.Raw) + 4
		switch v := v.(type) {
		case nil: // kube-openapi ignores it
		case map[string]any, []any:
			out.scalars[compound(appendKey(nil, v))] = struct{}{}
		case string:
			out.texts = append(out.texts, v)
			out.scalars[v] = struct{}{}
		default:
			out.scalars[v] = struct{}{}
		}
	}
	return out, true
}

// has reports whether v is one of the values, as kube-openapi compares them: it converts numbers.
func (e *enum) has(v any, m *meter) bool {
	in := func(v any) bool { _, ok := e.scalars[v]; return ok }
	switch v := v.(type) {
	case nil:
		return false
	case int64:
		text := "\uFFFD"
		if int64(rune(v)) == v {
			text = string(rune(v))
		}
		return in(v) || in(float64(v)) || in(text)
	case float64:
		return in(v) || in(int64(v))
	case map[string]any, []any:
		key := appendKey(nil, v)
		return m.work(len(key)) && in(compound(key))
	}
	return in(v)
}

// appendKey appends a text that two values have in common if they are equal.
func appendKey(out []byte, v any) []byte {
	switch v := v.(type) {
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		out = append(out, '{')
		for _, name := range names {
			out = append(appendKey(append(appendText(out, name), ':'), v[name]), ',')
		}
		return append(out, '}')
	case []any:
		out = append(out, '[')
		for _, item := range v {
			out = append(appendKey(out, item), ',')
		}
		return append(out, ']')
	}
	return appendScalar(out, v)
}

func appendText(out []byte, text string) []byte { return strconv.AppendQuote(out, text) }

// appendScalar appends a value that is no map and no list. Integers differ from other numbers.
func appendScalar(out []byte, v any) []byte {
	switch v := v.(type) {
	case string:
		return appendText(out, v)
	case bool:
		return strconv.AppendBool(out, v)
	case int64:
		return strconv.AppendInt(out, v, 10)
	case float64:
		if v == 0 {
			v = 0 // without its sign
		}
		return strconv.AppendFloat(append(out, 'f'), v, 'g', -1, 64)
	}
	return append(out, "null"...)
}

// isExceeded reports whether err is about the budget, or the context, and not about a value.
func isExceeded(err error) bool {
	return errors.Is(err, budget.ErrExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
