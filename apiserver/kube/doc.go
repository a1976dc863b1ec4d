// Package kube describes the Kubernetes resources to an API server, as data: how each is defaulted,
// validated, changed, shown in a table and selected.
//
//	for _, r := range kube.Resources() {
//		fmt.Println(r.Plural, r.Group, r.Version)
//	}
//
// Each API group has a package below this one, such as kube/core and kube/apps, for programs that
// serve some groups only. The names and Go types of the kinds are in package kinds.
//
// The model: a resource is one [apiserver.Resource] value. The Go types are those of k8s.io/api;
// there are no internal versions. Conversions between versions in Kubernetes (stringData folded into
// data, podIP kept equal to podIPs[0]) are part of defaulting here, so they hold for every decoded
// object. Rules, texts, field paths and columns are those of Kubernetes v1.36. All functions but
// that of an eviction are pure: they read the objects passed to them and, for ages, the clock.
//
// How it fails: validation returns a field.ErrorList; binding and scale return an API status error.
// An object of another Go type than that of the resource is a bug of the caller and panics.
//
// What it leaves out: everything that acts on the objects. Quotas, limits, webhooks, policies and API
// services are stored and validated, not enforced, and expressions (CEL) are not compiled. There are
// no Windows pods. The annotations that the field of seccomp has replaced have no effect. Of volume types, those that a node can mount by itself
// and CSI are validated in depth; of the other types, only that there is one per volume.
package kube
