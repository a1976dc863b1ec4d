package legacy_test

import (
	"fmt"
	"testing"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/legacy"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

const zone, region, beta = corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaZone

func node(name string, labels map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

// pod returns a pod with the label app; an empty node is none.
func pod(name, app, node string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": app}}}
	p.Spec.NodeName = node
	return p
}

func selecting(pod *corev1.Pod, key, value string) *corev1.Pod {
	pod.Spec.NodeSelector = map[string]string{key: value}
	return pod
}

func service(name, app string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if app != "" {
		s.Spec.Selector = map[string]string{"app": app}
	}
	return s
}

func services(list ...*corev1.Service) legacy.Services {
	return localcache.Scan(localcache.NewMap(list...), func(s *corev1.Service) []string { return []string{s.Namespace} })
}

func state(p []schedule.Predicate, w []schedule.Weighted, nodes []*corev1.Node, pods ...*corev1.Pod) *schedule.State {
	s := schedule.NewState(p, w, 1)
	for _, n := range nodes {
		s.SetNode(n)
	}
	for _, p := range pods {
		s.SetPod(schedule.NewPodInfo(p))
	}
	return s
}

// fitting returns the nodes that fit a pod, by name, and the reasons of the others.
func fitting(s *schedule.State, pod *corev1.Pod) string {
	fit, reasons := "", ""
	for _, n := range s.Explain(schedule.NewPodInfo(pod)) {
		if n.Verdict.OK() {
			fit += n.Node + " "
		} else if reasons == "" {
			reasons = n.Verdict.Reasons[0]
		}
	}
	return fit + reasons
}

// scores returns the scores of nodes by one priority.
func scores(p schedule.Priority, nodes []*corev1.Node, one *corev1.Pod, pods ...*corev1.Pod) map[string]int64 {
	found := map[string]int64{}
	for _, n := range state(nil, []schedule.Weighted{{Priority: p}}, nodes, pods...).Explain(schedule.NewPodInfo(one)) {
		found[n.Node] = n.Total
	}
	return found
}

// The pods of a service stay in one region, and over its zones.
func Example() {
	web := services(service("web", "web"))
	s := schedule.NewState(
		[]schedule.Predicate{legacy.ServiceAffinity(web, "region")},
		[]schedule.Weighted{{Priority: legacy.ServiceAntiAffinity(web, "zone"), Weight: 1}}, 1)
	for _, at := range []string{"eu-a", "eu-b", "us-a"} {
		s.SetNode(node(at, map[string]string{"region": at[:2], "zone": at}))
	}
	s.SetPod(schedule.NewPodInfo(pod("web-1", "web", "eu-a")))
	fmt.Println(s.Decide(schedule.NewPodInfo(pod("web-2", "web", ""))))
	// Output: eu-b <nil>
}

func TestNodeLabels(t *testing.T) {
	nodes := []*corev1.Node{node("a", map[string]string{"x": "1"}), node("b", map[string]string{"x": "", "y": "2"}), node("c", nil)}
	for _, test := range []struct {
		present, absent []string
		want            string
	}{
		{nil, nil, "a b c "},
		{[]string{"x"}, nil, "a b node(s) didn't have the requested labels"},
		{[]string{"x", "y"}, nil, "b node(s) didn't have the requested labels"},
		{nil, []string{"y"}, "a c node(s) didn't have the requested labels"},
		{[]string{"x"}, []string{"y"}, "a node(s) didn't have the requested labels"},
	} {
		p := legacy.NodeLabels(test.present, test.absent)
		if got := fitting(state([]schedule.Predicate{p}, nil, nodes), pod("p", "", "")); got != test.want {
			t.Errorf("present %v, absent %v: %s, want %s", test.present, test.absent, got, test.want)
		}
	}
	for i, test := range []struct {
		event schedule.Event
		want  bool
	}{
		{schedule.Event{Old: nodes[0], New: nodes[1]}, true},
		{schedule.Event{Old: nodes[0], New: nodes[0].DeepCopy()}, false},
		{schedule.Event{Old: schedule.NewPodInfo(pod("p", "", "a"))}, false},
	} {
		if got := legacy.NodeLabels(nil, nil).(schedule.Waker).Wakes(nil, test.event); got != test.want {
			t.Errorf("event %d: %t", i, got)
		}
	}
}

func TestLabelPreference(t *testing.T) {
	nodes := []*corev1.Node{node("a", map[string]string{"x": "1"}), node("b", nil)}
	for presence, want := range map[bool]map[string]int64{true: {"a": 100, "b": 0}, false: {"a": 0, "b": 100}} {
		if got := scores(legacy.LabelPreference("x", presence), nodes, pod("p", "", "")); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("presence %t: %v", presence, got)
		}
	}
}

func TestServiceAffinity(t *testing.T) {
	const apart = "node(s) didn't match service affinity"
	nodes := []*corev1.Node{
		node("a", map[string]string{"region": "r1", "rack": "1"}), node("b", map[string]string{"region": "r1", "rack": "2"}),
		node("c", map[string]string{"region": "r2", "rack": "1"}), node("d", nil),
	}
	other := pod("one", "web", "c")
	other.Namespace = "other"
	for _, test := range []struct {
		name   string
		labels []string
		all    legacy.Services
		pods   []*corev1.Pod
		pod    *corev1.Pod
		want   string
	}{
		{"no labels", nil, services(service("s", "web")), []*corev1.Pod{pod("one", "web", "a")}, pod("p", "web", ""), "a b c d "},
		{"first pod", []string{"region"}, services(service("s", "web")), nil, pod("p", "web", ""), "a b c d "},
		{"second pod", []string{"region"}, services(service("s", "web")), []*corev1.Pod{pod("one", "web", "a")}, pod("p", "web", ""), "a b " + apart},
		{"two labels", []string{"region", "rack"}, services(service("s", "web")), []*corev1.Pod{pod("one", "web", "a")}, pod("p", "web", ""), "a " + apart},
		{"of another app", []string{"region"}, services(service("s", "web")), []*corev1.Pod{pod("one", "db", "a")}, pod("p", "web", ""), "a b c d "},
		{"of another namespace", []string{"region"}, services(service("s", "web")), []*corev1.Pod{other}, pod("p", "web", ""), "a b c d "},
		{"no service", []string{"region"}, services(), []*corev1.Pod{pod("one", "web", "a")}, pod("p", "web", ""), "a b c d "},
		{"service without selector", []string{"region"}, services(service("s", "")), []*corev1.Pod{pod("one", "web", "a")}, pod("p", "web", ""), "a b c d "},
		{"node selector", []string{"region"}, services(), nil, selecting(pod("p", "web", ""), "region", "r2"), "c " + apart},
		{"node selector first", []string{"region"}, services(service("s", "web")), []*corev1.Pod{pod("one", "web", "a")}, selecting(pod("p", "web", ""), "region", "r2"), "c " + apart},
		{"both", []string{"region", "rack"}, services(service("s", "web")), []*corev1.Pod{pod("one", "web", "a")}, selecting(pod("p", "web", ""), "region", "r2"), "c " + apart},
		{"a node without labels", []string{"region"}, services(service("s", "web")), []*corev1.Pod{pod("one", "web", "d")}, pod("p", "web", ""), "a b c d "},
	} {
		s := state([]schedule.Predicate{legacy.ServiceAffinity(test.all, test.labels...)}, nil, nodes, test.pods...)
		if got := fitting(s, test.pod); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

func TestServiceAffinityWakes(t *testing.T) {
	waiting := schedule.NewPodInfo(pod("p", "web", ""))
	other := pod("one", "web", "a")
	other.Namespace = "other"
	labelled := node("a", map[string]string{"region": "r"})
	for i, test := range []struct {
		event schedule.Event
		want  bool
	}{
		{schedule.Event{New: service("s", "web")}, true},
		{schedule.Event{Old: service("s", "web"), New: service("s", "db")}, true},
		{schedule.Event{New: service("s", "db")}, false},
		{schedule.Event{Old: schedule.NewPodInfo(pod("one", "web", "a"))}, true},
		{schedule.Event{New: schedule.NewPodInfo(pod("one", "web", "a"))}, true},
		{schedule.Event{New: schedule.NewPodInfo(pod("one", "db", "a"))}, false},
		{schedule.Event{New: schedule.NewPodInfo(other)}, false},
		{schedule.Event{Old: labelled, New: node("a", nil)}, true},
		{schedule.Event{Old: labelled}, true},
		{schedule.Event{Old: labelled, New: labelled.DeepCopy()}, false},
		{schedule.Event{New: &corev1.Namespace{}}, false},
	} {
		if got := legacy.ServiceAffinity(services(), "region").(schedule.Waker).Wakes(waiting, test.event); got != test.want {
			t.Errorf("event %d: %t", i, got)
		}
	}
}

// ending returns a pod that is being deleted.
func ending(p *corev1.Pod) *corev1.Pod {
	p.DeletionTimestamp = &metav1.Time{}
	return p
}

func TestServiceAntiAffinity(t *testing.T) {
	nodes := []*corev1.Node{node("a", map[string]string{"z": "1"}), node("b", map[string]string{"z": "1"}), node("c", map[string]string{"z": "2"}), node("d", nil)}
	pods := []*corev1.Pod{pod("1", "web", "a"), pod("2", "web", "b"), pod("3", "web", "c"), ending(pod("4", "web", "c")), pod("5", "db", "c")}
	for _, test := range []struct {
		name string
		all  legacy.Services
		want map[string]int64
	}{
		{"one service", services(service("s", "web")), map[string]int64{"a": 33, "b": 33, "c": 66, "d": 0}},
		{"the first of two", services(service("s", "web"), service("t", "web")), map[string]int64{"a": 33, "b": 33, "c": 66, "d": 0}},
		{"none", services(), map[string]int64{"a": 100, "b": 100, "c": 100, "d": 0}},
	} {
		if got := scores(legacy.ServiceAntiAffinity(test.all, "z"), nodes, pod("p", "web", ""), pods...); fmt.Sprint(got) != fmt.Sprint(test.want) {
			t.Errorf("%s: the scores are %v, want %v", test.name, got, test.want)
		}
	}
}

func TestSelectorSpread(t *testing.T) {
	sameApp := func(p *corev1.Pod) labels.Selector {
		return labels.SelectorFromSet(labels.Set{"app": p.Labels["app"]})
	}
	nothing := func(*corev1.Pod) labels.Selector { return labels.Everything() }
	plain := []*corev1.Node{node("a", nil), node("b", nil), node("c", nil)}
	zones := []*corev1.Node{node("a", map[string]string{zone: "1", region: "r"}), node("b", map[string]string{beta: "1", region: "r"}), node("c", map[string]string{zone: "2", region: "r"}), node("d", nil)}
	constrained := pod("p", "web", "")
	constrained.Spec.TopologySpreadConstraints = make([]corev1.TopologySpreadConstraint, 1)
	pods := []*corev1.Pod{pod("1", "web", "a"), pod("2", "web", "a"), pod("3", "web", "b"), ending(pod("4", "web", "c")), pod("5", "db", "c")}
	for _, test := range []struct {
		name     string
		selector func(*corev1.Pod) labels.Selector
		nodes    []*corev1.Node
		pod      *corev1.Pod
		want     map[string]int64
	}{
		{"nodes", sameApp, plain, pod("p", "web", ""), map[string]int64{"a": 0, "b": 50, "c": 100}},
		{"zones", sameApp, zones, pod("p", "web", ""), map[string]int64{"a": 0, "b": 16, "c": 100, "d": 100}},
		{"no pods yet", sameApp, plain, pod("p", "cache", ""), map[string]int64{"a": 100, "b": 100, "c": 100}},
		{"alone", nothing, plain, pod("p", "web", ""), map[string]int64{"a": 100, "b": 100, "c": 100}},
		{"with constraints", sameApp, plain, constrained, map[string]int64{"a": 0, "b": 0, "c": 0}},
	} {
		if got := scores(legacy.SelectorSpread(test.selector), test.nodes, test.pod, pods...); fmt.Sprint(got) != fmt.Sprint(test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

const avoidsOwner = `{"preferAvoidPods": [
	{"podSignature": {"podController": {"apiVersion": "v1", "kind": "ReplicationController", "name": "x", "uid": "other", "controller": true}}},
	{"podSignature": {}},
	{"podSignature": {"podController": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": "owner", "controller": true}}, "reason": "drained"}]}`

// owned returns a pod with a controller.
func owned(kind, uid string) *corev1.Pod {
	p := pod("p", "web", "")
	p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "x", UID: types.UID(uid), Controller: new(true)}}
	return p
}

func avoiding(annotation string) *corev1.Node {
	n := node("a", nil)
	n.Annotations = map[string]string{corev1.PreferAvoidPodsAnnotationKey: annotation}
	return n
}

func TestPreferAvoidPods(t *testing.T) {
	for _, test := range []struct {
		name, annotation string
		pod              *corev1.Pod
		want             int64
	}{
		{"avoided", avoidsOwner, owned("ReplicaSet", "owner"), 0},
		{"avoided, the other", avoidsOwner, owned("ReplicationController", "other"), 0},
		{"of another kind", avoidsOwner, owned("ReplicationController", "owner"), 100},
		{"of a kind that does not count", `{"preferAvoidPods": [{"podSignature": {"podController": {"kind": "Job", "uid": "owner"}}}]}`, owned("Job", "owner"), 100},
		{"another", avoidsOwner, owned("ReplicaSet", "owner-2"), 100},
		{"alone", avoidsOwner, pod("p", "web", ""), 100},
		{"no annotation", "", owned("ReplicaSet", "owner"), 100},
		{"broken", avoidsOwner[:50], owned("ReplicaSet", "owner"), 100},
	} {
		got := scores(legacy.PreferAvoidPods(), []*corev1.Node{avoiding(test.annotation), node("b", nil)}, test.pod)
		if got["a"] != test.want || got["b"] != 100 {
			t.Errorf("%s: the scores are %v, want %d for a and 100 for b", test.name, got, test.want)
		}
	}
}

func FuzzPreferAvoidPods(f *testing.F) {
	f.Add(avoidsOwner)
	f.Add(`{"preferAvoidPods": null}`)
	f.Fuzz(func(t *testing.T, annotation string) {
		got := legacy.PreferAvoidPods().Score(&schedule.PodInfo{Pod: owned("ReplicaSet", "owner")}, &schedule.NodeInfo{Node: avoiding(annotation)})
		if got != 0 && got != schedule.MaxScore {
			t.Errorf("score %d", got)
		}
	})
}

func TestResourceLimits(t *testing.T) {
	limit := func(cpu, memory string) corev1.Container {
		c := corev1.Container{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{}}}
		if cpu != "" {
			c.Resources.Limits[corev1.ResourceCPU] = resource.MustParse(cpu)
		}
		if memory != "" {
			c.Resources.Limits[corev1.ResourceMemory] = resource.MustParse(memory)
		}
		return c
	}
	large, small := node("large", nil), node("small", nil)
	large.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("4Gi")}
	small.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	for _, test := range []struct {
		name         string
		spec         corev1.PodSpec
		large, small int64
	}{
		{"none", corev1.PodSpec{Containers: []corev1.Container{limit("", "")}}, 0, 0},
		{"small", corev1.PodSpec{Containers: []corev1.Container{limit("1", "1Gi")}}, 1, 1},
		{"one of both", corev1.PodSpec{Containers: []corev1.Container{limit("1", "2Gi")}}, 1, 1},
		{"large", corev1.PodSpec{Containers: []corev1.Container{limit("2", "2Gi")}}, 1, 0},
		{"sum", corev1.PodSpec{Containers: []corev1.Container{limit("1", ""), limit("1", "")}}, 1, 0},
		{"init container", corev1.PodSpec{InitContainers: []corev1.Container{limit("2", "")}, Containers: []corev1.Container{limit("1", "")}}, 1, 0},
		{"too large", corev1.PodSpec{Containers: []corev1.Container{limit("5", "5Gi")}}, 0, 0},
	} {
		p := pod("p", "web", "")
		p.Spec = test.spec
		got := scores(legacy.ResourceLimits(), []*corev1.Node{large, small}, p)
		if got["large"] != test.large || got["small"] != test.small {
			t.Errorf("%s: the scores are %v, want %d for large and %d for small", test.name, got, test.large, test.small)
		}
	}
}
