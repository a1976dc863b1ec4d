package kubecel

import (
	"errors"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/planekit/planekit/internal/bodycost"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Quantities are never changed: sums are made in copies.
var quantityKind = reading[*resource.Quantity]{cel.OpaqueType("kubernetes.Quantity"), func(text string) (*resource.Quantity, error) {
	if err := bodycost.CheckQuantity(text); err != nil {
		return nil, err
	}
	q, err := resource.ParseQuantity(text)
	return &q, err
}, func(a, b *resource.Quantity) bool { return a.Equal(*b) }}

var errNoInteger = errors.New("cannot convert value to integer")

// quantities returns Kubernetes' library for quantities such as 1.5Gi.
func quantities() []cel.EnvOption {
	type quantity = *resource.Quantity
	text, one, two, number := []*cel.Type{cel.StringType}, []*cel.Type{quantityKind.of}, []*cel.Type{quantityKind.of, quantityKind.of}, []*cel.Type{quantityKind.of, cel.IntType}
	changed := func(q quantity, change func(*resource.Quantity)) ref.Val {
		c := q.DeepCopy()
		change(&c)
		return quantityKind.value(&c)
	}
	add := func(a, b quantity) ref.Val { return changed(a, func(q quantity) { q.Add(*b) }) }
	sub := func(a, b quantity) ref.Val { return changed(a, func(q quantity) { q.Sub(*b) }) }
	integer := func(n int64) quantity { return resource.NewQuantity(n, resource.DecimalExponent) }
	return []cel.EnvOption{
		cel.Function("quantity", cel.Overload("string_to_quantity", text, quantityKind.of, quantityKind.converts())),
		cel.Function("isQuantity", cel.Overload("is_quantity_string", text, cel.BoolType, quantityKind.tries())),
		cel.Function("sign", cel.Overload("quantity_sign", one, cel.IntType, unary(func(q quantity) ref.Val { return types.Int(q.Sign()) }))),
		member("isInteger", "quantity_is_integer", quantityKind.of, cel.BoolType, func(q quantity) ref.Val {
			_, ok := q.AsInt64()
			return types.Bool(ok)
		}),
		member("asInteger", "quantity_get_int", quantityKind.of, cel.IntType, func(q quantity) ref.Val {
			n, ok := q.AsInt64()
			if !ok {
				return types.WrapErr(errNoInteger)
			}
			return types.Int(n)
		}),
		member("asApproximateFloat", "quantity_get_float", quantityKind.of, cel.DoubleType, func(q quantity) ref.Val { return types.Double(q.AsApproximateFloat64()) }),
		cel.Function("isGreaterThan", cel.MemberOverload("quantity_is_greater_than", two, cel.BoolType, binary(func(a, b quantity) ref.Val { return types.Bool(a.Cmp(*b) > 0) }))),
		cel.Function("isLessThan", cel.MemberOverload("quantity_is_less_than", two, cel.BoolType, binary(func(a, b quantity) ref.Val { return types.Bool(a.Cmp(*b) < 0) }))),
		cel.Function("compareTo", cel.MemberOverload("quantity_compare_to", two, cel.IntType, binary(func(a, b quantity) ref.Val { return types.Int(a.Cmp(*b)) }))),
		cel.Function("add", cel.MemberOverload("quantity_add", two, quantityKind.of, binary(add)),
			cel.MemberOverload("quantity_add_int", number, quantityKind.of, binary(func(a quantity, n int64) ref.Val { return add(a, integer(n)) }))),
		cel.Function("sub", cel.MemberOverload("quantity_sub", two, quantityKind.of, binary(sub)),
			cel.MemberOverload("quantity_sub_int", number, quantityKind.of, binary(func(a quantity, n int64) ref.Val { return sub(a, integer(n)) }))),
	}
}
