package structural

import (
	"math"
	"strings"
	"unicode/utf8"

	"github.com/planekit/planekit/internal/pattern"
	"github.com/planekit/planekit/kinds/apiextensions"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// pass is one pass of validation over a value.
type pass struct {
	*meter
	// cheap is the number of steps left for matches of patterns that are not counted one by one.
	cheap int
}

// cheapMatches bounds the steps of matches of patterns in one pass before they are counted one by one,
// which takes three times as long.
const cheapMatches = 3_000_000

func newPass(m *meter) *pass { return &pass{meter: m, cheap: cheapMatches} }

// valid reports whether v is valid, as kube-openapi would. A value that is the same in was is valid. was is nil if
// v has no former value. The result means nothing once the budget is exceeded.
func (c *pass) valid(s *Schema, v any, was *Pair, root bool) bool {
	return c.fulfils(s, v, was, root) || was.Equal()
}

func (c *pass) fulfils(s *Schema, v any, was *Pair, root bool) bool {
	return c.work(validSteps) && c.ownValid(s, v) && c.alsoValid(s, v) && s.below(v, was, root, func(_ place, part *Schema, v any, was *Pair) bool {
		return c.valid(part, v, was, false)
	})
}

// validSteps estimates the steps for checking a value with a schema.
const validSteps = 3

// A place is that of a value in another one: the name of a field, or the index of an item.
type place struct {
	name  string
	index int
}

// below calls do for each value in v that has a schema, until it returns false.
func (s *Schema) below(v any, was *Pair, root bool, do func(at place, part *Schema, v any, was *Pair) bool) bool {
	switch v := v.(type) {
	case []any:
		if s.Items == nil {
			return true
		}
		for i, item := range v {
			if !do(place{index: i}, s.Items, item, was.Index(i)) {
				return false
			}
		}
	case map[string]any:
		if len(s.Properties) == 0 && s.Additional == nil {
			return true
		}
		for name, value := range v {
			part := s.Properties[name]
			if part == nil {
				part = s.Additional
			}
			if part == nil {
				continue
			}
			var former *Pair
			if was != nil && !(root && (name == "kind" || name == "apiVersion")) {
				former = was.Key(name)
			}
			if !do(place{name: name}, part, value, former) {
				return false
			}
		}
	}
	return true
}

// The steps of a call of kube-openapi for one schema and one value, and for each of two values that it compares.
const openapiSteps, compareSteps = 200, 20

// ownValid reports whether v fulfils what s says of the value itself.
func (c *pass) ownValid(s *Schema, v any) bool {
	if s.checks.slow || s.odd(v) {
		return c.openapiValid(s, v)
	}
	if s.checks == noChecks && s.Type == "" && !s.HasAdditional && !s.IntOrString {
		return true
	}
	if v == nil {
		return (s.Type == "" && !s.IntOrString || s.Nullable) && s.checks.enum == nil
	}
	if e := s.checks.enum; e != nil && !e.has(v, c.meter) {
		return false
	}
	switch v := v.(type) {
	case string:
		return s.takes("string") && c.validString(s.checks, v)
	case bool:
		return s.takes("boolean")
	case int64:
		return (s.takes("integer") || s.Type == "number") && s.checks.validInteger(v)
	case float64:
		return s.takes("number") && s.checks.validNumber(v)
	case []any:
		n := int64(len(v))
		return s.takes("array") && n >= s.checks.minItems && (s.checks.maxItems < 0 || n <= s.checks.maxItems)
	case map[string]any:
		return s.takes("object") && c.validObject(s, v)
	}
	return false
}

// openapiValid is ownValid by kube-openapi.
func (c *pass) openapiValid(s *Schema, v any) bool {
	steps := openapiSteps
	if items, ok := v.([]any); ok && s.checks.unique {
		steps = plus(steps, len(items)*len(items)*compareSteps)
	}
	if text, ok := v.(string); ok {
		steps = plus(steps, len(text))
		if s.checks.pattern != nil {
			steps = plus(steps, s.checks.pattern.Bound(len(text)))
		}
	}
	if !c.work(steps) {
		return false
	}
	schema, err := s.openapi()
	if err != nil || !validate.NewSchemaValidator(schema, nil, "", strfmt.Default).Validate(v).IsValid() {
		return false
	}
	fields, _ := v.(map[string]any)
	return !s.closed() || len(s.foreign(fields, 1)) == 0
}

// alsoValid reports whether v fulfils the nested schemas of s. Former values do not count there.
func (c *pass) alsoValid(s *Schema, v any) bool {
	also := s.checks.also
	if also == nil || v == nil {
		return true
	}
	return c.any(also.anyOf, v) && c.one(also.oneOf, v) && c.all(also.allOf, v) && (also.not == nil || !c.fulfils(also.not, v, nil, false))
}

func (c *pass) any(all []*Schema, v any) bool {
	for _, s := range all {
		if c.fulfils(s, v, nil, false) {
			return true
		}
	}
	return len(all) == 0
}

func (c *pass) one(all []*Schema, v any) bool {
	valid := 0
	for _, s := range all {
		if c.fulfils(s, v, nil, false) {
			valid++
		}
	}
	return valid == 1 || len(all) == 0
}

func (c *pass) all(all []*Schema, v any) bool {
	for _, s := range all {
		if !c.fulfils(s, v, nil, false) {
			return false
		}
	}
	return true
}

// odd reports whether kube-openapi has rules of its own for v.
func (s *Schema) odd(v any) bool {
	c := s.checks
	switch v := v.(type) {
	case nil, string:
		return c.format != "" && (s.Type != "string" || s.IntOrString)
	case int64:
		return c.format != "" && (s.Type != "integer" || s.IntOrString)
	case float64:
		return c.format != "" || s.Type == "integer" || s.IntOrString || math.IsNaN(v) || math.IsInf(v, 0)
	case bool, []any, map[string]any:
		return c.format != ""
	}
	return true
}

// takes reports whether the schema allows values of the type.
func (s *Schema) takes(name string) bool {
	if s.IntOrString {
		return name == "integer" || name == "string"
	}
	return s.Type == "" || s.Type == name
}

func (in *pass) validString(c *checks, v string) bool {
	if c.minLen >= 0 || c.maxLen >= 0 {
		n := int64(utf8.RuneCountInString(v))
		if c.maxLen >= 0 && n > c.maxLen || n < c.minLen {
			return false
		}
	}
	if c.pattern != nil && !in.matches(c.pattern, v) {
		return false
	}
	return c.format == "" || !in.work(len(v)) || !strfmt.Default.ContainsName(c.format) || strfmt.Default.Validates(c.format, v)
}

func (c *checks) validInteger(v int64) bool {
	if c.format == "int32" && (v < math.MinInt32 || v > math.MaxInt32) {
		return false
	}
	if c.max != nil && (v > int64(*c.max) || c.exMax && v == int64(*c.max)) {
		return false
	}
	return c.min == nil || v >= int64(*c.min) && (!c.exMin || v != int64(*c.min))
}

func (c *checks) validNumber(v float64) bool {
	if c.max != nil && (v > *c.max || c.exMax && v == *c.max) {
		return false
	}
	return c.min == nil || v >= *c.min && (!c.exMin || v != *c.min)
}

// matches reports whether text matches p.
func (c *pass) matches(p *pattern.Pattern, text string) bool {
	if bound := p.Bound(len(text)); bound <= c.cheap {
		c.cheap -= bound
		return c.work(bound) && p.Regexp().MatchString(text)
	}
	ok, err := p.Match(c.budget, text)
	if err != nil {
		c.err = err
	}
	return ok
}

// validObject checks the number of fields, and their names.
func (c *pass) validObject(s *Schema, v map[string]any) bool {
	n := int64(len(v))
	if n < s.checks.minProps || s.checks.maxProps >= 0 && n > s.checks.maxProps {
		return false
	}
	for _, name := range s.checks.required {
		if _, ok := v[name]; !ok {
			return false
		}
	}
	return !s.closed() || len(s.foreign(v, 1)) == 0
}

// closed reports whether no fields are allowed but those with a schema.
func (s *Schema) closed() bool {
	return s.HasAdditional && s.Additional == nil && !s.Source.AdditionalProperties.Allows
}

// foreign returns at most that many names of fields of v that have no schema.
func (s *Schema) foreign(v map[string]any, most int) []string {
	var names []string
	for name := range v {
		if s.Properties[name] == nil && len(names) < most {
			names = append(names, name)
		}
	}
	return names
}

// formats lists the formats that are checked, without hyphens. kube-apiserver ignores all other formats.
var formats = map[string]bool{
	"bsonobjectid": true, "uri": true, "email": true, "hostname": true, "ipv4": true, "ipv6": true, "cidr": true, "mac": true,
	"uuid": true, "uuid3": true, "uuid4": true, "uuid5": true, "isbn": true, "isbn10": true, "isbn13": true,
	"creditcard": true, "ssn": true, "hexcolor": true, "rgbcolor": true, "byte": true, "password": true,
	"date": true, "duration": true, "datetime": true, "k8sshortname": true, "k8slongname": true,
}

// usedFormat returns the format of s, empty if it is not checked.
func usedFormat(s *apiextensions.JSONSchemaProps) string {
	if s.Format == "" || KnownFormat(s) {
		return s.Format
	}
	return ""
}

// KnownFormat reports whether the format of s is one that is checked.
func KnownFormat(s *apiextensions.JSONSchemaProps) bool {
	of := s.Type
	if s.XIntOrString {
		of = "" // it has two types
	}
	switch of {
	case "", "string":
		return formats[strings.ReplaceAll(s.Format, "-", "")]
	case "integer":
		return s.Format == "int32" || s.Format == "int64"
	case "number":
		return s.Format == "float" || s.Format == "double"
	}
	return false
}
