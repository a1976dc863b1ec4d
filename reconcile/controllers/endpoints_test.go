//lint:file-ignore SA1019 clients still read Endpoints

package controllers_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/endpoints"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// endpointWorld is an API with services and what makes their endpoints.
type endpointWorld struct {
	*api
	services  *collection[*corev1.Service]
	pods      *collection[*corev1.Pod]
	nodes     *collection[*corev1.Node]
	slices    *collection[*discoveryv1.EndpointSlice]
	endpoints *collection[*corev1.Endpoints]
}

func newEndpointWorld(t *testing.T) *endpointWorld {
	a := &api{}
	w := &endpointWorld{
		api:       a,
		services:  newCollection(a, "Service", func() *corev1.Service { return &corev1.Service{} }),
		pods:      newPods(a),
		nodes:     newCollection(a, "Node", func() *corev1.Node { return &corev1.Node{} }),
		slices:    newCollection(a, "EndpointSlice", func() *discoveryv1.EndpointSlice { return &discoveryv1.EndpointSlice{} }),
		endpoints: newCollection(a, "Endpoints", func() *corev1.Endpoints { return &corev1.Endpoints{} }),
	}
	for _, zone := range []string{"a", "b"} {
		must[*corev1.Node](t)(w.nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + zone,
			Labels: map[string]string{corev1.LabelTopologyZone: zone}}}))
	}
	return w
}

// launch runs both controllers. Each copy falls behind by itself.
func (w *endpointWorld) launch(t *testing.T, l lag) *process { return w.launchLate(t, l, l) }

// launchLate has copies of services that fall behind otherwise than others.
func (w *endpointWorld) launchLate(t *testing.T, of, l lag) *process {
	return w.launchEach(t, of, l, l, func() {})
}

// launchEach has copies of services, of what else there is, and of what is written
// fall behind otherwise, and then happen while they do not show it yet.
func (w *endpointWorld) launchEach(t *testing.T, of, l, ours lag, then func()) *process {
	return launch(t, func(ctx context.Context) []controllers.Runner {
		defer then()
		services, pods, written := follow(ctx, w.services, of), follow(ctx, w.pods, l), follow(ctx, w.slices, ours)
		byNamespace := localcache.Scan(services, controllers.ByNamespace[*corev1.Service])
		podsByNamespace := localcache.Scan(pods, controllers.ByNamespace[*corev1.Pod])
		return []controllers.Runner{
			must[*endpoints.SliceController](t)(endpoints.NewSlices(endpoints.SliceConfig{
				Services: services, Pods: pods, Nodes: follow(ctx, w.nodes, l), EndpointSlices: written,
				ServicesByNamespace: byNamespace, PodsByNamespace: podsByNamespace,
				SlicesByService: localcache.Scan(written, endpoints.ByService),
				Writer:          w.slices, Events: w.api, MaxEndpoints: 3,
			})),
			must[*endpoints.Controller](t)(endpoints.New(endpoints.Config{
				Services: services, Pods: pods, Endpoints: follow(ctx, w.endpoints, ours),
				ServicesByNamespace: byNamespace, PodsByNamespace: podsByNamespace,
				ServiceReader: w.services, Writer: w.endpoints, Events: w.api,
			})),
		}
	})
}

// newService selects pods by app and leads to their port http.
func newService(name, app string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.ServiceSpec{
			ClusterIP: "10.0.0.1", IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Selector: map[string]string{"app": app},
			Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString("http")}},
		},
	}
}

func newEndpointPod(number int, app string, port int32) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("p%02d", number), Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{NodeName: []string{"node-a", "node-b"}[number%2],
			Containers: []corev1.Container{{Name: "c", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: port, Protocol: corev1.ProtocolTCP}}}}},
	}
	makeReady(pod)
	pod.Spec.NodeName = []string{"node-a", "node-b"}[number%2]
	pod.Status.PodIP = fmt.Sprintf("10.1.0.%d", number)
	pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}, {IP: fmt.Sprintf("fd00::%x", number)}}
	return pod
}

// wanted returns the expected endpoints of a service, one line each.
func (w *endpointWorld) wanted(service *corev1.Service) []string {
	zones := map[string]string{}
	for _, n := range w.nodes.list() {
		zones[n.Name] = n.Labels[corev1.LabelTopologyZone]
	}
	var lines []string
	for _, p := range w.pods.list() {
		if p.Labels["app"] != service.Spec.Selector["app"] || p.Status.Phase != corev1.PodRunning {
			continue
		}
		for i, family := range []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} {
			if slices.Contains(service.Spec.IPFamilies, family) {
				lines = append(lines, fmt.Sprintf("%s %s:%d %t %t %s", p.UID, p.Status.PodIPs[i].IP, p.Spec.Containers[0].Ports[0].ContainerPort,
					podReady(p) && p.DeletionTimestamp == nil, p.DeletionTimestamp != nil, zones[p.Spec.NodeName]))
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// sliced returns the endpoints in the slices of a service, in the same form.
func (w *endpointWorld) sliced(service *corev1.Service) []string {
	var lines []string
	for _, s := range w.slices.list() {
		if s.Labels[discoveryv1.LabelServiceName] != service.Name {
			continue
		}
		if s.OwnerReferences[0].UID != service.UID || s.Labels["version"] != service.Labels["version"] {
			lines = append(lines, fmt.Sprintf("slice %s is of another time: %v", s.Name, s.Labels))
		}
		if len(s.Endpoints) > 3 {
			lines = append(lines, fmt.Sprintf("slice %s has %d endpoints", s.Name, len(s.Endpoints)))
		}
		for _, e := range s.Endpoints {
			lines = append(lines, fmt.Sprintf("%s %s:%d %t %t %s", e.TargetRef.UID, e.Addresses[0], *s.Ports[0].Port, *e.Conditions.Ready, *e.Conditions.Terminating, *e.Zone))
		}
	}
	slices.Sort(lines)
	return lines
}

// listed is the same of the Endpoints, and of what they can say.
func (w *endpointWorld) listed(name string) []string {
	var lines []string
	for _, e := range w.endpoints.list() {
		for _, s := range e.Subsets {
			for i, a := range append(slices.Clone(s.Addresses), s.NotReadyAddresses...) {
				if e.Name == name {
					lines = append(lines, fmt.Sprintf("%s %s:%d %t", a.TargetRef.UID, a.IP, s.Ports[0].Port, i < len(s.Addresses)))
				}
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// listable makes of wanted what Endpoints say: of the first family, of pods that
// stay, without zones.
func listable(service *corev1.Service, wanted []string) []string {
	var lines []string
	for _, line := range wanted {
		words := strings.Fields(line)
		six := strings.Contains(words[1], "fd00")
		if words[3] == "false" && six == (service.Spec.IPFamilies[0] == corev1.IPv6Protocol) {
			lines = append(lines, strings.Join(words[:3], " "))
		}
	}
	return lines
}

// converged checks that all that is written says what is.
func (w *endpointWorld) converged(t *testing.T) {
	t.Helper()
	names := map[string]bool{}
	for _, s := range w.services.list() {
		names[s.Name] = true
		want := w.wanted(s)
		if got := w.sliced(s); !slices.Equal(got, want) {
			t.Errorf("slices of %s:\n%s\nwant\n%s", s.Name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if got := w.listed(s.Name); !slices.Equal(got, listable(s, want)) {
			t.Errorf("endpoints of %s:\n%s\nwant\n%s", s.Name, strings.Join(got, "\n"), strings.Join(listable(s, want), "\n"))
		}
	}
	for _, e := range w.endpoints.list() {
		if !names[e.Name] {
			t.Errorf("endpoints of %s are left", e.Name)
		}
	}
}

func TestEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEndpointWorld(t)
		p := w.launch(t, lag{})
		must[*corev1.Service](t)(w.services.Create(t.Context(), newService("web", "web")))
		foreign := newService("foreign", "")
		foreign.Spec.Selector = nil
		must[*corev1.Service](t)(w.services.Create(t.Context(), foreign))
		must[*corev1.Endpoints](t)(w.endpoints.Create(t.Context(), &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "foreign"}}))
		must[*corev1.Endpoints](t)(w.endpoints.Create(t.Context(), &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "early"}}))
		synctest.Wait()
		if s, e := w.slices.list(), w.endpoints.list(); len(s) != 1 || len(s[0].Endpoints) != 0 || len(e) != 3 {
			t.Errorf("a new service: %d slices, %d endpoints", len(s), len(e))
		}
		for i := range 5 {
			must[*corev1.Pod](t)(w.pods.Create(t.Context(), newEndpointPod(i, "web", 80)))
			must[*corev1.Pod](t)(w.pods.Create(t.Context(), newEndpointPod(10+i, "other", 80)))
		}
		settle()
		w.convergedTo(t, "web", 5)
		writes := len(w.wrote())
		// One that is not ready any more is one write to each.
		w.pods.alter(t, "default/p01", func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse })
		synctest.Wait()
		w.convergedTo(t, "web", 5)
		w.pods.alter(t, "default/p02", func(p *corev1.Pod) { p.Annotations = map[string]string{"nobody": "cares"} })
		settle()
		if got := w.wrote()[writes:]; len(got) != 2 {
			t.Errorf("written for one pod: %v", got)
		}
		w.nodes.alter(t, "node-a", func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = "c" })
		synctest.Wait()
		w.convergedTo(t, "web", 5)
		w.pods.alter(t, "default/p10", func(p *corev1.Pod) { p.Labels["app"] = "web" })
		w.pods.alter(t, "default/p03", func(p *corev1.Pod) { p.Labels["app"] = "none" })
		synctest.Wait()
		w.convergedTo(t, "web", 5)
		// Whatever others do to what is written is undone.
		for _, s := range w.slices.list() {
			w.slices.alter(t, keyOf(s), func(s *discoveryv1.EndpointSlice) { s.Endpoints = nil })
		}
		w.endpoints.alter(t, "default/web", func(e *corev1.Endpoints) { e.Subsets = nil })
		settle()
		w.convergedTo(t, "web", 5)
		for _, name := range []string{"web", "foreign"} {
			if err := w.services.Delete(t.Context(), "default", name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		settle()
		if e := w.endpoints.list(); len(e) != 1 || e[0].Name != "early" {
			t.Errorf("endpoints left when the services are gone: %v", e)
		}
		if len(w.events) > 0 {
			t.Errorf("events %v", w.events)
		}
		p.stop(t)
	})
}

// convergedTo checks a service, and that it has endpoints.
func (w *endpointWorld) convergedTo(t *testing.T, name string, n int) {
	t.Helper()
	for _, s := range w.services.list() {
		if s.Name != name {
			continue
		}
		want := w.wanted(s)
		if got := w.sliced(s); len(got) != n || !slices.Equal(got, want) {
			t.Errorf("slices of %s:\n%s\nwant\n%s", s.Name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if got := w.listed(name); !slices.Equal(got, listable(s, want)) {
			t.Errorf("endpoints of %s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(listable(s, want), "\n"))
		}
	}
}
