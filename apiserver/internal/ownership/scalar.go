package ownership

import (
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// scalarType is a struct that is a scalar in JSON.
type scalarType struct {
	schemas []schema.Scalar
	null    func(reflect.Value) bool
}

func knownScalar(t reflect.Type) *scalarType {
	text := []schema.Scalar{schema.String, schema.Untyped}
	switch t {
	case reflect.TypeFor[resource.Quantity](), reflect.TypeFor[metav1.Duration]():
		return &scalarType{schemas: text}
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]():
		return &scalarType{text, zeroTime}
	case reflect.TypeFor[intstr.IntOrString]():
		return &scalarType{schemas: text[1:]}
	}
	return nil
}

// zeroTime reports whether v, a Time or MicroTime, is null in JSON.
func zeroTime(v reflect.Value) bool {
	if v.CanAddr() {
		return v.Addr().Interface().(interface{ IsZero() bool }).IsZero()
	}
	return v.Field(0).Interface().(time.Time).IsZero()
}

// scalarFits reports whether s describes values of t.
func scalarFits(t reflect.Type, s schema.Scalar) bool {
	switch t.Kind() {
	case reflect.String:
		return s == schema.String || s == schema.Untyped
	case reflect.Slice:
		return t.Elem().Kind() == reflect.Uint8 && (s == schema.String || s == schema.Untyped)
	case reflect.Bool:
		return s == schema.Boolean || s == schema.Untyped
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Float32, reflect.Float64:
		return s == schema.Numeric || s == schema.Untyped
	}
	return false
}

// partKind returns the kind of a list key of type t; isNull if t cannot be a key.
func partKind(t reflect.Type) scalarKind {
	switch t.Kind() {
	case reflect.String:
		return isString
	case reflect.Bool:
		return isBool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return isNumber
	}
	return isNull
}

// partFrom returns the scalar v as a list key.
func partFrom(v reflect.Value, kind scalarKind) (part, error) {
	switch {
	case kind == isString:
		return part{kind: isString, text: v.String()}, nil
	case kind == isBool && v.Bool():
		return part{kind: isBool, number: 1}, nil
	case kind == isBool:
		return part{kind: isBool}, nil
	case v.CanUint():
		return part{number: float64(v.Uint())}, nil
	}
	if i := v.Int(); i < exactIntegers && i > -exactIntegers {
		return part{number: float64(i)}, nil
	}
	return part{}, errOdd
}

// sameLeaf reports whether two leaves, neither of them null, are equal.
func sameLeaf(l, r reflect.Value) bool {
	switch l.Kind() {
	case reflect.String:
		return l.String() == r.String()
	case reflect.Bool:
		return l.Bool() == r.Bool()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return l.Int() == r.Int()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return l.Uint() == r.Uint()
	case reflect.Float32, reflect.Float64:
		return l.Float() == r.Float()
	case reflect.Slice:
		if l.Type().Elem().Kind() == reflect.Uint8 {
			return slices.Equal(l.Bytes(), r.Bytes())
		}
	}
	if l.CanAddr() && r.CanAddr() { // without a copy of either
		return reflect.DeepEqual(l.Addr().Interface(), r.Addr().Interface()) || sameValue(l, r)
	}
	return reflect.DeepEqual(l.Interface(), r.Interface()) || sameValue(l, r)
}

// sameValue compares with structured-merge-diff. Values that differ in Go may be equal in JSON.
func sameValue(l, r reflect.Value) bool {
	a, err := boxed(l)
	if err != nil {
		return false
	}
	b, err := boxed(r)
	return err == nil && value.Equals(a, b)
}

func boxed(v reflect.Value) (value.Value, error) {
	box := reflect.New(v.Type())
	box.Elem().Set(v)
	return value.NewValueReflect(box.Interface())
}
