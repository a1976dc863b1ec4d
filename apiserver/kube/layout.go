package kube

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// renamed maps resources to the names under which kube-apiserver stores them, where these differ.
// Most are the names of earlier API versions.
var renamed = map[schema.GroupResource]string{
	{Resource: "endpoints"}:                             "services/endpoints",
	{Resource: "nodes"}:                                 "minions",
	{Resource: "replicationcontrollers"}:                "controllers",
	{Resource: "services"}:                              "services/specs",
	{Group: "networking.k8s.io", Resource: "ingresses"}: "ingress",
}

// builtIn has the groups whose resources kube-apiserver stores under their name alone. It stores
// the resources of all other groups, such as custom resources and APIServices, under the group.
var builtIn = map[string]bool{
	"":                             true,
	"admissionregistration.k8s.io": true,
	"apps":                         true,
	"autoscaling":                  true,
	"batch":                        true,
	"certificates.k8s.io":          true,
	"coordination.k8s.io":          true,
	"discovery.k8s.io":             true,
	"events.k8s.io":                true,
	"flowcontrol.apiserver.k8s.io": true,
	"internal.apiserver.k8s.io":    true,
	"networking.k8s.io":            true,
	"node.k8s.io":                  true,
	"policy":                       true,
	"rbac.authorization.k8s.io":    true,
	"resource.k8s.io":              true,
	"scheduling.k8s.io":            true,
	"storage.k8s.io":               true,
	"storagemigration.k8s.io":      true,
}

// Layout returns the name under which kube-apiserver stores a resource. As apiserver.Config.Layout,
// with the prefix "/registry", it lets a server take over the etcd of a kube-apiserver that has
// stopped. The two must not serve from one etcd at the same time: each allocates node ports by
// records of its own.
func Layout(resource schema.GroupResource) string {
	if name, ok := renamed[resource]; ok {
		return name
	}
	if builtIn[resource.Group] {
		return resource.Resource
	}
	return resource.Group + "/" + resource.Resource
}
