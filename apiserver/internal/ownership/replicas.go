package ownership

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Replicas are the paths, by version of a kind, of the field that the scale of its objects shows as
// spec.replicas. An empty path is that of a version without scale.
type Replicas map[schema.GroupVersion]string

// Of converts owners between parent, of the given version, and its scale: the owners of the field of
// parent own spec.replicas. Entries of versions that r does not have are dropped.
func (r Replicas) Of(parent metav1.Object, version schema.GroupVersion) *managedfields.ScaleHandler {
	paths := managedfields.ResourcePathMappings{}
	for gv, path := range r {
		paths[gv.String()] = nil
		if path != "" {
			paths[gv.String()] = pathOf(path)
		}
	}
	return managedfields.NewScaleHandler(parent.GetManagedFields(), version, paths)
}

// pathOf returns the path for a text such as metadata.labels.
func pathOf(names string) fieldpath.Path {
	var path fieldpath.Path
	for name := range strings.SplitSeq(names, ".") {
		path = append(path, fieldpath.FieldNameElement(name))
	}
	return path
}
