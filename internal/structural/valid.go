package structural

import (
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/planekit/planekit/kinds/apiextensions"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// valid reports whether v is valid, as kube-openapi would.
func (s *Schema) valid(v any) bool {
	if s.checks.slow || s.odd(v) {
		schema, err := s.openapi()
		return err == nil && validate.NewSchemaValidator(schema, nil, "", strfmt.Default).Validate(v).IsValid()
	}
	c := s.checks
	if v == nil {
		return (s.Type == "" && !s.IntOrString || s.Nullable) && len(c.enum) == 0
	}
	if len(c.enum) > 0 && !slices.Contains(c.enum, v) {
		return false
	}
	switch v := v.(type) {
	case string:
		return s.takes("string") && c.validString(v)
	case bool:
		return s.takes("boolean")
	case int64:
		return (s.takes("integer") || s.Type == "number") && c.validInteger(v)
	case float64:
		return s.takes("number") && c.validNumber(v)
	case []any:
		return s.takes("array") && s.validList(v)
	case map[string]any:
		return s.takes("object") && s.validObject(v)
	}
	return false
}

// odd reports whether kube-openapi has rules of its own for v.
func (s *Schema) odd(v any) bool {
	c := s.checks
	switch v := v.(type) {
	case nil, string:
		return c.format != "" && s.Type != "string" || s.IntOrString && c.format != ""
	case int64:
		return len(c.enum) > 0 || c.format != "" && (s.Type != "integer" || s.IntOrString)
	case float64:
		return len(c.enum) > 0 || c.format != "" || s.Type == "integer" || s.IntOrString || math.IsNaN(v) || math.IsInf(v, 0)
	case bool, []any, map[string]any:
		if _, ok := v.(bool); !ok && len(c.enum) > 0 {
			return true // they cannot be compared
		}
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

func (c *checks) validString(v string) bool {
	if c.minLen >= 0 || c.maxLen >= 0 {
		n := int64(utf8.RuneCountInString(v))
		if c.maxLen >= 0 && n > c.maxLen || n < c.minLen {
			return false
		}
	}
	if c.pattern != nil && !c.pattern.MatchString(v) {
		return false
	}
	return c.format == "" || !strfmt.Default.ContainsName(c.format) || strfmt.Default.Validates(c.format, v)
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

func (s *Schema) validList(v []any) bool {
	c, n := s.checks, int64(len(v))
	if n < c.minItems || c.maxItems >= 0 && n > c.maxItems {
		return false
	}
	if s.Items == nil {
		return true
	}
	for _, item := range v {
		if !s.Items.valid(item) {
			return false
		}
	}
	return true
}

func (s *Schema) validObject(v map[string]any) bool {
	c, n := s.checks, int64(len(v))
	if n < c.minProps || c.maxProps >= 0 && n > c.maxProps {
		return false
	}
	for _, name := range c.required {
		if _, ok := v[name]; !ok {
			return false
		}
	}
	closed := s.HasAdditional && s.Additional == nil && !s.Source.AdditionalProperties.Allows
	if len(s.Properties) == 0 && s.Additional == nil && !closed {
		return true
	}
	for name, value := range v {
		part := s.Properties[name]
		if part == nil {
			if closed {
				return false
			}
			part = s.Additional
		}
		if part != nil && !part.valid(value) {
			return false
		}
	}
	return true
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
