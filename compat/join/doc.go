// Package join has nodes of plane/join join stock programs: a kube-apiserver with a
// kube-controller-manager, and planekit's API server with a kube-controller-manager. It has only tests.
package join
