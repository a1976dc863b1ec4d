package core

import (
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/kinds"
	corev1 "k8s.io/api/core/v1"
)

// ServiceAccounts returns the resource of the kind ServiceAccount. Only its metadata needs
// validation.
func ServiceAccounts() apiserver.Resource {
	return apiserver.For(kinds.ServiceAccounts, apiserver.Resource{
		Columns: []apiserver.Column{column.Age[*corev1.ServiceAccount]()},
	})
}
