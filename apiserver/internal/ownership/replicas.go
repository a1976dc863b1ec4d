package ownership

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// OfReplicas converts owners between parent, of the given version, and its scale: the owners of the
// field of parent at path own spec.replicas.
func OfReplicas(parent metav1.Object, version schema.GroupVersion, path string) *managedfields.ScaleHandler {
	return managedfields.NewScaleHandler(parent.GetManagedFields(), version,
		managedfields.ResourcePathMappings{version.String(): pathOf(path)})
}

// pathOf returns the path for a text such as metadata.labels.
func pathOf(names string) fieldpath.Path {
	var path fieldpath.Path
	for name := range strings.SplitSeq(names, ".") {
		path = append(path, fieldpath.FieldNameElement(name))
	}
	return path
}
