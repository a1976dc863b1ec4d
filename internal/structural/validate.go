package structural

import (
	"context"
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-openapi/pkg/validation/errors"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// Validate returns what is wrong with v, which is at path: at most some hundred errors, and one that says so if there
// are more. If the budget of ctx does not cover the validation, that is an internal error.
func (s *Schema) Validate(ctx context.Context, path *field.Path, v any) field.ErrorList {
	return s.validate(ctx, path, v, nil, false)
}

// ValidateUpdate returns what is wrong with v and has become so: values that are the same in old are not
// checked again. root is set if v is a whole object.
func (s *Schema) ValidateUpdate(ctx context.Context, path *field.Path, v, old any, root bool) field.ErrorList {
	return s.validate(ctx, path, v, Correlate(v, old, s), root)
}

func (s *Schema) validate(ctx context.Context, path *field.Path, v any, was *Pair, root bool) field.ErrorList {
	if s == nil {
		return nil
	}
	c := newPass(newMeter(ctx))
	if c.valid(s, v, was, root) {
		return budgetError(c.meter, path, nil)
	}
	l := newLocating(c)
	found := l.wrong(s, v, was, root, len(path.String()))
	if found == nil {
		return budgetError(c.meter, path, nil)
	}
	all := fieldErrors(path, worded{c, found, ""}.Validate(v))
	if l.full {
		all = append(all, TooManyErrors(path))
	}
	return budgetError(c.meter, path, all)
}

// budgetError returns errs, or that the budget has been exceeded.
func budgetError(m *meter, path *field.Path, errs field.ErrorList) field.ErrorList {
	if m.work(0); m.err != nil {
		return field.ErrorList{field.InternalError(path, m.err)}
	}
	return errs
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
