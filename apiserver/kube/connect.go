package kube

import (
	"net/http"

	"github.com/planekit/planekit/apiserver"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Connections has the handlers of the subresources that [apiserver.Proxy] connects to the processes
// of pods and nodes. A subresource without a handler is not served.
type Connections struct {
	// These get a *corev1.Pod.
	Log, Exec, Attach, PortForward, PodProxy func(parent runtime.Object) (http.Handler, error)
	// NodeProxy gets a *corev1.Node, and ServiceProxy a *corev1.Service.
	NodeProxy, ServiceProxy func(parent runtime.Object) (http.Handler, error)
}

// Connect adds the subresources of c to the pods, nodes and services among resources, and returns resources.
func Connect(resources []apiserver.Resource, c Connections) []apiserver.Resource {
	start, all := []string{"create", "get"}, []string{"create", "delete", "get", "patch", "update"}
	added := map[string][]apiserver.Proxy{
		"pods": {
			{Name: "attach", Kind: "PodAttachOptions", Options: empty[corev1.PodAttachOptions], Verbs: start, Connect: c.Attach},
			{Name: "exec", Kind: "PodExecOptions", Options: empty[corev1.PodExecOptions], Verbs: start, Connect: c.Exec},
			{Name: "log", Options: empty[corev1.PodLogOptions], Verbs: []string{"get"}, Connect: c.Log},
			{Name: "portforward", Kind: "PodPortForwardOptions", Options: empty[corev1.PodPortForwardOptions], Verbs: start, Connect: c.PortForward},
			{Name: "proxy", Kind: "PodProxyOptions", Options: empty[corev1.PodProxyOptions], Verbs: all, Paths: true, Connect: c.PodProxy},
		},
		"nodes": {
			{Name: "proxy", Kind: "NodeProxyOptions", Options: empty[corev1.NodeProxyOptions], Verbs: all, Paths: true, Connect: c.NodeProxy},
		},
		"services": {
			{Name: "proxy", Kind: "ServiceProxyOptions", Options: empty[corev1.ServiceProxyOptions], Verbs: all, Paths: true, Connect: c.ServiceProxy},
		},
	}
	for i := range resources {
		r := &resources[i]
		if r.Group != "" || r.Version != "v1" {
			continue
		}
		for _, sub := range added[r.Plural] {
			if sub.Connect != nil {
				r.Subresources = append(r.Subresources, sub)
			}
		}
	}
	return resources
}

// empty returns an empty object.
func empty[T any, P interface {
	*T
	runtime.Object
}]() runtime.Object {
	return P(new(T))
}
