package predicates_test

import (
	"testing"

	"github.com/planekit/planekit/schedule/predicates"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestFitIgnoring checks that only extended resources are ignored, by their names or groups.
func TestFitIgnoring(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Allocatable: list("cpu", "1", "pods", "9")}}
	for _, test := range []struct {
		ignored predicates.Ignored
		request string
		want    string
	}{
		{predicates.Ignored{}, "example.com/gpu", "Insufficient example.com/gpu"},
		{predicates.Ignored{Names: []string{"example.com/gpu"}}, "example.com/gpu", ""},
		{predicates.Ignored{Names: []string{"example.com/gpu"}}, "example.com/disk", "Insufficient example.com/disk"},
		{predicates.Ignored{Groups: []string{"example.com"}}, "example.com/disk", ""},
		{predicates.Ignored{Groups: []string{"example"}}, "example.com/disk", "Insufficient example.com/disk"},
		{predicates.Ignored{Names: []string{"cpu"}}, "cpu", "Insufficient cpu"},
		{predicates.Ignored{Names: []string{"hugepages-2Mi"}}, "hugepages-2Mi", "Insufficient hugepages-2Mi"},
		{predicates.Ignored{Groups: []string{"node.kubernetes.io"}}, "node.kubernetes.io/x", "Insufficient node.kubernetes.io/x"},
		{predicates.Ignored{Groups: []string{"requests.example.com"}}, "requests.example.com/x", "Insufficient requests.example.com/x"},
	} {
		if got := verdict(predicates.FitIgnoring(test.ignored), wants(test.request, "2"), node); got != test.want {
			t.Errorf("%+v, %s: %q, want %q", test.ignored, test.request, got, test.want)
		}
	}
}

// TestNodeSelectorAnd checks that the selector of the scheduler counts beside that of the pod.
func TestNodeSelectorAnd(t *testing.T) {
	in := func(value string) *corev1.NodeSelector {
		return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: "disk", Operator: corev1.NodeSelectorOpIn, Values: []string{value}}}}}}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"disk": "ssd"}}}
	const enforced = "node(s) didn't match scheduler-enforced node affinity"
	for _, test := range []struct {
		enforced *corev1.NodeSelector
		own      map[string]string
		want     string
	}{
		{nil, nil, ""},
		{in("ssd"), nil, ""},
		{in("hdd"), nil, enforced},
		{in("hdd"), map[string]string{"disk": "hdd"}, enforced},
		{in("ssd"), map[string]string{"disk": "hdd"}, "node(s) didn't match Pod's node affinity/selector"},
		{&corev1.NodeSelector{}, nil, enforced},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{NodeSelector: test.own}}
		if got := verdict(predicates.NodeSelectorAnd(test.enforced), pod, node); got != test.want {
			t.Errorf("%v, %v: %q, want %q", test.enforced, test.own, got, test.want)
		}
	}
}
