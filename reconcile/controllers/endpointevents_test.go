package controllers_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// TestEndpointsTell has pods on unknown nodes, and refused writes, and checks the Event objects and
// that both end well.
func TestEndpointsTell(t *testing.T) {
	for name, test := range map[string]struct {
		pods   []int
		refuse string // the first of these writes
		want   string
	}{
		"a pod nowhere":       {[]int{1}, "", "Warning FailedToUpdateEndpointSlices: Error updating Endpoint Slices for Service default/web: skipping Pod p01 for Service default/web: Node nowhere Not Found"},
		"two pods nowhere":    {[]int{1, 2}, "", "Warning FailedToUpdateEndpointSlices: Error updating Endpoint Slices for Service default/web: [skipping Pod p01 for Service default/web: Node nowhere Not Found, skipping Pod p02 for Service default/web: Node nowhere Not Found]"},
		"no slice is made":    {nil, "create EndpointSlice", "Warning FailedToUpdateEndpointSlices: Error updating Endpoint Slices for Service default/web: failed to create EndpointSlice for Service default/web: connection refused"},
		"no endpoints":        {nil, "create Endpoints", "Warning FailedToCreateEndpoint: Failed to create endpoint for service default/web: connection refused"},
		"endpoints that stay": {nil, "update Endpoints", "Warning FailedToUpdateEndpoint: Failed to update endpoint default/web: connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newEndpointWorld(t)
				refused := test.refuse == ""
				w.fault = func(verb, name string) (bool, error) {
					if what := verb + " " + name; !refused && len(what) > len(test.refuse) && what[:len(test.refuse)+1] == test.refuse+" " {
						refused = true
						return false, errors.New("connection refused")
					}
					return true, nil
				}
				p := w.launch(t, lag{})
				for _, number := range test.pods {
					pod := newEndpointPod(number, "web", 80)
					pod.Spec.NodeName = "nowhere"
					put(w.pods, pod)
				}
				synctest.Wait()
				put(w.services, newService("web", "web"))
				synctest.Wait()
				put(w.pods, newEndpointPod(3, "web", 80))
				time.Sleep(time.Minute)
				synctest.Wait()
				got := slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(w.events))), func(e string) bool { return e == test.want })
				if !slices.Contains(w.events, test.want) || len(got) > 0 {
					t.Errorf("events %q, want %q", w.events, test.want)
				}
				for _, pod := range w.pods.list() {
					w.pods.alter(t, keyOf(pod), func(p *corev1.Pod) { p.Spec.NodeName = "node-a" })
				}
				settle()
				w.convergedTo(t, "web", len(test.pods)+1)
				p.stop(t)
			})
		})
	}
}
