package predicates_test

import (
	"testing"

	"github.com/planekit/planekit/schedule/predicates"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestUnsupported: a pod with an unsupported hard constraint fits no node, and the reason names the
// constraint. An unsupported preference does not exclude a node.
func TestUnsupported(t *testing.T) {
	const begin, end = "node(s) could not be judged: ", " is not supported yet"
	term := corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname}
	spread := func(when corev1.UnsatisfiableConstraintAction) []corev1.TopologySpreadConstraint {
		return []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: when}}
	}
	required := []corev1.PodAffinityTerm{term}
	preferred := []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: term}}
	group := "workers"
	for _, test := range []struct {
		name string
		spec corev1.PodSpec
		want string
	}{
		{name: "nothing"},
		{name: "empty", spec: corev1.PodSpec{Affinity: &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}, PodAntiAffinity: &corev1.PodAntiAffinity{}}}},
		{name: "preferred", spec: corev1.PodSpec{
			Affinity: &corev1.Affinity{
				PodAffinity:     &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: preferred},
				PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: preferred},
			},
			TopologySpreadConstraints: spread(corev1.ScheduleAnyway),
		}},
		{name: "affinity", want: begin + "required pod affinity" + end, spec: corev1.PodSpec{Affinity: &corev1.Affinity{
			PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}}},
		{name: "anti-affinity", want: begin + "required pod anti-affinity" + end, spec: corev1.PodSpec{Affinity: &corev1.Affinity{
			PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}}},
		{name: "spread", want: begin + "a topology spread constraint with DoNotSchedule" + end,
			spec: corev1.PodSpec{TopologySpreadConstraints: append(spread(corev1.ScheduleAnyway), spread(corev1.DoNotSchedule)...)}},
		{name: "claim and group", want: begin + "a resource claim" + end + ", " + begin + "a scheduling group" + end,
			spec: corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu"}},
				SchedulingGroup: &corev1.PodSchedulingGroup{PodGroupName: &group}}},
	} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
		if got := verdict(predicates.Unsupported(), &corev1.Pod{Spec: test.spec}, node); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}
