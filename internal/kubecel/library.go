package kubecel

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// named is a type and its name in overloads.
type named struct {
	name string
	of   *cel.Type
	zero ref.Val // nil if the type has no sums
}

// library returns Kubernetes' libraries for lists and regular expressions.
func library() []cel.EnvOption {
	ordered := []named{
		{"int", cel.IntType, types.Int(0)}, {"uint", cel.UintType, types.Uint(0)}, {"double", cel.DoubleType, types.Double(0)},
		{"duration", cel.DurationType, types.Duration{}}, {"timestamp", cel.TimestampType, nil}, {"bool", cel.BoolType, nil},
		{"string", cel.StringType, nil}, {"bytes", cel.BytesType, nil},
	}
	var sorted, least, most, sums []cel.FunctionOpt
	for _, t := range ordered {
		list := []*cel.Type{cel.ListType(t.of)}
		sorted = append(sorted, cel.MemberOverload("list_"+t.name+"_is_sorted_bool", list, cel.BoolType, cel.UnaryBinding(isSorted)))
		least = append(least, cel.MemberOverload("list_"+t.name+"_min_"+t.name, list, t.of, cel.UnaryBinding(extreme("min", types.IntNegOne))))
		most = append(most, cel.MemberOverload("list_"+t.name+"_max_"+t.name, list, t.of, cel.UnaryBinding(extreme("max", types.IntOne))))
		if t.zero != nil {
			sums = append(sums, cel.MemberOverload("list_"+t.name+"_sum_"+t.name, list, t.of, cel.UnaryBinding(sum(t.zero))))
		}
	}
	a := cel.TypeParamType("A")
	text := []*cel.Type{cel.StringType, cel.StringType}
	return []cel.EnvOption{
		cel.Function("isSorted", sorted...),
		cel.Function("min", least...),
		cel.Function("max", most...),
		cel.Function("sum", sums...),
		cel.Function("indexOf", cel.MemberOverload("list_a_index_of_int", []*cel.Type{cel.ListType(a), a}, cel.IntType, cel.BinaryBinding(indexOf))),
		cel.Function("lastIndexOf", cel.MemberOverload("list_a_last_index_of_int", []*cel.Type{cel.ListType(a), a}, cel.IntType, cel.BinaryBinding(lastIndexOf))),
		cel.Function("find", cel.MemberOverload("string_find_string", text, cel.StringType, cel.BinaryBinding(find))),
		cel.Function("findAll",
			cel.MemberOverload("string_find_all_string", text, cel.ListType(cel.StringType), cel.BinaryBinding(func(text, pattern ref.Val) ref.Val { return findAll(text, pattern) })),
			cel.MemberOverload("string_find_all_string_int", append(text[:2:2], cel.IntType), cel.ListType(cel.StringType), cel.FunctionBinding(findAll))),
	}
}

// each calls f with the elements of a list until f returns a result.
func each(list ref.Val, f func(traits.Comparer, ref.Val) ref.Val) ref.Val {
	iterable, ok := list.(traits.Iterable)
	if !ok {
		return types.MaybeNoSuchOverloadErr(list)
	}
	for it := iterable.Iterator(); it.HasNext() == types.True; {
		next := it.Next()
		c, ok := next.(traits.Comparer)
		if !ok {
			return types.MaybeNoSuchOverloadErr(next)
		}
		if answer := f(c, next); answer != nil {
			return answer
		}
	}
	return nil
}

func isSorted(list ref.Val) ref.Val {
	var last ref.Val
	answer := each(list, func(c traits.Comparer, v ref.Val) ref.Val {
		if last != nil && c.Compare(last) == types.IntNegOne {
			return types.False
		}
		last = v
		return nil
	})
	if answer == nil {
		return types.True
	}
	return answer
}

// extreme returns a function that finds the element for which every comparison with another has the
// result want.
func extreme(name string, want types.Int) func(ref.Val) ref.Val {
	return func(list ref.Val) ref.Val {
		var best ref.Val
		if wrong := each(list, func(c traits.Comparer, v ref.Val) ref.Val {
			if best == nil || c.Compare(best) == want {
				best = v
			}
			return nil
		}); wrong != nil {
			return wrong
		}
		if best == nil {
			return types.NewErr("%s called on empty list", name)
		}
		return best
	}
}

func sum(zero ref.Val) func(ref.Val) ref.Val {
	return func(list ref.Val) ref.Val {
		total := zero
		if wrong := each(list, func(_ traits.Comparer, v ref.Val) ref.Val {
			adder, ok := total.(traits.Adder)
			if !ok {
				return types.MaybeNoSuchOverloadErr(total)
			}
			if total = adder.Add(v); types.IsUnknownOrError(total) {
				return total
			}
			return nil
		}); wrong != nil {
			return wrong
		}
		return total
	}
}

func indexOf(list, item ref.Val) ref.Val {
	l, ok := list.(traits.Lister)
	if !ok {
		return types.MaybeNoSuchOverloadErr(list)
	}
	n, _ := l.Size().(types.Int)
	for i := types.Int(0); i < n; i++ {
		if l.Get(i).Equal(item) == types.True {
			return i
		}
	}
	return types.IntNegOne
}

func lastIndexOf(list, item ref.Val) ref.Val {
	l, ok := list.(traits.Lister)
	if !ok {
		return types.MaybeNoSuchOverloadErr(list)
	}
	n, _ := l.Size().(types.Int)
	for i := n - 1; i >= 0; i-- {
		if l.Get(i).Equal(item) == types.True {
			return i
		}
	}
	return types.IntNegOne
}

// The functions that take a regular expression are replaced in programs, by search.
func find(text, pattern ref.Val) ref.Val { return search(nil, findIn)(text, pattern) }

func findAll(arguments ...ref.Val) ref.Val { return search(nil, findAllIn)(arguments...) }
