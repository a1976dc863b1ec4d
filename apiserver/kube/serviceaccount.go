package kube

import (
	"github.com/planekit/planekit/apiserver"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// serviceAccounts have nothing to default or check but their metadata.
func serviceAccounts() apiserver.Resource {
	return apiserver.Resource{
		Version:    "v1",
		Kind:       "ServiceAccount",
		Plural:     "serviceaccounts",
		ShortNames: []string{"sa"},
		Namespaced: true,
		New:        func() runtime.Object { return &corev1.ServiceAccount{} },
		NewList:    func() runtime.Object { return &corev1.ServiceAccountList{} },
		Columns:    []apiserver.Column{age[*corev1.ServiceAccount]()},
	}
}
