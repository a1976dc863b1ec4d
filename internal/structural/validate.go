package structural

import (
	"encoding/json"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-openapi/pkg/validation/errors"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// Validate returns what is wrong with v, which is at path.
func (s *Schema) Validate(path *field.Path, v any) field.ErrorList {
	if s == nil || s.valid(v) {
		return nil
	}
	schema, err := s.openapi()
	if err != nil {
		return field.ErrorList{field.InternalError(path, err)}
	}
	return fieldErrors(path, validate.NewSchemaValidator(schema, nil, "", strfmt.Default).Validate(v))
}

// ValidateUpdate returns what is wrong with v and has become so: values that are the same in old are not
// checked again. root is set if v is a whole object.
func (s *Schema) ValidateUpdate(path *field.Path, v, old any, root bool) field.ErrorList {
	if s == nil || s.valid(v) {
		return nil
	}
	schema, err := s.openapi()
	if err != nil {
		return field.ErrorList{field.InternalError(path, err)}
	}
	r := &ratchet{schema: schema, pair: Correlate(v, old, s), root: root}
	return fieldErrors(path, r.Validate(v))
}

// A ratchet is a validator of kube-openapi that ignores the errors of a value that has not changed.
type ratchet struct {
	schema *spec.Schema
	path   string
	pair   *Pair
	root   bool
}

// SetPath implements [validate.ValueValidator].
func (r *ratchet) SetPath(string) {}

// Applies implements [validate.ValueValidator].
func (r *ratchet) Applies(any, reflect.Kind) bool { return true }

// Validate implements [validate.ValueValidator].
func (r *ratchet) Validate(v any) *validate.Result {
	below := func(o *validate.SchemaValidatorOptions) {
		o.NewValidatorForField = func(name string, schema *spec.Schema, root any, path string, formats strfmt.Registry, options ...validate.Option) validate.ValueValidator {
			pair := r.pair.Key(name)
			if pair == nil || r.root && (name == "kind" || name == "apiVersion") {
				return validate.NewSchemaValidator(schema, root, path, formats, options...)
			}
			return &ratchet{schema: schema, path: path, pair: pair}
		}
		o.NewValidatorForIndex = func(i int, schema *spec.Schema, root any, path string, formats strfmt.Registry, options ...validate.Option) validate.ValueValidator {
			pair := r.pair.Index(i)
			if pair == nil {
				return validate.NewSchemaValidator(schema, root, path, formats, options...)
			}
			return &ratchet{schema: schema, path: path, pair: pair}
		}
	}
	result := validate.NewSchemaValidator(r.schema, nil, r.path, strfmt.Default, below).Validate(v)
	if result.IsValid() || !r.pair.Equal() {
		return result
	}
	unchanged := &validate.Result{}
	unchanged.MergeAsWarnings(result)
	return unchanged
}

// fieldErrors converts the errors of kube-openapi as kube-apiserver does.
func fieldErrors(path *field.Path, result *validate.Result) field.ErrorList {
	var all field.ErrorList
	for _, err := range result.Errors {
		wrong, ok := err.(*errors.Validation)
		if !ok {
			all = append(all, field.Invalid(path, "", err.Error()))
			continue
		}
		at := path
		if wrong.Name != "" && wrong.Name != "." {
			at = at.Child(strings.TrimPrefix(wrong.Name, "."))
		}
		all = append(all, fieldError(at, wrong))
	}
	return all
}

func fieldError(at *field.Path, wrong *errors.Validation) *field.Error {
	var value any = ""
	if wrong.Value != nil {
		value = wrong.Value
	}
	number := func(v any) int {
		if n, ok := v.(int64); ok {
			return int(n)
		}
		return -1
	}
	switch wrong.Code() {
	case errors.RequiredFailCode:
		return field.Required(at, "")
	case errors.EnumFailCode:
		values := []string{}
		for _, allowed := range wrong.Values {
			text, ok := allowed.(string)
			if !ok {
				data, _ := json.Marshal(allowed)
				text = string(data)
			}
			values = append(values, text)
		}
		return field.NotSupported(at, wrong.Value, values)
	case errors.TooLongFailCode:
		return field.TooLong(at, "", number(wrong.Valid))
	case errors.MaxItemsFailCode, errors.TooManyPropertiesCode:
		return field.TooMany(at, number(wrong.Value), number(wrong.Valid))
	case errors.InvalidTypeCode:
		return field.TypeInvalid(at, value, wrong.Error())
	}
	return field.Invalid(at, value, wrong.Error())
}
