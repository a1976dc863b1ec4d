package patched

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
)

// Same reports whether two objects mean the same in the API. It compares the content of objects that hold JSON
// values, because such a Go type may have unexported fields.
func Same(a, b any) bool {
	x, isX := a.(runtime.Unstructured)
	y, isY := b.(runtime.Unstructured)
	if isX && isY {
		return equality.Semantic.DeepEqual(x.UnstructuredContent(), y.UnstructuredContent())
	}
	return equality.Semantic.DeepEqual(a, b)
}
