package core

import (
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/kinds"
	corev1 "k8s.io/api/core/v1"
)

// ServiceAccounts returns the resource of the kind ServiceAccount. Only its metadata needs
// validation. Of the secrets, it keeps the names.
func ServiceAccounts() apiserver.Resource {
	return apiserver.For(kinds.ServiceAccounts, apiserver.Resource{
		Strategy: define.Strategy[*corev1.ServiceAccount]{
			Create: nameSecrets,
			Update: func(a, _ *corev1.ServiceAccount) { nameSecrets(a) },
		}.Erase(),
		Columns: []apiserver.Column{column.Age[*corev1.ServiceAccount]()},
	})
}

func nameSecrets(a *corev1.ServiceAccount) {
	for i := range a.Secrets {
		a.Secrets[i] = corev1.ObjectReference{Name: a.Secrets[i].Name}
	}
}
