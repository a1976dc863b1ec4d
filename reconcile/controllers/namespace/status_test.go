package namespace

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestEmptyingConditions has the same news in another order, which is none, and a
// message that changes while the status stays: that is no transition.
func TestEmptyingConditions(t *testing.T) {
	pass := func(pods, jobs int, order ...string) *emptying {
		e := &emptying{}
		for _, resource := range order {
			switch resource {
			case "pods":
				e.add(corev1.Resource("pods"), Remaining{pods, map[string]int{"held": pods}})
			case "jobs":
				e.add(corev1.Resource("jobs"), Remaining{jobs, map[string]int{"held": jobs, "kept": 1}})
			}
			e.failures = append(e.failures, errors.New(resource+" failed"))
		}
		return e
	}
	at := metav1.NewTime(time.Unix(1000, 0))
	first, changed := pass(3, 2, "pods", "jobs").conditions(nil, at)
	if !changed || len(first) != 5 {
		t.Fatalf("conditions(nil) = %v, %t, want 5 conditions and true", first, changed)
	}
	if _, changed := pass(3, 2, "jobs", "pods").conditions(first, metav1.NewTime(at.Add(time.Minute))); changed {
		t.Error("another order is news")
	}
	second, changed := pass(1, 2, "pods", "jobs").conditions(first, metav1.NewTime(at.Add(time.Minute)))
	if !changed {
		t.Error("fewer pods are no news")
	}
	for _, want := range []corev1.NamespaceCondition{
		{Type: corev1.NamespaceContentRemaining, Status: corev1.ConditionTrue, LastTransitionTime: at, Reason: "SomeResourcesRemain",
			Message: "Some resources are remaining: jobs. has 2 resource instances, pods. has 1 resource instances"},
		{Type: corev1.NamespaceFinalizersRemaining, Status: corev1.ConditionTrue, LastTransitionTime: at, Reason: "SomeFinalizersRemain",
			Message: "Some content in the namespace has finalizers remaining: held in 3 resource instances, kept in 1 resource instances"},
		{Type: corev1.NamespaceDeletionContentFailure, Status: corev1.ConditionTrue, LastTransitionTime: at, Reason: "ContentDeletionFailed",
			Message: "Failed to delete all resource types, 2 remaining: jobs failed, pods failed"},
		{Type: corev1.NamespaceDeletionGVParsingFailure, Status: corev1.ConditionFalse, LastTransitionTime: at, Reason: "ParsedGroupVersions",
			Message: "All legacy kube types successfully parsed"},
	} {
		if got := conditionOf(second, want.Type); got != want {
			t.Errorf("condition %+v, want %+v", got, want)
		}
	}
	now := metav1.NewTime(at.Add(time.Hour))
	third, _ := pass(0, 0).conditions(second, now)
	if got := conditionOf(third, corev1.NamespaceContentRemaining); got.Status != corev1.ConditionFalse || got.LastTransitionTime != now || got.Reason != "ContentRemoved" {
		t.Errorf("condition %+v", got)
	}
}

func conditionOf(list []corev1.NamespaceCondition, kind corev1.NamespaceConditionType) (found corev1.NamespaceCondition) {
	for _, c := range list {
		if c.Type == kind {
			found = c
		}
	}
	return found
}
