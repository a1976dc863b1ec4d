package kubecel

import (
	"math"
	"math/bits"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// CEL charges for a call after it has returned. That is too late for a call whose result does not
// fit in memory, or that takes hours. These calls are refused before they begin.

// bytesLimit bounds the texts that one call makes. Reading more costs more than an evaluation may.
const bytesLimit = 10 * expressionLimit

// foreseen holds the overloads that may be too expensive, and the lowest cost of a call.
var foreseen = map[string]func([]ref.Val) uint64{
	"lists_range":                      func(arguments []ref.Val) uint64 { return positive(arguments[0]) },
	"list_flatten":                     func(arguments []ref.Val) uint64 { return flattened(arguments[0], 1) },
	"list_flatten_int":                 func(arguments []ref.Val) uint64 { return flattened(arguments[0], positive(arguments[1])) },
	"list_distinct":                    func(arguments []ref.Val) uint64 { return times(2*size(arguments[0]), size(arguments[0])) },
	"list_sets_contains_list":          product,
	"list_sets_equivalent_list":        product,
	"list_sets_intersects_list":        product,
	"string_index_of_string":           searches,
	"string_index_of_string_int":       searches,
	"string_last_index_of_string":      searches,
	"string_last_index_of_string_int":  searches,
	"string_replace_string_string":     replacing,
	"string_replace_string_string_int": replacing,
	"list_join":                        func(arguments []ref.Val) uint64 { return joining(arguments[0], 0) },
	"list_join_string":                 func(arguments []ref.Val) uint64 { return joining(arguments[0], length(arguments[1])) },
	"string_format":                    func(arguments []ref.Val) uint64 { return joining(arguments[1], 0) },
}

func times(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	if high > 0 {
		return math.MaxUint64
	}
	return low
}

func positive(v ref.Val) uint64 {
	if n, ok := v.(types.Int); ok && n > 0 {
		return uint64(n)
	}
	return 0
}

// length returns the bytes of a text.
func length(v ref.Val) uint64 {
	switch v := v.(type) {
	case types.String:
		return uint64(len(v))
	case types.Bytes:
		return uint64(len(v))
	}
	return 0
}

func product(arguments []ref.Val) uint64 { return times(size(arguments[0]), size(arguments[1])) }

// searches returns the cost of searching one text in another, which compares them at each character.
func searches(arguments []ref.Val) uint64 {
	return times(length(arguments[0]), length(arguments[1])) / 100
}

// texts returns the cost of making a text of that many bytes.
func texts(bytes uint64) uint64 {
	if bytes > bytesLimit {
		return math.MaxUint64
	}
	return 0
}

func replacing(arguments []ref.Val) uint64 {
	text, ok := arguments[0].(types.String)
	old, also := arguments[1].(types.String)
	if !ok || !also || length(arguments[2]) <= uint64(len(old)) {
		return 0
	}
	return texts(times(uint64(strings.Count(string(text), string(old))), length(arguments[2])))
}

func joining(list ref.Val, separator uint64) uint64 {
	items, ok := list.(traits.Lister)
	if !ok {
		return 0
	}
	var bytes uint64
	for it := items.Iterator(); it.HasNext() == types.True && bytes <= bytesLimit; {
		bytes += separator + length(it.Next())
	}
	return texts(bytes)
}

// flattened returns the number of elements that a list has if the lists in it are replaced by their
// elements, up to a depth.
func flattened(list ref.Val, depth uint64) uint64 {
	items, ok := list.(traits.Lister)
	if !ok {
		return 1
	}
	if depth == 0 {
		return size(list)
	}
	var all uint64
	for it := items.Iterator(); it.HasNext() == types.True && all <= expressionLimit; {
		all += flattened(it.Next(), depth-1)
	}
	return all
}
