package predicates_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/predicates"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// verdict asks one predicate about one pod and one node with pods on it.
func verdict(p schedule.Predicate, pod *corev1.Pod, node *corev1.Node, on ...*corev1.Pod) string {
	var reasons string
	look := schedule.PredicateFunc("", func(pod *schedule.PodInfo, n *schedule.NodeInfo) schedule.Verdict {
		v := p.Filter(pod, n)
		if c, ok := p.(schedule.Compiler); ok { // both ways must agree
			compiled := schedule.Fits
			if f := c.Compile(pod); f != nil {
				compiled = f(n)
			}
			if fmt.Sprint(compiled) != fmt.Sprint(v) {
				panic(fmt.Sprintf("%v compiled is %v", v, compiled))
			}
		}
		reasons = strings.Join(v.Reasons, ", ")
		return v
	})
	s := schedule.NewState([]schedule.Predicate{look}, nil, 1)
	s.SetNode(node)
	for i, p := range on {
		p = p.DeepCopy()
		p.Name, p.Spec.NodeName = fmt.Sprint("on", i), node.Name
		s.SetPod(schedule.NewPodInfo(p))
	}
	if _, err := s.Decide(schedule.NewPodInfo(pod)); (err == nil) != (reasons == "") {
		panic("verdict and decision differ")
	}
	return reasons
}

func list(pairs ...string) corev1.ResourceList {
	l := make(corev1.ResourceList)
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func wants(pairs ...string) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Resources: corev1.ResourceRequirements{Requests: list(pairs...)}},
	}}}
}

func TestFit(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{
		Allocatable: list("cpu", "1", "memory", "1Gi", "ephemeral-storage", "10Gi", "pods", "3", "example.com/gpu", "2"),
	}}
	for _, test := range []struct {
		name string
		pod  *corev1.Pod
		on   []*corev1.Pod
		want string
	}{
		{name: "exactly", pod: wants("cpu", "1", "memory", "1Gi", "ephemeral-storage", "10Gi", "example.com/gpu", "2")},
		{name: "cpu", pod: wants("cpu", "1001m"), want: "Insufficient cpu"},
		{name: "all", pod: wants("cpu", "2", "memory", "2Gi", "ephemeral-storage", "11Gi", "example.com/gpu", "3", "example.com/absent", "1"),
			want: "Insufficient cpu, Insufficient memory, Insufficient ephemeral-storage, Insufficient example.com/absent, Insufficient example.com/gpu"},
		{name: "what others leave", pod: wants("cpu", "501m"), on: []*corev1.Pod{wants("cpu", "500m")}, want: "Insufficient cpu"},
		{name: "just what others leave", pod: wants("cpu", "500m"), on: []*corev1.Pod{wants("cpu", "500m")}},
		{name: "nothing on an overfull node", pod: wants(), on: []*corev1.Pod{wants("cpu", "5")}},
		{name: "pods", pod: wants(), on: []*corev1.Pod{wants(), wants(), wants()}, want: "Too many pods"},
	} {
		if got := verdict(predicates.Fit(), test.pod, node, test.on...); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func TestTaintsAndUnschedulable(t *testing.T) {
	const tainted = "node(s) had untolerated taint(s)"
	type T = corev1.Toleration
	for _, test := range []struct {
		name   string
		effect corev1.TaintEffect
		t      []T
		want   string
	}{
		{name: "none", effect: "NoSchedule", want: tainted},
		{name: "no execute", effect: "NoExecute", want: tainted},
		{name: "prefer", effect: "PreferNoSchedule"},
		{name: "equal", effect: "NoSchedule", t: []T{{Key: "k", Value: "v", Effect: "NoSchedule"}}},
		{name: "equal, spelled", effect: "NoSchedule", t: []T{{Key: "k", Operator: "Equal", Value: "v"}}},
		{name: "other value", effect: "NoSchedule", t: []T{{Key: "k", Value: "w"}}, want: tainted},
		{name: "other effect", effect: "NoSchedule", t: []T{{Key: "k", Value: "v", Effect: "NoExecute"}}, want: tainted},
		{name: "exists", effect: "NoSchedule", t: []T{{Key: "k", Operator: "Exists"}}},
		{name: "everything", effect: "NoExecute", t: []T{{Operator: "Exists"}}},
		{name: "second", effect: "NoSchedule", t: []T{{Key: "x"}, {Key: "k", Operator: "Exists"}}},
		{name: "empty key without exists", effect: "NoSchedule", t: []T{{Value: "v"}}, want: tainted},
		{name: "unknown operator", effect: "NoSchedule", t: []T{{Key: "k", Operator: "Like", Value: "v"}}, want: tainted},
	} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "k", Value: "v", Effect: test.effect}}}}
		pod := &corev1.Pod{Spec: corev1.PodSpec{Tolerations: test.t}}
		if got := verdict(predicates.Taints(), pod, n); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
	cordoned := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{Unschedulable: true}}
	if got := verdict(predicates.Unschedulable(), &corev1.Pod{}, cordoned); got != "node(s) were unschedulable" {
		t.Errorf("cordoned: %q", got)
	}
	daemon := &corev1.Pod{Spec: corev1.PodSpec{Tolerations: []T{{Key: "node.kubernetes.io/unschedulable", Operator: "Exists"}}}}
	if got := verdict(predicates.Unschedulable(), daemon, cordoned); got != "" {
		t.Errorf("tolerated: %q", got)
	}
}

func TestNodeSelector(t *testing.T) {
	const mismatch = "node(s) didn't match Pod's node affinity/selector"
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"disk": "ssd", "cores": "8", "odd": "x"}}}
	type R = corev1.NodeSelectorRequirement
	type term = corev1.NodeSelectorTerm
	expr := func(key, op string, values ...string) term {
		return term{MatchExpressions: []R{{Key: key, Operator: corev1.NodeSelectorOperator(op), Values: values}}}
	}
	field := func(key, op string, values ...string) term {
		return term{MatchFields: []R{{Key: key, Operator: corev1.NodeSelectorOperator(op), Values: values}}}
	}
	for _, test := range []struct {
		name     string
		selector map[string]string
		terms    []term
		none     bool // no affinity at all
		ok       bool
	}{
		{name: "nothing", none: true, ok: true},
		{name: "selector", selector: map[string]string{"disk": "ssd"}, none: true, ok: true},
		{name: "selector, other value", selector: map[string]string{"disk": "hdd"}, none: true},
		{name: "selector, empty value of a missing label", selector: map[string]string{"absent": ""}, none: true},
		{name: "no terms", terms: nil},
		{name: "empty term", terms: []term{{}}},
		{name: "in", terms: []term{expr("disk", "In", "hdd", "ssd")}, ok: true},
		{name: "in, missing", terms: []term{expr("absent", "In", "")}},
		{name: "not in", terms: []term{expr("disk", "NotIn", "ssd")}},
		{name: "not in, missing", terms: []term{expr("absent", "NotIn", "x")}, ok: true},
		{name: "exists", terms: []term{expr("disk", "Exists")}, ok: true},
		{name: "does not exist", terms: []term{expr("disk", "DoesNotExist")}},
		{name: "gt", terms: []term{expr("cores", "Gt", "7")}, ok: true},
		{name: "gt, equal", terms: []term{expr("cores", "Gt", "8")}},
		{name: "lt", terms: []term{expr("cores", "Lt", "9")}, ok: true},
		{name: "lt, missing", terms: []term{expr("absent", "Lt", "9")}},
		{name: "lt, no number", terms: []term{expr("odd", "Lt", "9")}},
		{name: "unknown operator", terms: []term{expr("disk", "Like", "ssd")}},
		{name: "any term", terms: []term{expr("disk", "In", "hdd"), expr("disk", "In", "ssd")}, ok: true},
		{name: "all of a term", terms: []term{{MatchExpressions: []R{{Key: "disk", Operator: "Exists"}, {Key: "absent", Operator: "Exists"}}}}},
		{name: "name", terms: []term{field("metadata.name", "In", "n1")}, ok: true},
		{name: "other name", terms: []term{field("metadata.name", "NotIn", "n1")}},
		{name: "other field", terms: []term{field("metadata.uid", "In", "n1")}},
		{name: "selector and affinity", selector: map[string]string{"disk": "hdd"}, terms: []term{expr("disk", "Exists")}},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{NodeSelector: test.selector}}
		if !test.none {
			pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: test.terms},
			}}
		}
		want := mismatch
		if test.ok {
			want = ""
		}
		if got := verdict(predicates.NodeSelector(), pod, node); got != want {
			t.Errorf("%s: %q, want %q", test.name, got, want)
		}
	}
}

func TestHostPortsAndName(t *testing.T) {
	port := func(ip string, protocol corev1.Protocol, port int32) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Ports: []corev1.ContainerPort{{HostIP: ip, Protocol: protocol, HostPort: port}}}}}}
	}
	const taken = "node(s) didn't have free ports for the requested pod ports"
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	for _, test := range []struct {
		name string
		a, b *corev1.Pod
		want string
	}{
		{"same", port("", "", 80), port("", "TCP", 80), taken},
		{"other port", port("", "", 80), port("", "", 81), ""},
		{"other protocol", port("", "UDP", 80), port("", "TCP", 80), ""},
		{"other address", port("10.0.0.1", "", 80), port("10.0.0.2", "", 80), ""},
		{"all addresses", port("10.0.0.1", "", 80), port("0.0.0.0", "", 80), taken},
		{"not of the host", port("", "", 0), port("", "", 0), ""},
	} {
		for _, pair := range [][2]*corev1.Pod{{test.a, test.b}, {test.b, test.a}} {
			if got := verdict(predicates.HostPorts(), pair[0], n, pair[1]); got != test.want {
				t.Errorf("%s: %q, want %q", test.name, got, test.want)
			}
		}
	}
	named := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "other"}}
	if got := verdict(predicates.NodeName(), named, n); got != "node(s) didn't match the requested node name" {
		t.Errorf("node name: %q", got)
	}
	named.Spec.NodeName = "n"
	if got := verdict(predicates.NodeName(), named, n); got != "" {
		t.Errorf("node name: %q", got)
	}
}

func Example() {
	for _, p := range predicates.Default() {
		fmt.Println(p.Name())
	}
	// Output:
	// Unsupported
	// NodeUnschedulable
	// NodeName
	// TaintToleration
	// NodeAffinity
	// NodePorts
	// NodeResourcesFit
	// PodTopologySpread
	// InterPodAffinity
}
