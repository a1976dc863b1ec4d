package kube

import "k8s.io/apimachinery/pkg/runtime/schema"

// renamed are the resources that kube-apiserver stores under other names than
// they are served by, most of them for what they were called once.
var renamed = map[schema.GroupResource]string{
	{Resource: "endpoints"}:                             "services/endpoints",
	{Resource: "nodes"}:                                 "minions",
	{Resource: "replicationcontrollers"}:                "controllers",
	{Resource: "services"}:                              "services/specs",
	{Group: "networking.k8s.io", Resource: "ingresses"}: "ingress",
}

// builtIn are the groups whose resources kube-apiserver stores under their name
// alone. Those of others, custom resources and its own APIServices, come under
// their group.
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

// Layout is the layout of keys that kube-apiserver has, for
// apiserver.Config.Layout: with it, and the prefix "/registry", a server goes on
// with the etcd of a kube-apiserver which has been stopped. The two must not
// serve from one etcd at the same time: they allocate cluster IPs and node ports
// by records of their own.
func Layout(resource schema.GroupResource) string {
	if name, ok := renamed[resource]; ok {
		return name
	}
	if builtIn[resource.Group] {
		return resource.Resource
	}
	return resource.Group + "/" + resource.Resource
}
