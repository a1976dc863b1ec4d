package predicates_test

import (
	"testing"

	"github.com/planekit/planekit/schedule/predicates"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestUnsupported checks that a pod with an unsupported constraint fits no node, and that the reason
// names it.
func TestUnsupported(t *testing.T) {
	const begin, end = "node(s) could not be judged: ", " is not supported yet"
	group := "workers"
	for _, test := range []struct {
		name string
		spec corev1.PodSpec
		want string
	}{
		{name: "nothing"},
		{name: "empty", spec: corev1.PodSpec{Affinity: &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}, PodAntiAffinity: &corev1.PodAntiAffinity{}}}},
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
