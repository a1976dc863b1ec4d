package apiserver

import (
	"github.com/planekit/planekit/apiserver/internal/share"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// sharedParts is how many different labels, annotations and owners of a kind are
// remembered.
const sharedParts = 4096

// metaParts has what the metadata of a kind's objects have in common.
type metaParts struct {
	names  *share.Table[map[string]string]
	owners *share.Table[[]metav1.OwnerReference]
}

func newMetaParts() metaParts {
	return metaParts{
		names:  share.NewTable[map[string]string](sharedParts),
		owners: share.NewTable[[]metav1.OwnerReference](sharedParts),
	}
}

// share replaces parts of obj, which nobody else has yet and which is about to be
// kept, by equal ones of objects that are.
func (k *kind) share(obj runtime.Object) {
	m := accessor(obj)
	labels, annotations, owners := m.GetLabels(), m.GetAnnotations(), m.GetOwnerReferences()
	share.Map(k.metas.names, &labels)
	share.Map(k.metas.names, &annotations)
	share.List(k.metas.owners, &owners)
	m.SetLabels(labels)
	m.SetAnnotations(annotations)
	m.SetOwnerReferences(owners)
	k.owners.Share(m)
	if k.Share != nil {
		k.Share(obj)
	}
}
