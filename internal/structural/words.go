package structural

import (
	"fmt"
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
		o.NewValidatorForField = func(name string, _ *spec.Schema, _ any, _ string, _ strfmt.Registry, _ ...validate.Option) validate.ValueValidator {
			path := w.path + "." + name
			if w.path == "" && w.wrong.schema.Properties[name] != nil {
				path = name
			}
			return w.validator(place{name: name}, path)
		}
	}
	result := validate.NewSchemaValidator(schema, nil, w.path, strfmt.Default, below).Validate(v)
	if w.wrong.schema.checks.also != nil && !w.wrong.brief && len(result.Errors) > maxErrors {
		w.wrong.brief = true // the nested schemas have made more than are shown
		return w.Validate(v)
	}
	if items, ok := v.([]any); ok && w.wrong.below != nil {
		result = w.withItems(result, items)
	}
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

// withItems adds what is wrong with the items of a list to what is wrong with the list, where kube-openapi has it:
// before what is wrong with the number of items. It would make the path of each item, also of those that are right.
func (w worded) withItems(list *validate.Result, items []any) *validate.Result {
	before := slices.IndexFunc(list.Errors, func(err error) bool {
		wrong, ok := err.(*errors.Validation)
		return ok && slices.Contains([]int32{errors.MinItemsFailCode, errors.MaxItemsFailCode, errors.UniqueFailCode, errors.EnumFailCode}, wrong.Code())
	})
	if before < 0 {
		before = len(list.Errors)
	}
	result := &validate.Result{Errors: list.Errors[:before:before]}
	for i, item := range items {
		if w.wrong.below[place{index: i}] != nil {
			result.Merge(w.validator(place{index: i}, fmt.Sprintf("%s[%d]", w.path, i)).Validate(item))
		}
	}
	return result.Merge(&validate.Result{Errors: list.Errors[before:]})
}

// schemaFor returns the schema of the value as kube-openapi validates with it, with an empty schema for each wrong
// field: validator has those that matter.
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
	out.Properties = make(map[string]spec.Schema, len(w.wrong.below))
	for at := range w.wrong.below {
		out.Properties[at.name] = spec.Schema{}
	}
	if fields, ok := v.(map[string]any); ok && s.closed() {
		out.AdditionalProperties = &spec.SchemaOrBool{}
		for name := range fields {
			out.Properties[name] = spec.Schema{}
		}
		for _, name := range w.wrong.foreign {
			delete(out.Properties, name)
		}
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
