package job

import (
	"fmt"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func jobConditions(s batchv1.JobStatus) (list []string) {
	for _, c := range s.Conditions {
		list = append(list, fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason))
	}
	return list
}

// TestJobWithoutCompletions: pods are replaced until one succeeds. Then the
// others end by themselves, however many may run.
func TestJobWithoutCompletions(t *testing.T) {
	job := &batchv1.Job{Spec: batchv1.JobSpec{Parallelism: new(int32(3))}}
	pods := somePods(3, func(p *corev1.Pod) {
		if p.Name == "0" {
			p.Status.Phase = corev1.PodFailed
		}
	})
	if plan := planOf(job, pods); plan.create != 1 || len(plan.remove) != 0 || len(plan.status.Conditions) != 0 {
		t.Errorf("one failed: creates %d, removes %d, %v", plan.create, len(plan.remove), jobConditions(plan.status))
	}
	pods[0].Status.Phase = corev1.PodSucceeded
	for _, parallelism := range []int32{3, 1, 9} {
		job.Spec.Parallelism = &parallelism
		if plan := planOf(job, pods); plan.create != 0 || len(plan.remove) != 0 || len(plan.status.Conditions) != 0 {
			t.Errorf("one succeeded of %d: creates %d, removes %d, %v", parallelism, plan.create, len(plan.remove), jobConditions(plan.status))
		}
	}
	for _, pod := range pods {
		pod.Status.Phase = corev1.PodSucceeded
	}
	if plan := planOf(job, pods); !slices.Equal(jobConditions(plan.status), []string{"SuccessCriteriaMet=True CompletionsReached"}) {
		t.Errorf("all succeeded: %v", jobConditions(plan.status))
	}
	pods[1].Status.Phase, pods[2].Status.Phase = corev1.PodFailed, corev1.PodFailed
	if plan := planOf(job, pods); !slices.Equal(jobConditions(plan.status), []string{"SuccessCriteriaMet=True CompletionsReached"}) {
		t.Errorf("one succeeded, and none is left: %v", jobConditions(plan.status))
	}
}

// TestJobBurst makes and removes no more pods at a time than that, except when
// the Job is suspended.
func TestJobBurst(t *testing.T) {
	job := &batchv1.Job{Spec: batchv1.JobSpec{Completions: new(int32(1300)), Parallelism: new(int32(1300))}}
	if plan := planOf(job, nil); plan.create != 500 || !plan.more {
		t.Errorf("creates %d, more %t", plan.create, plan.more)
	}
	pods := somePods(600, func(*corev1.Pod) {})
	job.Spec.Parallelism = new(int32(600))
	if plan := planOf(job, pods); plan.create != 0 || plan.more {
		t.Errorf("all there: creates %d, more %t", plan.create, plan.more)
	}
	job.Spec.Parallelism = new(int32(0))
	if plan := planOf(job, pods); len(plan.remove) != 500 || !plan.more {
		t.Errorf("removes %d, more %t", len(plan.remove), plan.more)
	}
	job.Spec.Suspend = new(true)
	if plan := planOf(job, pods); len(plan.remove) != 600 {
		t.Errorf("suspended: removes %d", len(plan.remove))
	}
}

// TestJobWaitsForAll or, with a backoff for each index, for those alone that
// failed.
func TestJobWaitsForAll(t *testing.T) {
	now := time.Unix(1e9, 0)
	job := &batchv1.Job{Spec: batchv1.JobSpec{Completions: new(int32(3)), Parallelism: new(int32(3)), CompletionMode: new(batchv1.IndexedCompletion)}}
	pods := somePods(1, func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodFailed
		p.Annotations = map[string]string{batchv1.JobCompletionIndexAnnotation: "1", batchv1.JobIndexFailureCountAnnotation: "0"}
		p.CreationTimestamp = metav1.NewTime(now.Add(-4 * time.Second))
	})
	plan := func() jobPlan {
		return planJob(sortJobPods(job, pods, func(types.UID) bool { return false }), 7*time.Second, now)
	}
	if plan := plan(); plan.create != 0 || plan.again != 7*time.Second {
		t.Errorf("creates %d, again in %v", plan.create, plan.again)
	}
	job.Spec.BackoffLimitPerIndex = new(int32(5))
	if plan := plan(); fmt.Sprint(plan.indexes) != "[0 2]" || plan.again != 6*time.Second {
		t.Errorf("per index: creates %v, again in %v", plan.indexes, plan.again)
	}
	pods[0].Annotations[batchv1.JobIndexIgnoredFailureCountAnnotation] = "2"
	if plan := plan(); plan.again != 36*time.Second {
		t.Errorf("after the third failure: again in %v", plan.again)
	}
	pods[0].CreationTimestamp = metav1.NewTime(now.Add(-40 * time.Second))
	if plan := plan(); fmt.Sprint(plan.indexes) != "[0 1 2]" {
		t.Errorf("when that is over: creates %v", plan.indexes)
	}
}

// TestJobFailedIndexes: as many as may fail may, and if all are settled and one
// has failed, so has the Job.
func TestJobFailedIndexes(t *testing.T) {
	for _, test := range []struct {
		failed, succeeded string
		most              *int32
		want              string
	}{
		{"0-2", "", new(int32(3)), ""},
		{"0-3", "", new(int32(3)), "MaxFailedIndexesExceeded"},
		{"0-3", "", nil, ""},
		{"0-3", "4-8", nil, ""},
		{"0-3", "4-9", nil, "FailedIndexes"},
		{"0-3", "4-9", new(int32(4)), "FailedIndexes"},
	} {
		job := &batchv1.Job{Spec: batchv1.JobSpec{Completions: new(int32(10)), Parallelism: new(int32(1)), CompletionMode: new(batchv1.IndexedCompletion),
			BackoffLimitPerIndex: new(int32(0)), MaxFailedIndexes: test.most},
			Status: batchv1.JobStatus{FailedIndexes: &test.failed, CompletedIndexes: test.succeeded}}
		got := ""
		if c := findJobCondition(&[]batchv1.JobStatus{planOf(job, nil).status}[0], batchv1.JobFailureTarget); c != nil {
			got = c.Reason
		}
		if got != test.want {
			t.Errorf("with %q failed, %q succeeded and MaxFailedIndexes set %t, the Job fails for %q, want %q",
				test.failed, test.succeeded, test.most != nil, got, test.want)
		}
	}
}

// TestJobSuspendedHasTime checks that a suspended Job is not late and has not begun.
func TestJobSuspendedHasTime(t *testing.T) {
	job := &batchv1.Job{Spec: batchv1.JobSpec{Suspend: new(true), ActiveDeadlineSeconds: new(int64(1))}}
	plan := planOf(job, nil)
	if !slices.Equal(jobConditions(plan.status), []string{"Suspended=True JobSuspended"}) || plan.status.StartTime != nil || plan.again != 0 {
		t.Errorf("status %+v, again in %v", plan.status, plan.again)
	}
	job.Status.StartTime = &metav1.Time{Time: time.Unix(1e8, 0)}
	if plan = planOf(job, nil); plan.status.StartTime != nil || len(plan.status.Conditions) != 1 {
		t.Errorf("that ran before: status %+v", plan.status)
	}
	job.Status = plan.status
	if plan = planOf(job, nil); plan.status.StartTime != nil {
		t.Errorf("looked at again: began at %v", plan.status.StartTime)
	}
	job.Spec.Suspend = nil
	plan = planOf(job, nil)
	if !slices.Equal(jobConditions(plan.status), []string{"Suspended=False JobResumed"}) || !plan.status.StartTime.Equal(new(metav1.Unix(1e9, 0))) || plan.again != time.Second {
		t.Errorf("resumed: status %+v, again in %v", plan.status, plan.again)
	}
}

// TestJobIsOverWhenPodsAre: a Job that has failed says so in the end when no pod
// is left, tracked or not.
func TestJobIsOverWhenPodsAre(t *testing.T) {
	job := &batchv1.Job{Spec: batchv1.JobSpec{Completions: new(int32(1)), BackoffLimit: new(int32(0))},
		Status: batchv1.JobStatus{Failed: 1, Conditions: []batchv1.JobCondition{{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue, Reason: "r"}}}}
	pods := somePods(1, func(p *corev1.Pod) { p.Finalizers, p.DeletionTimestamp = nil, new(metav1.Now()) })
	if plan := planOf(job, pods); len(plan.status.Conditions) != 1 || *plan.status.Terminating != 1 {
		t.Errorf("while a pod ends: status %+v", plan.status)
	}
	if plan := planOf(job, nil); !slices.Equal(jobConditions(plan.status), []string{"FailureTarget=True r", "Failed=True r"}) {
		t.Errorf("then: %v", jobConditions(plan.status))
	}
}

// TestJobCountsReady: those that are deleted are not ready any more in the status
// that is written then.
func TestJobCountsReady(t *testing.T) {
	job := &batchv1.Job{Spec: batchv1.JobSpec{Completions: new(int32(3)), Parallelism: new(int32(1))}}
	pods := somePods(3, func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	})
	pods[2].Status.Conditions[0].Status = corev1.ConditionFalse
	plan := planOf(job, pods)
	if s := plan.status; s.Active != 3 || *s.Ready != 2 || *s.Terminating != 0 {
		t.Errorf("status %+v", s)
	}
	plan.acted(0, plan.remove)
	if s := plan.status; s.Active != 1 || *s.Ready != 1 || *s.Terminating != 2 {
		t.Errorf("afterwards status %+v", s)
	}
}

// TestJobReplacesTheFailedOnly: a pod that is about to end keeps its place and its
// index, if the Job says so or has a policy for pods that fail.
func TestJobReplacesTheFailedOnly(t *testing.T) {
	pods := somePods(1, func(p *corev1.Pod) {
		p.DeletionTimestamp = new(metav1.Now())
		p.Annotations = map[string]string{batchv1.JobCompletionIndexAnnotation: "0"}
	})
	for name, test := range map[string]struct {
		change func(*batchv1.JobSpec)
		want   string
		failed int
	}{
		"any":              {func(*batchv1.JobSpec) {}, "[0 1]", 1},
		"failed":           {func(s *batchv1.JobSpec) { s.PodReplacementPolicy = new(batchv1.Failed) }, "[1]", 0},
		"any, by its name": {func(s *batchv1.JobSpec) { s.PodReplacementPolicy = new(batchv1.TerminatingOrFailed) }, "[0 1]", 1},
		"by its policy":    {func(s *batchv1.JobSpec) { s.PodFailurePolicy = &batchv1.PodFailurePolicy{} }, "[1]", 0},
	} {
		job := &batchv1.Job{Spec: batchv1.JobSpec{Completions: new(int32(5)), Parallelism: new(int32(2)), CompletionMode: new(batchv1.IndexedCompletion)}}
		test.change(&job.Spec)
		plan := planOf(job, pods)
		if u := plan.status.UncountedTerminatedPods; fmt.Sprint(plan.indexes) != test.want || len(u.Failed) != test.failed {
			t.Errorf("%s: creates %v, %d failed", name, plan.indexes, len(u.Failed))
		}
	}
}

func TestTimeToLive(t *testing.T) {
	now := time.Unix(1e9, 0)
	over := batchv1.JobCondition{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Minute))}
	for name, test := range map[string]struct {
		change func(*batchv1.Job)
		left   time.Duration
		ok     bool
	}{
		"over":           {func(*batchv1.Job) {}, 40 * time.Second, true},
		"past":           {func(j *batchv1.Job) { *j.Spec.TTLSecondsAfterFinished = 0 }, -time.Minute, true},
		"for ever":       {func(j *batchv1.Job) { j.Spec.TTLSecondsAfterFinished = nil }, 0, false},
		"not over":       {func(j *batchv1.Job) { j.Status.Conditions[0].Status = corev1.ConditionFalse }, 0, false},
		"about to be":    {func(j *batchv1.Job) { j.Status.Conditions[0].Type = batchv1.JobFailureTarget }, 0, false},
		"at no time":     {func(j *batchv1.Job) { j.Status.Conditions[0].LastTransitionTime = metav1.Time{} }, 0, false},
		"deleted by now": {func(j *batchv1.Job) { j.DeletionTimestamp = new(metav1.Now()) }, 0, false},
	} {
		job := &batchv1.Job{Spec: batchv1.JobSpec{TTLSecondsAfterFinished: new(int32(100))}, Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{over}}}
		test.change(job)
		if left, ok := timeToLive(job, now); left != test.left || ok != test.ok {
			t.Errorf("%s: timeToLive() = %v, %t, want %v, %t", name, left, ok, test.left, test.ok)
		}
	}
}
