// Package kube describes the Kubernetes resources to an API server, as data:
// how each is defaulted, checked, changed, shown in a table and selected.
//
//	for _, r := range kube.Resources() {
//		fmt.Println(r.Plural, r.Group, r.Version)
//	}
//
// The model: a resource is one [apiserver.Resource] value. The Go types are
// those of k8s.io/api; there are no internal versions. What upstream does when
// it converts between versions (stringData folded into data, podIP kept equal
// to podIPs[0]) is part of defaulting here, so it holds for every object that
// was ever decoded. Rules, texts, field paths and columns are those of
// Kubernetes v1.36. All functions are pure: they look at the objects they are
// given and, for ages, at the clock.
//
// A job's selector is made of its UID and its name: both must be set before
// PrepareForCreate runs.
//
// How it fails: validation answers with a field.ErrorList; binding and scale
// refuse with an API status error. An object of another Go type than the
// resource's own is a bug of the caller and panics.
//
// A service gets its cluster IPs and node ports when it is stored, out of the
// ranges of [Config]; see [apiserver.Allocation] for what makes them its own. They
// are not shown as IPAddress objects.
//
// What it leaves out: pods/eviction, because it is a deletion and so not a change to the pod;
// pods/resize and pods/ephemeralcontainers; Windows pods; annotations that
// fields have replaced (seccomp, AppArmor). matchLabelKeys are checked but not
// merged into their selectors, and a gated pod may not change where it wants to
// run. Of volume types only those that a node can mount by itself are checked
// in depth; of others, that there is one type per volume.
package kube
