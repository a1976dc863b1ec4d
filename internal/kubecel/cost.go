package kubecel

import (
	"math"
	"net/netip"

	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// checkCost allows an expression two authorization checks.
const checkCost = 350_000

// costs estimates the costs of functions for which CEL has no figures. The figures are
// kube-apiserver's.
type costs struct{}

func (costs) CallCost(function, overload string, arguments []ref.Val, result ref.Val) *uint64 {
	var cost uint64
	switch function {
	case "check":
		cost = checkCost
	case "serviceAccount", "path", "group", "resource", "subresource", "namespace", "name", "allowed", "reason", "error", "errored":
		cost = 1
	case "masked", "prefixLength", "family", "isUnspecified", "isLoopback", "isLinkLocalMulticast", "isLinkLocalUnicast", "isGlobalUnicast",
		"sign", "asInteger", "isInteger", "asApproximateFloat", "isGreaterThan", "isLessThan", "compareTo", "add", "sub", "major", "minor", "patch",
		"getScheme", "getHostname", "getHost", "getPort", "getEscapedPath", "getQuery", "format.named":
		cost = 1
	case "ip":
		cost = 1
		if overload != "cidr_ip" {
			cost = traversal(arguments, 1)
		}
	case "containsIP", "containsCIDR":
		cost = comparison(function, arguments)
	case "validate":
		if len(arguments) < 2 {
			return nil
		}
		f, ok := arguments[0].Value().(format)
		if !ok {
			return nil
		}
		cost = matching(arguments[1], uint64(f.cost))
	case "ip.isCanonical":
		cost = traversal(arguments, 2)
	case "fieldSelector", "labelSelector":
		if len(arguments) < 2 {
			return nil
		}
		n := size(arguments[1])
		cost = selectorCost(checker.SizeEstimate{Min: n, Max: n}).Max
	case "url", "cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver", "lowerAscii", "upperAscii", "substring", "trim":
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
		cost = matching(arguments[0], size(arguments[1]))
	default:
		return nil
	}
	return &cost
}

// matching returns the cost of matching text with a regular expression of some length.
func matching(text ref.Val, pattern uint64) uint64 {
	read := math.Ceil((1 + float64(size(text))) * common.StringTraversalCostFactor)
	return uint64(read * math.Ceil(float64(pattern)*common.RegexStringLengthCostFactor))
}

// comparison returns the cost of comparing an address or a network, which may have to be parsed,
// with the relevant part of a network.
func comparison(function string, arguments []ref.Val) uint64 {
	if len(arguments) < 2 {
		return 0
	}
	var prefix float64
	if p, ok := arguments[0].Value().(netip.Prefix); ok {
		prefix = math.Ceil(float64(p.Bits()) / 8)
	}
	cost := uint64(math.Ceil(2 * prefix * common.StringTraversalCostFactor))
	if function == "containsCIDR" {
		cost += uint64(math.Ceil(prefix*common.StringTraversalCostFactor)) + 1
	}
	if _, text := arguments[1].(types.String); text {
		cost += traversal(arguments[1:], 1)
	}
	return cost
}

// traversal returns the cost of reading the first argument that many times.
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

// elements returns the cost of reading all of a value.
func elements(v ref.Val) uint64 {
	switch v := v.(type) {
	case types.String:
		return uint64(float64(len(v)) * common.StringTraversalCostFactor)
	case types.Bytes:
		return uint64(float64(len(v)) * common.StringTraversalCostFactor)
	case traits.Lister:
		var cost uint64
		for it := v.Iterator(); it.HasNext() == types.True; {
			cost += elements(it.Next())
		}
		return cost
	case traits.Mapper:
		var cost uint64
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			cost += elements(key) + elements(v.Get(key))
		}
		return cost
	}
	return 1
}
