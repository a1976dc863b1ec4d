package kube_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/planekit/planekit/apiserver/kube"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestConnect: pods, nodes and services get what there is a way to, nothing else does.
func TestConnect(t *testing.T) {
	way := func(runtime.Object) (http.Handler, error) { return http.NotFoundHandler(), nil }
	names := func(c kube.Connections) []string {
		had := map[string]bool{}
		for _, r := range kube.Resources() {
			for _, sub := range r.Subresources {
				had[r.Plural+"/"+sub.SubresourceName()] = true
			}
		}
		var added []string
		for _, r := range kube.Connect(kube.Resources(), c) {
			for _, sub := range r.Subresources {
				if name := r.Plural + "/" + sub.SubresourceName(); !had[name] {
					added = append(added, name)
				}
			}
		}
		slices.Sort(added)
		return added
	}
	all := []string{"nodes/proxy", "pods/attach", "pods/exec", "pods/log", "pods/portforward", "pods/proxy", "services/proxy"}
	if got := names(kube.Connections{Log: way, Exec: way, Attach: way, PortForward: way, PodProxy: way, NodeProxy: way, ServiceProxy: way}); !slices.Equal(got, all) {
		t.Errorf("added %v", got)
	}
	if got := names(kube.Connections{Log: way}); !slices.Equal(got, []string{"pods/log"}) {
		t.Errorf("added %v", got)
	}
	if got := names(kube.Connections{}); got != nil {
		t.Errorf("added %v", got)
	}
}
