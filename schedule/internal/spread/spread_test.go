package spread_test

import (
	"fmt"
	"testing"

	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/internal/spread"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func selectorOf(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

// TestOf checks which constraints a pod has: its own, or else those of the defaults, if something selects
// the pods that belong together with it.
func TestOf(t *testing.T) {
	own := []corev1.TopologySpreadConstraint{
		{TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule, MaxSkew: 1, MinDomains: new(int32(3)), LabelSelector: selectorOf("web"), MatchLabelKeys: []string{"version", "absent"}},
		{TopologyKey: "rack", WhenUnsatisfiable: corev1.ScheduleAnyway, MaxSkew: 2},
	}
	selects := func(text string) func(*corev1.Pod) labels.Selector {
		return func(*corev1.Pod) labels.Selector {
			s, err := labels.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
	}
	given := []corev1.TopologySpreadConstraint{{TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule, MaxSkew: 7}}
	for _, test := range []struct {
		own      []corev1.TopologySpreadConstraint
		action   corev1.UnsatisfiableConstraintAction
		defaults schedule.SpreadDefaults
		want     string
		wantOwn  bool
	}{
		{own, corev1.DoNotSchedule, schedule.SpreadDefaults{Selector: selects("x=y")}, "zone 1 3 app=web,version=2;", true},
		{own, corev1.ScheduleAnyway, schedule.SpreadDefaults{}, "rack 2 1 ;", true},
		{nil, corev1.ScheduleAnyway, schedule.SpreadDefaults{}, "", true},
		{nil, corev1.ScheduleAnyway, schedule.SpreadDefaults{Selector: selects("")}, "", true},
		{nil, corev1.ScheduleAnyway, schedule.SpreadDefaults{Selector: selects("x=y")}, "kubernetes.io/hostname 3 1 x=y;topology.kubernetes.io/zone 5 1 x=y;", false},
		{nil, corev1.DoNotSchedule, schedule.SpreadDefaults{Selector: selects("x=y")}, "", false},
		{nil, corev1.DoNotSchedule, schedule.SpreadDefaults{Constraints: given, Selector: selects("x=y")}, "zone 7 1 x=y;", true},
		{nil, corev1.ScheduleAnyway, schedule.SpreadDefaults{Constraints: given, Selector: selects("x=y")}, "", true},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{TopologySpreadConstraints: test.own}}
		pod.Labels = map[string]string{"version": "2"}
		list, isOwn := spread.Of(pod, test.action, test.defaults)
		got := ""
		for _, c := range list {
			got += fmt.Sprintf("%s %d %d %s;", c.Key, c.MaxSkew, c.MinDomains, c.Selector)
		}
		if got != test.want || isOwn != test.wantOwn {
			t.Errorf("%+v: %q, own %t", test, got, isOwn)
		}
	}
}

// TestCounts checks which nodes count, by both policies and their defaults.
func TestCounts(t *testing.T) {
	honor, ignore := new(corev1.NodeInclusionPolicyHonor), new(corev1.NodeInclusionPolicyIgnore)
	tainted, other := &corev1.Node{}, &corev1.Node{}
	tainted.Labels = map[string]string{"disk": "ssd"}
	tainted.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
	for _, test := range []struct {
		affinity, taints             *corev1.NodeInclusionPolicy
		wantTainted, wantNotSelected bool
	}{
		{nil, nil, true, false},
		{honor, honor, false, false},
		{ignore, ignore, true, true},
		{ignore, honor, false, true},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{NodeSelector: map[string]string{"disk": "ssd"}, TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
			TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule, MaxSkew: 1, NodeAffinityPolicy: test.affinity, NodeTaintsPolicy: test.taints}}}}
		list, _ := spread.Of(pod, corev1.DoNotSchedule, schedule.SpreadDefaults{})
		if got, selected := list[0].Counts(tainted), list[0].Counts(other); got != test.wantTainted || selected != test.wantNotSelected {
			t.Errorf("%v: Counts() = %t for the node with a taint and %t for the one not selected, want %t and %t",
				&pod.Spec.TopologySpreadConstraints[0], got, selected, test.wantTainted, test.wantNotSelected)
		}
	}
}

// TestPods checks that pods that end do not count, nor those that an empty selector selects.
func TestPods(t *testing.T) {
	pod := func(name string, ending bool) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": "web"}}, Spec: corev1.PodSpec{NodeName: "a"}}
		if ending {
			p.DeletionTimestamp = &metav1.Time{}
		}
		return p
	}
	for selector, want := range map[*metav1.LabelSelector]string{
		selectorOf("web"): "a 2, b 1, zone [3]", selectorOf("db"): "a 0, b 0, zone [0]", {}: "a 0, b 0, zone [0]", nil: "a 0, b 0, zone [0]",
	} {
		var got string
		s := schedule.NewState([]schedule.Predicate{counts{schedule.PredicateFunc("Count", nil), selector, &got}}, nil, 1)
		for _, name := range []string{"a", "b"} {
			s.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": "z"}}})
		}
		beside := pod("beside", false)
		beside.Spec.NodeName = "b"
		for _, p := range []*corev1.Pod{pod("x", false), pod("y", false), pod("z", true), beside} {
			s.SetPod(schedule.NewPodInfo(p))
		}
		s.Decide(schedule.NewPodInfo(pod("new", false)))
		if got != want {
			t.Errorf("%v: %s, want %s", selector, got, want)
		}
	}
}

// counts is a predicate that counts the pods of a constraint on each node and in each zone.
type counts struct {
	schedule.Predicate
	selector *metav1.LabelSelector
	got      *string
}

func (counts) Filter(*schedule.PodInfo, *schedule.NodeInfo) schedule.Verdict { return schedule.Fits }

func (c counts) Prepare(p *schedule.PodInfo, cluster schedule.Cluster) func(*schedule.NodeInfo) schedule.Verdict {
	pod := p.Pod.DeepCopy()
	pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule, MaxSkew: 1, LabelSelector: c.selector}}
	list, _ := spread.Of(pod, corev1.DoNotSchedule, schedule.SpreadDefaults{})
	zones := cluster.Topology("zone")
	a, _ := cluster.Node("a")
	b, _ := cluster.Node("b")
	on := list[0].On(zones, cluster)
	pods, _ := list[0].In(zones, list, cluster)
	*c.got = fmt.Sprintf("a %d, b %d, zone %d", on(a), on(b), pods)
	return nil
}
