package job

import (
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func somePods(n int, change func(*corev1.Pod)) (pods []*corev1.Pod) {
	for i := range n {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint(i)), Finalizers: []string{batchv1.JobTrackingFinalizer}}}
		change(pod)
		pods = append(pods, pod)
	}
	return pods
}

func planOf(job *batchv1.Job, pods []*corev1.Pod) jobPlan {
	return planJob(sortJobPods(job, pods, func(types.UID) bool { return false }), 0, time.Unix(1e9, 0))
}

// TestJobCountsInParts has more pods end at once than a status may name.
func TestJobCountsInParts(t *testing.T) {
	job := &batchv1.Job{Spec: batchv1.JobSpec{Completions: new(int32(600)), Parallelism: new(int32(600))}}
	pods := somePods(600, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	for i, want := range []struct {
		release, uncounted int
		succeeded          int32
		conditions         int
	}{{500, 500, 0, 1}, {100, 100, 500, 1}, {0, 0, 600, 2}} {
		plan := planOf(job, pods)
		if u := plan.status.UncountedTerminatedPods; len(plan.release) != want.release || len(u.Succeeded) != want.uncounted ||
			plan.status.Succeeded != want.succeeded || len(plan.status.Conditions) != want.conditions || plan.create != 0 {
			t.Errorf("step %d: let %d go, %d uncounted, %d succeeded, conditions %v", i, len(plan.release), len(u.Succeeded),
				plan.status.Succeeded, plan.status.Conditions)
		}
		for _, pod := range plan.release {
			pod.Finalizers = nil
		}
		job.Status = plan.status
	}
}

// TestJobNothingIsOverWhileHeld has a pod that the status has no room for.
func TestJobNothingIsOverWhileHeld(t *testing.T) {
	pods := somePods(maxUncounted+1, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
	job := &batchv1.Job{Spec: batchv1.JobSpec{BackoffLimit: new(int32(1))}}
	plan := planOf(job, pods)
	for _, pod := range plan.release {
		pod.Finalizers = nil
	}
	job.Status = plan.status
	if plan = planOf(job, pods); len(plan.status.Conditions) != 1 || plan.status.Failed != maxUncounted || len(plan.release) != 1 {
		t.Errorf("let %d go, status %+v", len(plan.release), plan.status)
	}
}

// TestJobLoosePods finishes the removal of a pod whose finalizer was removed before the
// controller could delete it. The result of such a pod does not count.
func TestJobLoosePods(t *testing.T) {
	job := &batchv1.Job{Spec: batchv1.JobSpec{Completions: new(int32(2)), Parallelism: new(int32(2))}}
	pods := somePods(2, func(p *corev1.Pod) {
		if p.Name == "1" {
			p.Finalizers = nil
		}
	})
	plan := planOf(job, pods)
	if len(plan.remove) != 1 || plan.remove[0] != pods[1] || plan.create != 0 || plan.status.Active != 2 {
		t.Errorf("plan %+v", plan)
	}
	job.DeletionTimestamp = new(metav1.Now())
	if plan = planOf(job, pods); len(plan.remove)+len(plan.end) != 0 || len(plan.release) != 1 || plan.release[0] != pods[0] {
		t.Errorf("plan for a job that is deleted %+v", plan)
	}
}

// TestJobIndexesTwice has more than one pod at an index, and one at an index
// that is out of range.
func TestJobIndexesTwice(t *testing.T) {
	job := &batchv1.Job{Spec: batchv1.JobSpec{Completions: new(int32(3)), Parallelism: new(int32(3)), CompletionMode: new(batchv1.IndexedCompletion)}}
	at := []string{"0", "1", "1", "3", ""}
	pods := somePods(5, func(p *corev1.Pod) {
		p.Annotations = map[string]string{batchv1.JobCompletionIndexAnnotation: at[p.Name[0]-'0']}
		if p.Name == "2" {
			p.Status.Phase, p.Spec.NodeName = corev1.PodRunning, "n"
		}
	})
	plan := planOf(job, pods)
	gone := map[string]bool{}
	for _, pod := range plan.remove {
		gone[pod.Name] = true
	}
	if len(gone) != 3 || !gone["1"] || !gone["3"] || !gone["4"] || plan.create != 0 {
		t.Errorf("removed are %v", gone)
	}
	if plan = planOf(job, pods[:1]); fmt.Sprint(plan.indexes) != "[1 2]" {
		t.Errorf("next are %v", plan.indexes)
	}
	pods[0].Status.Phase = corev1.PodSucceeded
	if plan = planOf(job, pods[:1]); fmt.Sprint(plan.indexes) != "[1 2]" || plan.status.CompletedIndexes != "0" || plan.status.Succeeded != 1 {
		t.Errorf("next are %v, status %+v", plan.indexes, plan.status)
	}
}

// TestJobRestartsCount has containers restarted in place, which counts like
// pods that fail.
func TestJobRestartsCount(t *testing.T) {
	job := &batchv1.Job{Spec: batchv1.JobSpec{Completions: new(int32(1)), BackoffLimit: new(int32(3))}}
	pods := somePods(1, func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodRunning
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 2}}
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{RestartCount: 1}}
	})
	if plan := planOf(job, pods); len(plan.end) != 0 {
		t.Error("failed though its pods are not restarted in place")
	}
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	if plan := planOf(job, pods); len(plan.end) != 1 || plan.status.Conditions[0].Reason != "BackoffLimitExceeded" {
		t.Errorf("plan %+v", plan)
	}
	if pods[0].Status.Phase = corev1.PodPending; len(planOf(job, pods).end) != 1 {
		t.Error("not failed though what comes first was restarted")
	}
	pods[0].Status.ContainerStatuses[0].RestartCount = 1
	if plan := planOf(job, pods); len(plan.end) != 0 {
		t.Error("failed too early")
	}
	job.Spec.BackoffLimit = new(int32(0))
	if plan := planOf(job, pods); len(plan.end) != 1 {
		t.Error("not failed though none may be restarted")
	}
	pods[0].Status.ContainerStatuses, pods[0].Status.InitContainerStatuses = nil, nil
	if plan := planOf(job, pods); len(plan.end) != 0 {
		t.Error("failed though none was restarted")
	}
}

// TestJobBackoff has waits that grow with the failures since the last success,
// and that survive the pods they are about.
func TestJobBackoff(t *testing.T) {
	var e endings
	start := time.Unix(1e9, 0)
	ended := func(name string, after time.Duration) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(name)}, Status: corev1.PodStatus{
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(start.Add(after))}}}}
	}
	var failed []*corev1.Pod
	for i, want := range []time.Duration{10, 20, 40, 80, 160, 320, 600, 600, 600} {
		at := time.Duration(i) * time.Hour
		failed = append(failed, ended(fmt.Sprint(i), at))
		if got := e.wait("job", nil, failed, start.Add(at)); got != want*time.Second {
			t.Errorf("after %d failures: %s, want %s", i+1, got, want*time.Second)
		}
	}
	if got := e.wait("job", nil, nil, start.Add(8*time.Hour)); got != 600*time.Second {
		t.Errorf("with all pods gone: %s", got)
	}
	late := ended("late", 10*time.Hour)
	if got := e.wait("job", []*corev1.Pod{ended("good", 9*time.Hour)}, append(failed, late), start.Add(10*time.Hour)); got != 10*time.Second {
		t.Errorf("one failure after a success: %s", got)
	}
	if got := e.wait("job", []*corev1.Pod{late}, nil, start.Add(10*time.Hour)); got != 10*time.Second {
		t.Errorf("a failure that ends well: %s", got)
	}
	if got := e.wait("job", []*corev1.Pod{ended("as late", 10*time.Hour)}, nil, start.Add(10*time.Hour)); got > 0 {
		t.Errorf("a failure and a success at once: %s", got)
	}
	e.drop("job")
	if got := e.wait("job", nil, nil, start); got > 0 {
		t.Errorf("forgotten: %s", got)
	}
}

// TestJobBackoffOfFuture: a failure by the clock of a node that is an hour ahead, or before the own clock was set back,
// delays the next pod from when it was first seen.
func TestJobBackoffOfFuture(t *testing.T) {
	var e endings
	start := time.Unix(1e9, 0)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a"}, Status: corev1.PodStatus{
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(start.Add(time.Hour))}}}}
	for _, after := range []time.Duration{0, 4 * time.Second, 10 * time.Second, time.Minute} {
		if got, want := e.wait("job", nil, []*corev1.Pod{pod}, start.Add(after)), 10*time.Second-after; got != want {
			t.Errorf("wait %v after a failure in an hour = %v, want %v", after, got, want)
		}
	}
}

// TestJobWinnersAreSpared has pods that were deleted because the Job has succeeded
// without them. The controller releases them and does not count them as failures, even
// if they end meanwhile. A pod that failed on its own counts.
func TestJobWinnersAreSpared(t *testing.T) {
	job := &batchv1.Job{Spec: batchv1.JobSpec{Completions: new(int32(4)), CompletionMode: new(batchv1.IndexedCompletion)},
		Status: batchv1.JobStatus{CompletedIndexes: "0", Conditions: []batchv1.JobCondition{{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue}}}}
	pods := somePods(3, func(p *corev1.Pod) {
		p.Annotations = map[string]string{batchv1.JobCompletionIndexAnnotation: fmt.Sprint(p.Name[0] - '0' + 1)}
		if p.Name != "2" {
			p.DeletionTimestamp = new(metav1.Now())
		}
		if p.Name != "0" {
			p.Status.Phase = corev1.PodFailed
		}
	})
	plan := planOf(job, pods)
	if u := plan.status.UncountedTerminatedPods; len(plan.release) != 3 || len(u.Succeeded) != 0 || fmt.Sprint(u.Failed) != "[2]" {
		t.Errorf("let %d go, uncounted %+v", len(plan.release), u)
	}
}

// TestSuccessRules has the answers of kube-controller-manager, of a Job with ten
// completions of which 1, 3 and 4 have succeeded. It takes a rule that asks for
// none as met by the first.
func TestSuccessRules(t *testing.T) {
	succeeded := parseIndexes("1,3,4", 10)
	for name, test := range map[string]struct {
		indexes *string
		count   *int32
		met     bool
	}{
		"neither":                     {},
		"enough":                      {count: new(int32(3)), met: true},
		"not enough":                  {count: new(int32(4))},
		"none asked for":              {count: new(int32(0)), met: true},
		"all of some":                 {indexes: new("3-4"), met: true},
		"not all of some":             {indexes: new("3-5")},
		"enough of some":              {indexes: new("0-3"), count: new(int32(2)), met: true},
		"not enough of some":          {indexes: new("0-2"), count: new(int32(2))},
		"none asked for of some":      {indexes: new("5-6"), count: new(int32(0)), met: true},
		"all of fewer than the count": {indexes: new("3,4"), count: new(int32(3)), met: true},
		"out of range":                {indexes: new("10-12"), count: new(int32(0))},
		"nonsense":                    {indexes: new("x")},
	} {
		policy := &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{
			{SucceededIndexes: new("9")}, {SucceededIndexes: test.indexes, SucceededCount: test.count}}}
		if got := enough(policy, succeeded, 10); (got == "Matched rules at index 1") != test.met || !test.met && got != "" {
			t.Errorf("%s: enough() = %q, want a match of the rule at index 1: %t", name, got, test.met)
		}
	}
	if got := enough(&batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededCount: new(int32(0))}}}, nil, 10); got != "" {
		t.Errorf("before any has succeeded: %q", got)
	}
}
