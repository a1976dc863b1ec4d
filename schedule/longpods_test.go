package schedule_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/internal/used"
	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/predicates"
	"github.com/planekit/planekit/schedule/priorities"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// longPods are pods of about 300 kB each, by what is long in them.
var longPods = map[string]func(p *corev1.Pod){
	"requirements of node affinity": func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: requirements(5000)}}}}}
	},
	"terms of node affinity": func(p *corev1.Pod) {
		var terms []corev1.NodeSelectorTerm
		for i := range 5000 {
			terms = append(terms, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: fmt.Sprint("key", i), Operator: corev1.NodeSelectorOpExists}}})
		}
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
	},
	"30,000 terms of node affinity": func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: make([]corev1.NodeSelectorTerm, 30_000)}}}
	},
	"as many terms of node affinity as are compared": func(p *corev1.Pod) {
		var terms []corev1.NodeSelectorTerm
		for _, r := range requirements(schedule.MaxNodeTerms) {
			r.Operator = corev1.NodeSelectorOpExists
			terms = append(terms, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{r}})
		}
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
	},
	"values of node affinity": func(p *corev1.Pod) {
		names := make([]string, 100_000)
		for i := range names {
			names[i] = fmt.Sprint("name", i)
		}
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: names}}}}}}}
	},
	"node affinity for each spread constraint": func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: requirements(2000)}}}}}
		for _, t := range podTerms(200) {
			p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
				MaxSkew: 1, TopologyKey: t.TopologyKey, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: t.LabelSelector})
		}
	},
	"preferred node affinity": func(p *corev1.Pod) {
		var terms []corev1.PreferredSchedulingTerm
		for i := range 5000 {
			terms = append(terms, corev1.PreferredSchedulingTerm{Weight: 1, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: fmt.Sprint("key", i), Operator: corev1.NodeSelectorOpExists}}}})
		}
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: terms}}
	},
	"required affinity": func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: podTerms(3000)}}
	},
	"required anti-affinity": func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: podTerms(3000)}}
	},
	"required anti-affinity in all namespaces": func(p *corev1.Pod) {
		terms := podTerms(3000)
		for i := range terms {
			terms[i].NamespaceSelector = &metav1.LabelSelector{}
		}
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
	},
	"preferred affinity": func(p *corev1.Pod) {
		var weighted []corev1.WeightedPodAffinityTerm
		for _, t := range podTerms(3000) {
			weighted = append(weighted, corev1.WeightedPodAffinityTerm{Weight: 1, PodAffinityTerm: t})
		}
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: weighted}}
	},
	"spread constraints": func(p *corev1.Pod) {
		for _, t := range podTerms(3000) {
			p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
				MaxSkew: 1, TopologyKey: t.TopologyKey, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: t.LabelSelector})
		}
	},
	"soft spread constraints": func(p *corev1.Pod) {
		for _, t := range podTerms(3000) {
			p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
				MaxSkew: 1, TopologyKey: t.TopologyKey, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: t.LabelSelector})
		}
	},
	"tolerations": func(p *corev1.Pod) {
		for i := range 5000 {
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: fmt.Sprint("key", i), Operator: corev1.TolerationOpExists})
		}
	},
	"host ports": func(p *corev1.Pod) {
		for i := range 5000 {
			p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, corev1.ContainerPort{HostPort: int32(1000 + i), ContainerPort: int32(1000 + i)})
		}
	},
	"containers": func(p *corev1.Pod) {
		for range 3000 {
			p.Spec.Containers = append(p.Spec.Containers, container("1u", "1"))
		}
	},
}

func requirements(n int) []corev1.NodeSelectorRequirement {
	var all []corev1.NodeSelectorRequirement
	for i := range n {
		all = append(all, corev1.NodeSelectorRequirement{Key: fmt.Sprint("key", i), Operator: corev1.NodeSelectorOpDoesNotExist})
	}
	return all
}

func podTerms(n int) []corev1.PodAffinityTerm {
	var all []corev1.PodAffinityTerm
	for i := range n {
		all = append(all, corev1.PodAffinityTerm{TopologyKey: []string{"zone", corev1.LabelHostname}[i%2], LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint("app", i)}}})
	}
	return all
}

// TestCostOfLongPods: a decision about a pod of about 100 kB takes little time in a cluster of 500 nodes and 5,000 pods,
// and so do those about other pods while it runs. A pod with too many terms about other pods fits no node, and says why.
func TestCostOfLongPods(t *testing.T) {
	for name, lengthen := range longPods {
		s := schedule.NewState(predicates.Default(), priorities.Default(), 1)
		for i := range 500 {
			n := node(fmt.Sprint("n", i), "64", "256Gi", "110")
			n.Labels = map[string]string{"zone": fmt.Sprint("z", i%3), corev1.LabelHostname: n.Name}
			n.Spec.Taints = []corev1.Taint{{Key: "key4999", Effect: corev1.TaintEffectPreferNoSchedule}}
			s.SetNode(n)
			for k := range 10 {
				p := on(pod(fmt.Sprint("p", i, "-", k), "1m", "1"), n.Name)
				p.Labels = map[string]string{"app": "web", "tier": "front"}
				s.SetPod(schedule.NewPodInfo(p))
			}
		}
		long := pod("long", "1m", "1")
		long.Labels = map[string]string{"app": "app0"}
		lengthen(long)
		before := used.Processor()
		at, unfit := s.Decide(schedule.NewPodInfo(long))
		tookLong := used.Processor() - before
		if tooMany := schedule.TooManyTerms(long); tooMany && (unfit == nil || !strings.Contains(unfit.Error(), "more than 256 affinity terms and topology spread constraints")) {
			t.Errorf("%s: Decide() = %q, %v, want an error that names the terms", name, at, unfit)
		}
		if tooMany := schedule.TooManyNodeTerms(long); tooMany && (unfit == nil || !strings.Contains(unfit.Error(), "more than 2048 requirements of node affinity and tolerations")) {
			t.Errorf("%s: Decide() = %q, %v, want an error that names the requirements", name, at, unfit)
		}
		s.SetPod(schedule.NewPodInfo(on(long, "n7")))
		before = used.Processor()
		if at, unfit := s.Decide(schedule.NewPodInfo(pod("short", "1m", "1"))); unfit != nil {
			t.Errorf("%s: Decide() of another pod = %q, %v, want a node", name, at, unfit)
		}
		took := used.Processor() - before
		t.Logf("%s: %v, and %v for another pod", name, tookLong, took)
		if most := time.Second; tookLong > most || took > most {
			t.Errorf("%s: Decide() takes %v, and %v for another pod, want at most %v", name, tookLong, took, most)
		}
	}
}

// TestTooManyTerms: each namespace of a term counts, and so does each constraint.
func TestTooManyTerms(t *testing.T) {
	if p := pod("none", "", ""); schedule.TooManyTerms(p) {
		t.Error("TooManyTerms() of a pod without terms = true, want false")
	}
	for n, want := range map[int]bool{schedule.MaxTerms: false, schedule.MaxTerms + 1: true} {
		p := pod("p", "", "")
		terms := podTerms(n - 6)
		terms[0].Namespaces = []string{"a", "b", "c"}
		p.Spec.Affinity = &corev1.Affinity{
			PodAffinity:     &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{PodAffinityTerm: terms[0]}}},
			PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms[1:]},
		}
		p.Spec.TopologySpreadConstraints = make([]corev1.TopologySpreadConstraint, 4)
		if got := schedule.TooManyTerms(p); got != want || (schedule.NewPodInfo(p).Affinity == nil) != want {
			t.Errorf("TooManyTerms() of a pod with %d = %v, want %v", n, got, want)
		}
	}
}

// TestTooManyNodeTerms: each requirement counts, an empty term as one, each toleration, and all of them again for each
// spread constraint.
func TestTooManyNodeTerms(t *testing.T) {
	if p := pod("none", "", ""); schedule.TooManyNodeTerms(p) {
		t.Error("TooManyNodeTerms() of a pod without terms = true, want false")
	}
	for n, want := range map[int]bool{schedule.MaxNodeTerms / 2: false, schedule.MaxNodeTerms/2 + 1: true} {
		p := pod("p", "", "")
		p.Spec.Tolerations = make([]corev1.Toleration, 10)
		p.Spec.TopologySpreadConstraints = make([]corev1.TopologySpreadConstraint, 1)
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: requirements(n - 15), MatchFields: requirements(2)}, {}}},
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Preference: corev1.NodeSelectorTerm{MatchFields: requirements(2)}}},
		}}
		if got := schedule.TooManyNodeTerms(p); got != want {
			t.Errorf("TooManyNodeTerms() of %d requirements and tolerations and a spread constraint = %t, want %t", n, got, want)
		}
	}
}
