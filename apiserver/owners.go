package apiserver

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ownerKey is the content of an owner reference. The booleans are 0 if they are not set.
type ownerKey struct {
	version, kind, name string
	uid                 types.UID
	controller, blocks  int
}

func ownerKeyOf(r *metav1.OwnerReference) ownerKey {
	number := func(b *bool) int {
		switch {
		case b == nil:
			return 0
		case *b:
			return 1
		}
		return 2
	}
	return ownerKey{r.APIVersion, r.Kind, r.Name, r.UID, number(r.Controller), number(r.BlockOwnerDeletion)}
}

// uniqueOwners removes owner references that come twice in m, and warns about them in Kubernetes' words. when is
// empty, or says since when they do.
func (q *request) uniqueOwners(m metav1.Object, when string) {
	all := m.GetOwnerReferences()
	if len(all) < 2 {
		return
	}
	seen := make(map[ownerKey]bool, len(all))
	var once []metav1.OwnerReference
	var twice []string
	for i := range all {
		if key := ownerKeyOf(&all[i]); seen[key] {
			twice = append(twice, string(all[i].UID))
		} else {
			seen[key] = true
			once = append(once, all[i])
		}
	}
	if twice != nil {
		m.SetOwnerReferences(once)
		q.warn(".metadata.ownerReferences contains duplicate entries" + when + "; API server dedups owner references in 1.20+, and may reject " +
			"such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: " + strings.Join(twice, ", "))
	}
}
