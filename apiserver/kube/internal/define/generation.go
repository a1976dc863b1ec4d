package define

import (
	"bytes"
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// counts returns functions that also set the generation of an object, after create and update.
func (s Strategy[T]) counts(create func(T), update func(obj, old T)) (func(T), func(obj, old T)) {
	first := func(obj T) {
		if create != nil {
			create(obj)
		}
		generationOf(obj).SetGeneration(1)
	}
	next := func(obj, old T) {
		if update != nil {
			update(obj, old)
		}
		generationOf(obj).SetGeneration(NextGeneration(generationOf(old).GetGeneration(), Differ(s.Counted(obj), s.Counted(old))))
	}
	return first, next
}

func generationOf(obj any) metav1.Object { return obj.(metav1.Object) }

// NextGeneration returns the generation of an object, one higher if its desired state changed.
func NextGeneration(generation int64, changed bool) int64 {
	if changed {
		generation++
	}
	return generation
}

// Differ reports whether two values mean something else in the API: nil equals empty, and quantities
// are compared by amount. It compares encoded messages first, which takes a fraction of the time.
func Differ(a, b any) bool {
	if x, ok := a.(message); ok {
		if y, ok := b.(message); ok && sameBytes(x, y) {
			return false
		}
	}
	return !equality.Semantic.DeepEqual(a, b)
}

type message interface{ Marshal() ([]byte, error) }

func sameBytes(a, b message) bool {
	if reflect.ValueOf(a).IsNil() || reflect.ValueOf(b).IsNil() {
		return false
	}
	x, err1 := a.Marshal()
	y, err2 := b.Marshal()
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}
