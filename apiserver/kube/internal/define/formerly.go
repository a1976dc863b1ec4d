package define

import (
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/kinds/kind"
	"k8s.io/apimachinery/pkg/runtime"
)

// Formerly returns versions in which objects of kind k may be stored, though none is served. Their
// fields must be those of k's own version, as JSON and as protobuf.
func Formerly[T runtime.Object](k kind.Kind[T], names ...string) []apiserver.Version {
	same := func(obj runtime.Object) (runtime.Object, error) { return obj.DeepCopyObject(), nil }
	versions := make([]apiserver.Version, len(names))
	for i, name := range names {
		versions[i] = apiserver.Version{
			Name: name, New: func() runtime.Object { return k.New() }, NewList: k.NewList, To: same, From: same, Unserved: true,
		}
	}
	return versions
}
