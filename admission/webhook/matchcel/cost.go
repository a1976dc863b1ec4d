package matchcel

import (
	"math"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// checkCost lets an expression make two authorization checks.
const checkCost = 350_000

// costs are those of functions which CEL itself has no figures for;
// kube-apiserver's.
type costs struct{}

func (costs) CallCost(function, _ string, arguments []ref.Val, result ref.Val) *uint64 {
	var cost uint64
	switch function {
	case "check":
		cost = checkCost
	case "serviceAccount", "path", "group", "resource", "subresource", "namespace", "name", "allowed", "reason", "error", "errored":
		cost = 1
	case "fieldSelector", "labelSelector", "lowerAscii", "upperAscii", "substring", "trim":
		cost = traversal(arguments, 1)
	case "replace", "split":
		cost = traversal(arguments, 2)
	case "join":
		cost = traversal([]ref.Val{result}, 2)
	case "isSorted", "sum", "max", "min", "indexOf", "lastIndexOf":
		if len(arguments) > 0 {
			cost = elements(arguments[0])
		}
	case "find", "findAll":
		if len(arguments) < 2 {
			return nil
		}
		text := math.Ceil((1 + float64(size(arguments[0]))) * common.StringTraversalCostFactor)
		cost = uint64(text * math.Ceil(float64(size(arguments[1]))*common.RegexStringLengthCostFactor))
	default:
		return nil
	}
	return &cost
}

// traversal is the cost of reading the first argument so many times.
func traversal(arguments []ref.Val, times float64) uint64 {
	if len(arguments) == 0 {
		return 0
	}
	return uint64(math.Ceil(float64(size(arguments[0])) * times * common.StringTraversalCostFactor))
}

func size(v ref.Val) uint64 {
	if s, ok := v.(traits.Sizer); ok {
		if n, ok := s.Size().Value().(int64); ok && n >= 0 {
			return uint64(n)
		}
	}
	return 1
}

// elements is the cost of reading a list, or a string.
func elements(v ref.Val) uint64 {
	list, ok := v.(traits.Lister)
	if !ok {
		return uint64(math.Ceil(float64(size(v)) * common.StringTraversalCostFactor))
	}
	var cost uint64
	for it := list.Iterator(); it.HasNext().Value() == true; {
		if e := it.Next(); e != nil {
			cost += max(1, uint64(math.Ceil(float64(size(e))*common.StringTraversalCostFactor)))
		}
	}
	return cost
}
