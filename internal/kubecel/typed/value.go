package typed

import (
	"fmt"
	"reflect"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/planekit/planekit/internal/structural"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
)

// Value returns v, a JSON value as apimachinery decodes it, as a value of the type of s. It is an
// error value if s does not allow v.
func Value(v any, s *structural.Schema) ref.Val {
	switch {
	case v == nil && s.Nullable:
		return types.NullValue
	case v == nil:
		return types.NewErr("invalid data, got null for schema with nullable=false")
	case s.IntOrString:
		return intOrString(v)
	}
	switch s.Type {
	case "object":
		m, ok := v.(map[string]any)
		if !ok {
			return types.NewErr("invalid data, expected a map for the provided schema with type=object")
		}
		if s.Embedded {
			s = s.WithMeta()
		}
		return &object{m, s}
	case "array":
		items, ok := v.([]any)
		if !ok {
			return types.NewErr("invalid data, expected an array for the provided schema with type=array")
		}
		return newList(items, s)
	case "string":
		text, ok := v.(string)
		if !ok {
			return types.NewErr("invalid data, expected string, got %T", v)
		}
		return textValue(text, s.Source.Format)
	case "number":
		switch v := v.(type) {
		case int64:
			return types.Double(v)
		case float64:
			return types.Double(v)
		}
		return types.NewErr("invalid data, expected float, got %T", v)
	case "integer":
		if n, ok := v.(int64); ok {
			return types.Int(n)
		}
		return types.NewErr("invalid data, expected int, got %T", v)
	case "boolean":
		if b, ok := v.(bool); ok {
			return types.Bool(b)
		}
		return types.NewErr("invalid data, expected bool, got %T", v)
	}
	if s.Preserve {
		return unknown{v}
	}
	return types.NewErr("invalid type, expected object, array, number, integer, boolean or string, or no type with x-kubernetes-int-or-string or x-kubernetes-preserve-unknown-fields is true, got %s", s.Type)
}

func intOrString(v any) ref.Val {
	switch v := v.(type) {
	case string:
		return types.String(v)
	case int64:
		return types.Int(v)
	}
	return types.NewErr("invalid data, expected XIntOrString value to be either a string or integer")
}

func textValue(text, format string) ref.Val {
	switch format {
	case "duration":
		d, err := strfmt.ParseDuration(text)
		if err != nil {
			return types.NewErr("Invalid duration %s: %v", text, err)
		}
		return types.Duration{Duration: d}
	case "date":
		t, err := time.Parse(time.DateOnly, text)
		if err != nil {
			return types.NewErr("Invalid date formatted string %s: %v", text, err)
		}
		return types.Timestamp{Time: t}
	case "date-time":
		t, err := strfmt.ParseDateTime(text)
		if err != nil {
			return types.NewErr("Invalid date-time formatted string %s: %v", text, err)
		}
		return types.Timestamp{Time: time.Time(t)}
	case "byte":
		var decoded strfmt.Base64
		if err := decoded.UnmarshalText([]byte(text)); err != nil {
			return types.NewErr("Invalid byte formatted string %s: %v", text, err)
		}
		return types.Bytes(decoded)
	}
	return types.String(text)
}

// unknown is a value without a type, which can only be compared, as a part of another one.
type unknown struct{ v any }

func (unknown) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("type conversion to '%s' not supported for values preserved by x-kubernetes-preserve-unknown-fields", t)
}

func (unknown) ConvertToType(t ref.Type) ref.Val {
	return types.NewErr("type conversion to '%s' not supported for values preserved by x-kubernetes-preserve-unknown-fields", t.TypeName())
}

func (u unknown) Equal(other ref.Val) ref.Val {
	return types.Bool(equality.Semantic.DeepEqual(u.v, other.Value()))
}

func (unknown) Type() ref.Type { return types.UnknownType }

func (u unknown) Value() any { return u.v }
