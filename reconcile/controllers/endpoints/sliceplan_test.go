package endpoints

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile/controllers/internal/controllertest"
	"github.com/planekit/planekit/reconcile/controllers/internal/optional"
	"github.com/planekit/planekit/reconcile/controllers/internal/podstatus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// webService leads port 80 to the port http of pods with app=web.
func webService() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "service", Labels: map[string]string{"team": "a"},
			CreationTimestamp: metav1.NewTime(time.Unix(100, 0))},
		Spec: corev1.ServiceSpec{
			ClusterIP: "10.0.0.1", IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Selector: map[string]string{"app": "web"},
			Ports: []corev1.ServicePort{{Name: "web", Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString("http")}},
		},
	}
}

// webPod is ready, has an address of each family made of its number, and the port
// http.
func webPod(number int, port int32) *corev1.Pod {
	p := controllertest.ReadyPod(fmt.Sprintf("web-%03d", number), "node", time.Duration(number)*time.Second)
	p.Namespace, p.UID, p.Labels = "default", types.UID("uid-"+p.Name), map[string]string{"app": "web"}
	p.Spec.Containers = []corev1.Container{{Name: "c", Ports: []corev1.ContainerPort{
		{Name: "http", ContainerPort: port, Protocol: corev1.ProtocolTCP}, {Name: "http", ContainerPort: 53, Protocol: corev1.ProtocolUDP}}}}
	for _, ip := range []string{fmt.Sprintf("10.1.%d.%d", number/250, number%250), fmt.Sprintf("fd00::%x", number)} {
		p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: ip})
	}
	p.Status.PodIP = p.Status.PodIPs[0].IP
	return p
}

func webPods(numbers ...int) (pods []*corev1.Pod) {
	for _, n := range numbers {
		pods = append(pods, webPod(n, 8080))
	}
	return pods
}

func upTo(n int) (numbers []int) {
	for i := range n {
		numbers = append(numbers, i)
	}
	return numbers
}

// plans are the slices of a service as a plan after the other leaves them.
type plans struct {
	slicePlanner
	have []*discoveryv1.EndpointSlice
}

func newPlans(most int) *plans {
	zones := map[string]string{"node": "a", "other": "b", "bare": ""}
	return &plans{slicePlanner: slicePlanner{service: webService(), max: most, zone: func(node string) (string, bool) {
		zone, ok := zones[node]
		return zone, ok
	}}}
}

// next plans and carries out, and says what was done: "+2 ~1 -0".
func (p *plans) next(pods []*corev1.Pod) string {
	plan := planEndpointSlices(p.slicePlanner, pods, p.have)
	nameSlices(p.service.UID, plan.create, func(name string) bool { return p.at(name) >= 0 })
	p.have = append(p.have, plan.create...)
	for _, s := range plan.update {
		p.have[p.at(s.Name)] = s
	}
	for _, s := range plan.remove {
		at := p.at(s.Name)
		p.have = slices.Delete(p.have, at, at+1)
	}
	return fmt.Sprintf("+%d ~%d -%d", len(plan.create), len(plan.update), len(plan.remove))
}

func (p *plans) at(name string) int {
	return slices.IndexFunc(p.have, func(s *discoveryv1.EndpointSlice) bool { return s.Name == name })
}

// sizes returns the sizes of the slices, biggest first.
func (p *plans) sizes() string {
	var list []int
	for _, s := range p.have {
		list = append(list, len(s.Endpoints))
	}
	slices.SortFunc(list, func(a, b int) int { return b - a })
	return fmt.Sprint(list)
}

// TestSlicePacking has the cases that Kubernetes' packing rule is about.
func TestSlicePacking(t *testing.T) {
	for _, test := range []struct {
		name  string
		steps []int // numbers of pods
		want  []string
	}{
		{"none and none", []int{0, 0}, []string{"+1 ~0 -0 [0]", "+0 ~0 -0 [0]"}},
		{"the empty one is used", []int{0, 3}, []string{"+1 ~0 -0 [0]", "+0 ~1 -0 [3]"}},
		{"and again", []int{3, 0, 0}, []string{"+1 ~0 -0 [3]", "+0 ~1 -0 [0]", "+0 ~0 -0 [0]"}},
		{"one more fits in", []int{25, 26}, []string{"+3 ~0 -0 [10 10 5]", "+0 ~1 -0 [10 10 6]"}},
		{"not all fit in: they stay together", []int{25, 31}, []string{"+3 ~0 -0 [10 10 5]", "+1 ~0 -0 [10 10 6 5]"}},
		{"ten and more make a slice, the rest fits in", []int{25, 38}, []string{"+3 ~0 -0 [10 10 5]", "+1 ~1 -0 [10 10 10 8]"}},
		{"nothing is moved to fill up", []int{30, 21, 21}, []string{"+3 ~0 -0 [10 10 10]", "+0 ~1 -0 [10 10 1]", "+0 ~0 -0 [10 10 1]"}},
	} {
		p := newPlans(10)
		for i, n := range test.steps {
			if got := p.next(webPods(upTo(n)...)) + " " + p.sizes(); got != test.want[i] {
				t.Errorf("%s: %d pods: %s, want %s", test.name, n, got, test.want[i])
			}
		}
	}
}

// What changes anyway is filled first, the fullest before others.
func TestSliceFillsWhatChanges(t *testing.T) {
	p := newPlans(10)
	p.next(webPods(upTo(30)...))
	// Two leave the first slice, five the second; three come.
	numbers := slices.DeleteFunc(upTo(33), func(n int) bool { return n < 2 || n >= 10 && n < 15 })
	if got := p.next(webPods(numbers...)) + " " + p.sizes(); got != "+0 ~2 -0 [10 10 6]" {
		t.Error(got)
	}
	// A slice without remaining endpoints is reused for new ones.
	numbers = slices.DeleteFunc(numbers, func(n int) bool { return n >= 20 && n < 30 })
	for n := 40; n < 50; n++ {
		numbers = append(numbers, n)
	}
	if got := p.next(webPods(numbers...)) + " " + p.sizes(); got != "+0 ~1 -0 [10 10 6]" {
		t.Error(got)
	}
}

// One more goes into the fullest slice that it fits into, whatever their order.
func TestSliceFillsTheFullest(t *testing.T) {
	for _, test := range []struct {
		first, second int // how many leave each
		want          string
	}{{2, 5, "+0 ~1 -0 [9 5]"}, {5, 2, "+0 ~1 -0 [9 5]"}, {0, 2, "+0 ~1 -0 [10 9]"}, {2, 0, "+0 ~1 -0 [10 9]"}} {
		p := newPlans(10)
		p.next(webPods(upTo(20)...))
		left := slices.DeleteFunc(upTo(20), func(n int) bool { return n < test.first || n >= 10 && n < 10+test.second })
		p.next(webPods(left...))
		if got := p.next(webPods(append(left, 30)...)) + " " + p.sizes(); got != test.want {
			t.Errorf("%d and %d left: %s, want %s", test.first, test.second, got, test.want)
		}
	}
}

// The slice that says that nothing is there has the labels of its service, too.
func TestSliceOfNothing(t *testing.T) {
	p := newPlans(10)
	if got := p.next(nil) + p.next(nil); got != "+1 ~0 -0+0 ~0 -0" {
		t.Error(got)
	}
	p.service.Labels = map[string]string{"team": "b"}
	if got := p.next(nil) + " " + p.have[0].Labels["team"]; got != "+0 ~1 -0 b" {
		t.Error(got)
	}
}

// TestTriggersFirst checks that the trigger time is the first of the changes since the last call,
// in any order of pods, and the creation time of a new service.
func TestTriggersFirst(t *testing.T) {
	var tr triggers
	service := newPlans(10).service
	at := func(seconds ...int) (pods []*corev1.Pod) {
		for i, s := range seconds {
			pods = append(pods, controllertest.ReadyPod(fmt.Sprint("pod-", i), "node", 0))
			podstatus.ReadyCondition(pods[i]).LastTransitionTime = metav1.NewTime(time.Unix(int64(s), 0))
		}
		return pods
	}
	for i, test := range []struct {
		pods []*corev1.Pod
		want int64 // none where zero
	}{{at(150, 50), 100}, {at(150, 50), 0}, {at(210, 220), 210}, {at(240, 230), 230}, {at(240, 250), 250}, {at(90, 250), 0}} {
		state, when := tr.next(service, test.pods)
		tr.set(localcache.KeyOf(service), state)
		if got := when; test.want == 0 && !got.IsZero() || test.want != 0 && got.Unix() != test.want {
			t.Errorf("step %d: %s, want %d", i, got, test.want)
		}
	}
}

func TestSliceEndpoint(t *testing.T) {
	now := metav1.Now()
	for _, test := range []struct {
		name    string
		service func(*corev1.Service)
		pod     func(*corev1.Pod)
		want    string // no endpoint where empty
	}{
		{name: "ready", want: "10.1.0.1 ready serving node=node zone=a ref=web-001"},
		{name: "not ready", pod: func(p *corev1.Pod) { p.Status.Conditions = nil }, want: "10.1.0.1 node=node zone=a ref=web-001"},
		{name: "going", pod: func(p *corev1.Pod) { p.DeletionTimestamp = &now }, want: "10.1.0.1 serving terminating node=node zone=a ref=web-001"},
		{name: "published anyway", service: func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true },
			pod:  func(p *corev1.Pod) { p.DeletionTimestamp, p.Status.Conditions = &now, nil },
			want: "10.1.0.1 ready terminating node=node zone=a ref=web-001"},
		{name: "ended", pod: func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }},
		{name: "without an address", pod: func(p *corev1.Pod) { p.Status.PodIPs, p.Status.PodIP = nil, "" }},
		{name: "of the other family", pod: func(p *corev1.Pod) { p.Status.PodIPs = p.Status.PodIPs[1:] }},
		{name: "six", service: func(s *corev1.Service) { s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} },
			want: "fd00::1 ready serving node=node zone=a ref=web-001"},
		{name: "an odd address", pod: func(p *corev1.Pod) { p.Status.PodIPs[0].IP = "::ffff:10.1.0.1" },
			want: "10.1.0.1 ready serving node=node zone=a ref=web-001"},
		{name: "no zone", pod: func(p *corev1.Pod) { p.Spec.NodeName = "bare" }, want: "10.1.0.1 ready serving node=bare ref=web-001"},
		{name: "on a node nobody knows", pod: func(p *corev1.Pod) { p.Spec.NodeName = "lost" }},
		{name: "on a node nobody knows, and published", service: func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true },
			pod: func(p *corev1.Pod) { p.Spec.NodeName = "lost" }, want: "10.1.0.1 ready serving node=lost ref=web-001"},
		{name: "a name in the domain", pod: func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "one", "web" },
			want: "10.1.0.1 ready serving node=node zone=a host=one ref=web-001"},
		{name: "a name in another", pod: func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "one", "db" },
			want: "10.1.0.1 ready serving node=node zone=a ref=web-001"},
		{name: "near", service: prefer(corev1.ServiceTrafficDistributionPreferSameZone),
			want: "10.1.0.1 ready serving node=node zone=a ref=web-001 forZone=a"},
		{name: "near, but not ready", service: prefer(corev1.ServiceTrafficDistributionPreferSameZone),
			pod: func(p *corev1.Pod) { p.Status.Conditions = nil }, want: "10.1.0.1 node=node zone=a ref=web-001"},
		{name: "nearer", service: prefer(corev1.ServiceTrafficDistributionPreferSameNode),
			want: "10.1.0.1 ready serving node=node zone=a ref=web-001 forZone=a forNode=node"},
		{name: "near by an older wish", service: func(s *corev1.Service) {
			prefer(corev1.ServiceTrafficDistributionPreferClose)(s)
			s.Annotations = map[string]string{corev1.AnnotationTopologyMode: "Auto"}
		}, want: "10.1.0.1 ready serving node=node zone=a ref=web-001"},
		{name: "near, and the oldest wish is none", service: func(s *corev1.Service) {
			prefer(corev1.ServiceTrafficDistributionPreferClose)(s)
			s.Annotations = map[string]string{corev1.AnnotationTopologyMode: "Auto", corev1.DeprecatedAnnotationTopologyAwareHints: "Disabled"}
		}, want: "10.1.0.1 ready serving node=node zone=a ref=web-001 forZone=a"},
		{name: "near, and going", service: prefer(corev1.ServiceTrafficDistributionPreferSameZone),
			pod: func(p *corev1.Pod) { p.DeletionTimestamp = &now }, want: "10.1.0.1 serving terminating node=node zone=a ref=web-001"},
		{name: "near, and published anyway", service: func(s *corev1.Service) {
			prefer(corev1.ServiceTrafficDistributionPreferSameZone)(s)
			s.Spec.PublishNotReadyAddresses = true
		}, pod: func(p *corev1.Pod) { p.Status.Conditions = nil }, want: "10.1.0.1 ready node=node zone=a ref=web-001 forZone=a"},
	} {
		p, pod := newPlans(10), webPod(1, 8080)
		if test.service != nil {
			test.service(p.service)
		}
		if test.pod != nil {
			test.pod(pod)
		}
		p.next([]*corev1.Pod{pod})
		got := ""
		for _, e := range p.have[0].Endpoints {
			got += describe(e)
		}
		if got != test.want || len(p.have) != 1 {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
		if again := p.next([]*corev1.Pod{pod}); again != "+0 ~0 -0" {
			t.Errorf("%s: written again: %s", test.name, again)
		}
	}
}

// TestSliceOfAnotherPod: a pod of the same name and address is another endpoint.
func TestSliceOfAnotherPod(t *testing.T) {
	p, pod := newPlans(10), webPod(1, 8080)
	p.next([]*corev1.Pod{pod})
	again := pod.DeepCopy()
	again.UID = "another"
	if got := p.next([]*corev1.Pod{again}); got != "+0 ~1 -0" || p.have[0].Endpoints[0].TargetRef.UID != "another" {
		t.Errorf("%s, of %s", got, p.have[0].Endpoints[0].TargetRef.UID)
	}
}

func prefer(near string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.TrafficDistribution = &near }
}

func describe(e discoveryv1.Endpoint) string {
	words := slices.Clone(e.Addresses)
	flag := func(name string, on *bool) {
		if *on {
			words = append(words, name)
		}
	}
	flag("ready", e.Conditions.Ready)
	flag("serving", e.Conditions.Serving)
	flag("terminating", e.Conditions.Terminating)
	set := func(name, value string) {
		if value != "" {
			words = append(words, name+"="+value)
		}
	}
	set("node", optional.Value(e.NodeName, ""))
	set("zone", optional.Value(e.Zone, ""))
	set("host", optional.Value(e.Hostname, ""))
	set("ref", e.TargetRef.Name)
	if e.Hints != nil {
		for _, z := range e.Hints.ForZones {
			set("forZone", z.Name)
		}
		for _, n := range e.Hints.ForNodes {
			set("forNode", n.Name)
		}
	}
	return strings.Join(words, " ")
}

// Pods whose ports have other numbers are in slices of their own, and those
// without the port have none.
func TestSlicePorts(t *testing.T) {
	p := newPlans(10)
	bare := webPod(3, 0)
	bare.Spec.Containers = nil
	beside := webPod(4, 0)
	always := corev1.ContainerRestartPolicyAlways
	beside.Spec.InitContainers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 7, Protocol: corev1.ProtocolTCP}}},
		{RestartPolicy: &always, Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 9, Protocol: corev1.ProtocolTCP}}}}
	beside.Spec.Containers = nil
	pods := []*corev1.Pod{webPod(1, 8080), webPod(2, 9090), bare, beside, webPod(5, 8080)}
	p.next(pods)
	ports := func() (list []string) {
		for _, s := range p.have {
			line := fmt.Sprint(s.AddressType, len(s.Endpoints))
			for _, port := range s.Ports {
				line += fmt.Sprintf(" %s:%d/%s", *port.Name, *port.Port, *port.Protocol)
			}
			list = append(list, line)
		}
		slices.Sort(list)
		return list
	}
	if got, want := ports(), []string{"IPv41", "IPv41 web:9/TCP", "IPv41 web:9090/TCP", "IPv42 web:8080/TCP"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	// Both families; all to one number; two ports.
	p.service.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
	p.service.Spec.Ports = []corev1.ServicePort{
		{Name: "a", Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(1)},
		{Name: "b", Protocol: corev1.ProtocolUDP, TargetPort: intstr.FromInt32(2)}}
	p.next(pods)
	for _, line := range ports() {
		if !strings.HasPrefix(line, "IPv45 ") && !strings.HasPrefix(line, "IPv65 ") || !strings.Contains(line, " a:1/TCP") || !strings.Contains(line, " b:2/UDP") {
			t.Errorf("the slice is %q, one of %q, want 5 endpoints with a:1/TCP and b:2/UDP", line, ports())
		}
	}
	if len(p.have) != 2 {
		t.Errorf("%d slices", len(p.have))
	}
	if again := p.next(pods); again != "+0 ~0 -0" {
		t.Errorf("written again: %s", again)
	}
	// One family is left.
	p.service.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	if got := p.next(pods); got != "+0 ~0 -1" || p.have[0].AddressType != discoveryv1.AddressTypeIPv4 {
		t.Errorf("%s, left is %s", got, p.have[0].AddressType)
	}
}

func TestSliceMetadata(t *testing.T) {
	p := newPlans(10)
	p.service.Labels[discoveryv1.LabelManagedBy], p.service.Labels[corev1.IsHeadlessService] = "me", "yes"
	p.next(webPods(1))
	s := p.have[0]
	want := map[string]string{"team": "a", "kubernetes.io/service-name": "web", "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}
	if fmt.Sprint(s.Labels) != fmt.Sprint(want) {
		t.Errorf("labels %v", s.Labels)
	}
	o := s.OwnerReferences
	if len(o) != 1 || o[0].UID != "service" || o[0].Kind != "Service" || o[0].APIVersion != "v1" || !*o[0].Controller || !*o[0].BlockOwnerDeletion {
		t.Errorf("owners %v", o)
	}
	if s.GenerateName != "web-" || !strings.HasPrefix(s.Name, "web-") || len(s.Name) != 9 || s.Namespace != "default" {
		t.Errorf("%s/%s, made of %s", s.Namespace, s.Name, s.GenerateName)
	}
	p.service.Spec.ClusterIP = corev1.ClusterIPNone
	p.service.Labels["team"] = "b"
	if got := p.next(webPods(1)); got != "+0 ~1 -0" {
		t.Error(got)
	}
	if l := p.have[0].Labels; l["team"] != "b" || len(l) != 4 {
		t.Errorf("labels %v", l)
	} else if v, ok := l["service.kubernetes.io/headless"]; !ok || v != "" {
		t.Errorf("labels %v", l)
	}
	// A service of the same name takes over nothing.
	p.service.UID = "another"
	if got := p.next(webPods(1)); got != "+1 ~0 -1" {
		t.Error(got)
	}
}

// TestSliceModel has pods come, go and change at random. At every time each is in
// exactly one slice, that is not too full; it stays where it is; and nothing is
// written that says what was there.
func TestSliceModel(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 5))
		p := newPlans(1 + r.IntN(8))
		pods := map[int]*corev1.Pod{}
		for step := range 60 {
			for range r.IntN(6) {
				n := r.IntN(60)
				switch pod := pods[n]; {
				case pod == nil:
					pods[n] = webPod(n, int32(8080+r.IntN(2)))
				case r.IntN(2) == 0:
					delete(pods, n)
				default:
					pods[n] = controllertest.With(pod.DeepCopy(), func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse })
				}
			}
			var list []*corev1.Pod
			for _, n := range upTo(60) {
				if pods[n] != nil {
					list = append(list, pods[n])
				}
			}
			before := p.places()
			p.next(list)
			after := p.places()
			if again := p.next(list); again != "+0 ~0 -0" {
				t.Fatalf("seed %d, step %d: written again: %s", seed, step, again)
			}
			if len(after) != len(list) {
				t.Fatalf("seed %d, step %d: %d endpoints for %d pods", seed, step, len(after), len(list))
			}
			for name, is := range after {
				if was, ok := before[name]; ok && was.slice != is.slice && was.port == is.port {
					t.Fatalf("seed %d, step %d: %s was moved from %s to %s", seed, step, name, was.slice, is.slice)
				}
			}
			for _, s := range p.have {
				if len(s.Endpoints) > p.max {
					t.Fatalf("seed %d, step %d: %d endpoints in a slice", seed, step, len(s.Endpoints))
				}
			}
		}
	}
}

// place is where an endpoint is.
type place struct {
	slice string
	port  int32
}

// places returns the place of each endpoint, by pod. An endpoint in two slices is an
// error and counts twice.
func (p *plans) places() map[string]place {
	places := map[string]place{}
	for _, s := range p.have {
		for _, e := range s.Endpoints {
			name := e.TargetRef.Name
			if _, ok := places[name]; ok {
				name += " again"
			}
			places[name] = place{s.Name, *s.Ports[0].Port}
		}
	}
	return places
}
