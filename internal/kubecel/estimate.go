package kubecel

import (
	"math"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
)

// maxFormat and maxFormatPattern bound the text of a format and the length of a regular expression
// for it.
const maxFormat, maxFormatPattern = 64, 128

// EstimateCost returns the highest cost that an evaluation of ast can have. size returns the largest
// size of the value at a path that begins with a variable, and false if that is not known. The
// figures are kube-apiserver's, so that it accepts the same expressions.
func EstimateCost(env *cel.Env, ast *cel.Ast, size func(path []string) (uint64, bool)) (uint64, error) {
	estimate, err := env.EstimateCost(ast, estimator{size})
	if err != nil {
		return 0, err
	}
	return estimate.Max, nil
}

// estimator estimates the costs of functions before an evaluation.
type estimator struct {
	size func(path []string) (uint64, bool)
}

// EstimateSize implements [checker.CostEstimator].
func (e estimator) EstimateSize(node checker.AstNode) *checker.SizeEstimate {
	if len(node.Path()) == 0 || e.size == nil {
		return nil
	}
	most, ok := e.size(node.Path())
	if !ok {
		return nil
	}
	return &checker.SizeEstimate{Max: most}
}

// sizeOf returns the size of a value, which may be unbounded.
func (e estimator) sizeOf(node checker.AstNode) checker.SizeEstimate {
	if size := node.ComputedSize(); size != nil {
		return *size
	}
	if size := e.EstimateSize(node); size != nil {
		return *size
	}
	return checker.SizeEstimate{Max: math.MaxUint64}
}

func fixed(cost uint64) *checker.CallEstimate {
	return &checker.CallEstimate{CostEstimate: checker.FixedCostEstimate(cost)}
}

// reads estimates the cost of reading a text that many times. The result may be of the same size.
func reads(text checker.SizeEstimate, times float64, result *checker.SizeEstimate) *checker.CallEstimate {
	return &checker.CallEstimate{CostEstimate: text.MultiplyByCostFactor(times * common.StringTraversalCostFactor), ResultSize: result}
}

// EstimateCallCost implements [checker.CostEstimator]. It returns nil for the functions of CEL.
func (e estimator) EstimateCallCost(function, overload string, target *checker.AstNode, arguments []checker.AstNode) *checker.CallEstimate {
	switch function {
	case "check":
		return fixed(checkCost)
	case "serviceAccount", "path", "group", "resource", "subresource", "namespace", "name", "allowed", "reason", "error", "errored",
		"masked", "prefixLength", "family", "isUnspecified", "isLoopback", "isLinkLocalMulticast", "isLinkLocalUnicast", "isGlobalUnicast",
		"sign", "asInteger", "isInteger", "asApproximateFloat", "isGreaterThan", "isLessThan", "compareTo", "add", "sub", "major", "minor", "patch",
		"getScheme", "getHostname", "getHost", "getPort", "getEscapedPath", "getQuery", "format.named":
		return fixed(1)
	case "_==_":
		return e.equality(arguments)
	case "containsIP", "containsCIDR":
		return e.containment(function, overload, arguments)
	}
	if target != nil {
		if estimate := e.memberCost(function, *target, arguments); estimate != nil {
			return estimate
		}
	}
	return e.argumentCost(function, overload, arguments)
}

// argumentCost estimates the cost of functions that read their first argument.
func (e estimator) argumentCost(function, overload string, arguments []checker.AstNode) *checker.CallEstimate {
	if overload == "cidr_ip" {
		return fixed(1)
	}
	if len(arguments) == 0 {
		return nil
	}
	size := e.sizeOf(arguments[0])
	switch function {
	case "fieldSelector", "labelSelector":
		return &checker.CallEstimate{CostEstimate: selectorCost(size)}
	case "url":
		return reads(size, 1, &size)
	case "cidr", "isIP", "isCIDR", "ip", "quantity", "isQuantity", "semver", "isSemver":
		return reads(size, 1, nil)
	case "ip.isCanonical":
		return reads(size, 2, nil)
	case "validate":
		cost := size.MultiplyByCostFactor(common.StringTraversalCostFactor)
		return &checker.CallEstimate{CostEstimate: cost.MultiplyByCostFactor(maxFormatPattern * common.RegexStringLengthCostFactor)}
	}
	return nil
}

// selectorCost returns the cost of parsing a selector of that size into a list of requirements, each
// of which takes two characters.
func selectorCost(size checker.SizeEstimate) checker.CostEstimate {
	requirements := size.MultiplyByCostFactor(0.5)
	return checker.FixedCostEstimate(common.ListCreateBaseCost).
		Add(size.MultiplyByCostFactor(common.StringTraversalCostFactor)).
		Add(requirements.MultiplyByCostFactor(common.ListCreateBaseCost + common.StructCreateBaseCost))
}

// memberCost estimates the cost of the member functions of strings and lists.
func (e estimator) memberCost(function string, target checker.AstNode, arguments []checker.AstNode) *checker.CallEstimate {
	size := e.sizeOf(target)
	switch function {
	case "isSorted", "sum", "max", "min", "indexOf", "lastIndexOf":
		item := element(target)
		if item == nil {
			return reads(size, 1, nil) // a string
		}
		each := checker.FixedCostEstimate(1)
		if kind := item.Type().Kind(); kind == types.StringKind || kind == types.BytesKind {
			each = each.Add(e.sizeOf(item).MultiplyByCostFactor(common.StringTraversalCostFactor))
		}
		return &checker.CallEstimate{CostEstimate: size.MultiplyByCost(each)}
	case "lowerAscii", "upperAscii", "substring", "trim":
		return reads(size, 1, &size)
	case "replace":
		if len(arguments) < 2 {
			return nil
		}
		result := replaced(size, e.sizeOf(arguments[0]), e.sizeOf(arguments[1]))
		return reads(size, 2, &result)
	case "split":
		result := checker.SizeEstimate{Max: size.Max}
		if len(arguments) > 1 {
			if literal := arguments[1].Expr().AsLiteral(); literal != nil {
				if limit, ok := literal.Value().(int64); ok {
					result.Max = uint64(limit)
				}
			}
		}
		return reads(size, 2, &result)
	case "join":
		return e.join(target, size, arguments)
	case "find", "findAll":
		if len(arguments) == 0 {
			return nil
		}
		text := size.Add(checker.SizeEstimate{Min: 1, Max: 1}).MultiplyByCostFactor(common.StringTraversalCostFactor)
		pattern := e.sizeOf(arguments[0]).MultiplyByCostFactor(common.RegexStringLengthCostFactor)
		return &checker.CallEstimate{CostEstimate: text.Multiply(pattern), ResultSize: &checker.SizeEstimate{Max: size.Max}}
	}
	return nil
}

func (e estimator) join(target checker.AstNode, size checker.SizeEstimate, arguments []checker.AstNode) *checker.CallEstimate {
	var result checker.SizeEstimate
	if item := element(target); item != nil {
		result = size.Multiply(e.sizeOf(item))
	}
	if len(arguments) > 0 {
		separators := checker.SizeEstimate{Min: max(size.Min, 1) - 1, Max: max(size.Max, 1) - 1}
		result = result.Add(e.sizeOf(arguments[0]).Multiply(separators))
	}
	return reads(result, 1, &result)
}

// replaced returns the size of a text in which old is replaced by with.
func replaced(text, old, with checker.SizeEstimate) checker.SizeEstimate {
	var count, kept checker.SizeEstimate
	switch {
	case old.Min == 0: // with is inserted around each character
		count.Max, kept.Max = text.Max, text.Max
		if text.Max < math.MaxUint64 {
			count.Max++
		}
	case with.Max <= old.Min:
		kept.Max = text.Max
	default:
		count.Max = uint64(math.Ceil(float64(text.Max) / float64(old.Min)))
	}
	switch {
	case old.Max == 0:
		count.Min, kept.Min = text.Min, text.Min
		if text.Min < math.MaxUint64 {
			count.Min++
		}
	case old.Max <= with.Min:
		kept.Min = text.Min
	default:
		count.Min = uint64(math.Ceil(float64(text.Min) / float64(old.Max)))
	}
	return count.Multiply(with).Add(kept)
}

// equality estimates the cost of comparing two values of Kubernetes' types.
func (estimator) equality(arguments []checker.AstNode) *checker.CallEstimate {
	if len(arguments) != 2 || !arguments[0].Type().IsExactType(arguments[1].Type()) {
		return nil
	}
	of := arguments[0].Type()
	if of.Kind() != types.OpaqueKind && of.Kind() != types.StructKind {
		return nil
	}
	switch of.TypeName() {
	case ips.of.TypeName(), cidrs.of.TypeName(), quantityKind.of.TypeName(), versionKind.of.TypeName(),
		AuthorizerType.TypeName(), PathCheckType.TypeName(), GroupCheckType.TypeName(), ResourceCheckType.TypeName(), DecisionType.TypeName():
		return fixed(1)
	case formatKind.of.TypeName():
		return &checker.CallEstimate{CostEstimate: checker.CostEstimate{Min: 1, Max: maxFormat}.MultiplyByCostFactor(common.StringTraversalCostFactor)}
	case urlKind.of.TypeName():
		most := uint64(1)
		if size := arguments[1].ComputedSize(); size != nil {
			most = size.Max
		}
		return &checker.CallEstimate{CostEstimate: checker.CostEstimate{Min: 1, Max: most}.MultiplyByCostFactor(common.StringTraversalCostFactor)}
	}
	return nil
}

// containment estimates the cost of comparing an address or a network with a network: both are four
// or sixteen bytes.
func (e estimator) containment(function, overload string, arguments []checker.AstNode) *checker.CallEstimate {
	if len(arguments) == 0 {
		return nil
	}
	size := checker.SizeEstimate{Min: 4, Max: 16}
	cost := size.Add(size).MultiplyByCostFactor(common.StringTraversalCostFactor)
	if function == "containsCIDR" {
		cost = cost.Add(size.MultiplyByCostFactor(common.StringTraversalCostFactor)).Add(checker.FixedCostEstimate(1))
	}
	if overload == "cidr_contains_ip_string" || overload == "cidr_contains_cidr_string" {
		cost = cost.Add(e.sizeOf(arguments[0]).MultiplyByCostFactor(common.StringTraversalCostFactor))
	}
	return &checker.CallEstimate{CostEstimate: cost}
}

// element returns the node that stands for the elements of a list, nil if list is none.
func element(list checker.AstNode) checker.AstNode {
	parameters := list.Type().Parameters()
	if len(parameters) == 0 {
		return nil
	}
	node := &elementNode{of: parameters[0]}
	if path := list.Path(); path != nil {
		node.path = append(path[:len(path):len(path)], "@items")
	}
	return node
}

type elementNode struct {
	path []string
	of   *types.Type
}

func (e *elementNode) Path() []string                      { return e.path }
func (e *elementNode) Type() *types.Type                   { return e.of }
func (e *elementNode) Expr() ast.Expr                      { return nil }
func (e *elementNode) ComputedSize() *checker.SizeEstimate { return nil }
