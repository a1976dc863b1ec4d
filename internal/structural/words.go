package structural

import (
	"reflect"
	"slices"

	"k8s.io/kube-openapi/pkg/validation/errors"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// A worded is a validator of kube-openapi that looks at the wrong values only, so that it costs what the errors do.
type worded struct {
	*pass
	wrong *wrong
	path  string
}

// SetPath implements [validate.ValueValidator].
func (worded) SetPath(string) {}

// Applies implements [validate.ValueValidator].
func (worded) Applies(any, reflect.Kind) bool { return true }

// Validate implements [validate.ValueValidator].
func (w worded) Validate(v any) *validate.Result {
	schema, err := w.schemaFor(v)
	if err != nil {
		return &validate.Result{Errors: []error{err}}
	}
	below := func(o *validate.SchemaValidatorOptions) {
		o.NewValidatorForField = func(name string, _ *spec.Schema, _ any, path string, _ strfmt.Registry, _ ...validate.Option) validate.ValueValidator {
			return w.validator(place{name: name}, path)
		}
		o.NewValidatorForIndex = func(i int, _ *spec.Schema, _ any, path string, _ strfmt.Registry, _ ...validate.Option) validate.ValueValidator {
			return w.validator(place{index: i}, path)
		}
	}
	result := validate.NewSchemaValidator(schema, nil, w.path, strfmt.Default, below).Validate(v)
	if w.wrong.brief {
		result.Merge(&validate.Result{Errors: w.brief(v)})
	}
	return result
}

func (w worded) validator(at place, path string) validate.ValueValidator {
	if below := w.wrong.below[at]; below != nil {
		return worded{w.pass, below, path}
	}
	return rightValue{}
}

// schemaFor returns the schema of the value as kube-openapi validates with it. The schemas in it are empty: validator
// has those that matter.
func (w worded) schemaFor(v any) (*spec.Schema, error) {
	s := w.wrong.schema
	own, err := s.openapi()
	if err != nil {
		return nil, err
	}
	out := *own
	out.Required = w.wrong.missing
	if !w.wrong.brief {
		if err := addNested(&out, s); err != nil {
			return nil, err
		}
	}
	fields, _ := v.(map[string]any)
	if s.closed() {
		out.AdditionalProperties = &spec.SchemaOrBool{}
	} else if s.Additional != nil {
		out.AdditionalProperties = &spec.SchemaOrBool{Allows: true, Schema: &spec.Schema{}}
	}
	out.Properties = map[string]spec.Schema{}
	for name := range fields {
		if s.Properties[name] != nil || s.closed() && !slices.Contains(w.wrong.foreign, name) {
			out.Properties[name] = spec.Schema{}
		}
	}
	if _, isList := v.([]any); isList && w.wrong.below != nil {
		out.Items = &spec.SchemaOrArray{Schema: &spec.Schema{}}
	}
	return &out, nil
}

// addNested adds to out the nested schemas of s.
func addNested(out *spec.Schema, s *Schema) error {
	source := *s.Source
	source.Properties, source.Items, source.AdditionalProperties, source.Enum = nil, nil, nil, nil
	all, err := toOpenAPI(&source)
	if err == nil {
		out.AllOf, out.AnyOf, out.OneOf, out.Not = all.AllOf, all.AnyOf, all.OneOf, all.Not
	}
	return err
}

// brief returns the errors of the nested schemas without what is wrong by each of them.
func (w worded) brief(v any) []error {
	var all []error
	add := func(format string, args ...any) {
		all = append(all, errors.New(errors.CompositeErrorCode, format, append([]any{w.path}, args...)...))
	}
	also := w.wrong.schema.checks.also
	if !w.any(also.anyOf, v) {
		add(validate.MustValidateAtLeastOneSchemaError)
	}
	if !w.one(also.oneOf, v) {
		add(validate.MustValidateOnlyOneSchemaError, "Found none valid or several valid alternatives")
	}
	if !w.all(also.allOf, v) {
		add(validate.MustValidateAllSchemasError, "")
	}
	if also.not != nil && w.fulfils(also.not, v, nil, false) {
		add(validate.MustNotValidateSchemaError)
	}
	return all
}

// rightValue is the validator of a value that is valid.
type rightValue struct{}

// SetPath implements [validate.ValueValidator].
func (rightValue) SetPath(string) {}

// Applies implements [validate.ValueValidator].
func (rightValue) Applies(any, reflect.Kind) bool { return true }

// Validate implements [validate.ValueValidator].
func (rightValue) Validate(any) *validate.Result { return nil }
