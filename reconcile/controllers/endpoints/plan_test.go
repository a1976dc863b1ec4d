//lint:file-ignore SA1019 clients still read Endpoints

package endpoints

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// subsetsText is one line a subset: addresses, after a ! those not ready, and ports.
func subsetsText(e *corev1.Endpoints) string {
	var lines []string
	for _, s := range e.Subsets {
		var words []string
		for _, a := range s.Addresses {
			words = append(words, a.IP)
		}
		for _, a := range s.NotReadyAddresses {
			words = append(words, "!"+a.IP)
		}
		words = append(words, ":")
		var ports []string
		for _, p := range s.Ports {
			ports = append(ports, fmt.Sprintf("%s=%d/%s", p.Name, p.Port, p.Protocol))
		}
		slices.Sort(ports)
		lines = append(lines, strings.Join(append(words, ports...), " "))
	}
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}

func TestEndpointsSubsets(t *testing.T) {
	now := metav1.Now()
	two := func(s *corev1.Service) {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "admin", Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(9)})
	}
	for _, test := range []struct {
		name    string
		service func(*corev1.Service)
		pods    func([]*corev1.Pod) // web-002, web-010, web-001
		want    string
	}{
		{name: "one port", want: "10.1.0.1 10.1.0.10 10.1.0.2 : web=8080/TCP"},
		{name: "one is not ready", pods: func(p []*corev1.Pod) { p[0].Status.Conditions = nil }, want: "10.1.0.1 10.1.0.10 !10.1.0.2 : web=8080/TCP"},
		{name: "one has ended", pods: func(p []*corev1.Pod) { p[0].Status.Phase = corev1.PodFailed }, want: "10.1.0.1 10.1.0.10 : web=8080/TCP"},
		{name: "one goes", pods: func(p []*corev1.Pod) { p[0].DeletionTimestamp = &now }, want: "10.1.0.1 10.1.0.10 : web=8080/TCP"},
		{name: "published anyway", service: func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true },
			pods: func(p []*corev1.Pod) { p[0].DeletionTimestamp, p[1].Status.Conditions = &now, nil },
			want: "10.1.0.1 10.1.0.10 10.1.0.2 : web=8080/TCP"},
		{name: "two ports", service: two, want: "10.1.0.1 10.1.0.10 10.1.0.2 : admin=9/TCP web=8080/TCP"},
		{name: "one has another number", service: two, pods: func(p []*corev1.Pod) { p[1].Spec.Containers[0].Ports[0].ContainerPort = 81 },
			want: "10.1.0.1 10.1.0.10 10.1.0.2 : admin=9/TCP; 10.1.0.1 10.1.0.2 : web=8080/TCP; 10.1.0.10 : web=81/TCP"},
		{name: "one lacks the port", service: two, pods: func(p []*corev1.Pod) { p[1].Spec.Containers = nil },
			want: "10.1.0.1 10.1.0.10 10.1.0.2 : admin=9/TCP; 10.1.0.1 10.1.0.2 : web=8080/TCP"},
		{name: "no ports", service: func(s *corev1.Service) { s.Spec.Ports = nil }, want: ""},
		{name: "no ports and headless", service: func(s *corev1.Service) { s.Spec.Ports, s.Spec.ClusterIP = nil, "None" }, want: "10.1.0.1 10.1.0.10 10.1.0.2 :"},
		{name: "six first", service: func(s *corev1.Service) {
			s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
		}, want: "fd00::1 fd00::2 fd00::a : web=8080/TCP"},
		{name: "no family, but an address", service: func(s *corev1.Service) { s.Spec.IPFamilies, s.Spec.ClusterIP = nil, "fd01::1" },
			want: "fd00::1 fd00::2 fd00::a : web=8080/TCP"},
		{name: "an address that two have", pods: func(p []*corev1.Pod) { p[1].Status.PodIPs = p[0].Status.PodIPs },
			want: "10.1.0.1 10.1.0.2 10.1.0.2 : web=8080/TCP"},
	} {
		service, pods := webService(), webPods(2, 10, 1)
		if test.service != nil {
			test.service(service)
		}
		if test.pods != nil {
			test.pods(pods)
		}
		e := planEndpoints(service, pods, nil)
		if got := subsetsText(e); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
		slices.Reverse(pods)
		if again := planEndpoints(service, pods, e); again != nil {
			t.Errorf("%s: in another order: %s", test.name, subsetsText(again))
		}
	}
}

func TestEndpointsMetadata(t *testing.T) {
	service, pods := webService(), webPods(1)
	pods[0].Spec.Hostname, pods[0].Spec.Subdomain = "one", "web"
	e := planEndpoints(service, pods, nil)
	if fmt.Sprint(e.Labels) != "map[endpoints.kubernetes.io/managed-by:endpoint-controller team:a]" || len(e.Annotations) > 0 || len(e.OwnerReferences) > 0 {
		t.Errorf("planEndpoints() has labels %v, annotations %v and owners %v, "+
			"want map[endpoints.kubernetes.io/managed-by:endpoint-controller team:a] and none",
			e.Labels, e.Annotations, e.OwnerReferences)
	}
	a := e.Subsets[0].Addresses[0]
	if a.Hostname != "one" || *a.NodeName != "node" || *a.TargetRef != (corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "web-001", UID: "uid-web-001"}) {
		t.Errorf("the address is %v, want hostname one, the node node and the target Pod default/web-001 with UID uid-web-001", &a)
	}
	// What others added stays, except what is not so.
	e.Annotations = map[string]string{"mine": "1", corev1.EndpointsOverCapacity: "truncated"}
	e.ResourceVersion = "7"
	service.Spec.ClusterIP = corev1.ClusterIPNone
	next := planEndpoints(service, pods, e)
	if _, ok := next.Labels["service.kubernetes.io/headless"]; !ok || next.ResourceVersion != "7" || fmt.Sprint(next.Annotations) != "map[mine:1]" {
		t.Errorf("the next plan has labels %v, resourceVersion %q and annotations %v, "+
			"want the label service.kubernetes.io/headless, 7 and map[mine:1]", next.Labels, next.ResourceVersion, next.Annotations)
	}
	// A pod that is only at another revision is where it was.
	next.Subsets[0].Addresses[0].TargetRef.ResourceVersion = "5"
	if again := planEndpoints(service, pods, next); again != nil {
		t.Errorf("written again: %+v", again)
	}
	pods[0] = pods[0].DeepCopy()
	pods[0].Spec.NodeName = "other"
	if again := planEndpoints(service, pods, next); again == nil || *again.Subsets[0].Addresses[0].NodeName != "other" {
		t.Errorf("moved: %+v", again)
	}
}

// TestEndpointsTruncation wants 1000 addresses at most, ready ones first, and each
// subset to keep its share.
func TestEndpointsTruncation(t *testing.T) {
	for _, test := range []struct{ ready, others, otherPort, wantReady, wantOthers, wantOtherPort int }{
		{1000, 0, 0, 1000, 0, 0},
		{990, 11, 0, 990, 10, 0},
		{1500, 10, 0, 1000, 0, 0},
		{0, 2000, 0, 0, 1000, 0},
		{900, 10, 300, 750, 0, 250}, // otherPort are ready
	} {
		pods := webPods(upTo(test.ready + test.others)...)
		for _, p := range pods[test.ready:] {
			p.Status.Conditions = nil
		}
		for i := range test.otherPort {
			pods = append(pods, webPod(4000+i, 81))
		}
		e := planEndpoints(webService(), pods, nil)
		ready, others, otherPort := 0, 0, 0
		for _, s := range e.Subsets {
			if s.Ports[0].Port == 81 {
				otherPort += len(s.Addresses)
			} else {
				ready, others = ready+len(s.Addresses), others+len(s.NotReadyAddresses)
			}
		}
		if ready != test.wantReady || others != test.wantOthers || otherPort != test.wantOtherPort {
			t.Errorf("of %d ready pods, %d not ready and %d with the other port come %d, %d and %d addresses, want %d, %d and %d",
				test.ready, test.others, test.otherPort, ready, others, otherPort, test.wantReady, test.wantOthers, test.wantOtherPort)
		}
		over := test.ready+test.others+test.otherPort > 1000
		if (e.Annotations["endpoints.kubernetes.io/over-capacity"] == "truncated") != over {
			t.Errorf("%+v: annotations %v", test, e.Annotations)
		}
		if again := planEndpoints(webService(), pods, e); again != nil {
			t.Errorf("%+v: written again", test)
		}
		if over {
			if e = planEndpoints(webService(), pods[:5], e); e == nil || len(e.Annotations) > 0 {
				t.Errorf("%+v: not over any more: %v", test, e)
			}
		}
	}
}

// TestEndpointsOrder has ports as Kubernetes' controllers sort them: these orders
// are of v1.36.3.
func TestEndpointsOrder(t *testing.T) {
	service := webService()
	service.Spec.Ports = nil
	for _, name := range []string{"a", "b", "c", "d"} {
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Name: name, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(int32(name[0]))})
	}
	rand.Shuffle(4, func(i, j int) {
		service.Spec.Ports[i], service.Spec.Ports[j] = service.Spec.Ports[j], service.Spec.Ports[i]
	})
	var names []string
	for _, p := range planEndpoints(service, webPods(1), nil).Subsets[0].Ports {
		names = append(names, p.Name)
	}
	p := newPlans(10)
	p.service = service
	p.next(webPods(1))
	for _, port := range p.have[0].Ports {
		names = append(names, *port.Name)
	}
	if got := strings.Join(names, ""); got != "adbcdbca" {
		t.Errorf("ports %s", got)
	}
}

// TestTriggers follows the time of the change that endpoints are written for.
func TestTriggers(t *testing.T) {
	var triggers triggers
	service, pods := webService(), webPods(1, 2)
	at := func(pods []*corev1.Pod) int64 {
		next, at := triggers.next(service, pods)
		triggers.set(localcache.KeyOf(service), next)
		if at.IsZero() {
			return 0
		}
		return at.Unix()
	}
	pods[0].Status.Conditions[0].LastTransitionTime = metav1.NewTime(time.Unix(300, 0))
	if got := at(pods); got != 100 {
		t.Errorf("a new service: %d", got)
	}
	if got := at(pods); got != 0 {
		t.Errorf("nothing: %d", got)
	}
	pods[0].Status.Conditions[0].LastTransitionTime = metav1.NewTime(time.Unix(500, 0))
	pods[1].Status.Conditions[0].LastTransitionTime = metav1.NewTime(time.Unix(400, 0))
	if next, first := triggers.next(service, pods); first.Unix() != 400 || len(next.pods) != 2 {
		t.Errorf("two changes: %v", first)
	}
	if got := at(pods); got != 400 {
		t.Errorf("two changes, of which nothing was written: %d", got)
	}
	if got := at(pods[:1]); got != 0 {
		t.Errorf("one is gone: %d", got)
	}
	triggers.drop(localcache.KeyOf(service))
	if got := at(pods); got != 100 {
		t.Errorf("forgotten: %d", got)
	}
	annotations := annotateTrigger(nil, time.Unix(100, 5e8))
	if fmt.Sprint(annotations) != "map[endpoints.kubernetes.io/last-change-trigger-time:1970-01-01T00:01:40.5Z]" {
		t.Errorf("annotateTrigger(nil, 100.5 s) = %v, "+
			"want map[endpoints.kubernetes.io/last-change-trigger-time:1970-01-01T00:01:40.5Z]", annotations)
	}
	if annotations = annotateTrigger(annotations, time.Time{}); len(annotations) > 0 {
		t.Errorf("annotateTrigger() at no time = %v, want no annotations", annotations)
	}
}
