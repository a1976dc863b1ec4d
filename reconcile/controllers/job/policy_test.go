package job

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// policyNow is the time of the tests of policies.
var policyNow = time.Unix(0, 0).Add(1000 * time.Hour)

func exited(name string, code int32, at time.Time) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.NewTime(at)}}}
}

// TestFailurePolicy has the first rule that matches decide.
func TestFailurePolicy(t *testing.T) {
	codes := func(container *string, operator batchv1.PodFailurePolicyOnExitCodesOperator, values ...int32) *batchv1.PodFailurePolicyOnExitCodesRequirement {
		return &batchv1.PodFailurePolicyOnExitCodesRequirement{ContainerName: container, Operator: operator, Values: values}
	}
	in, notIn := batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn
	policy := &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
		{Action: batchv1.PodFailurePolicyActionCount, OnExitCodes: codes(nil, in, 3)},
		{Action: batchv1.PodFailurePolicyActionIgnore, OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
			{Type: "Other", Status: corev1.ConditionTrue}, {Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}},
		{Action: batchv1.PodFailurePolicyActionFailIndex, OnExitCodes: codes(new("main"), in, 4, 5)},
		{Action: batchv1.PodFailurePolicyActionFailJob, OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
			{Type: "ConfigIssue", Status: corev1.ConditionFalse}}},
		{Action: batchv1.PodFailurePolicyActionFailJob, OnExitCodes: codes(nil, notIn, 1, 2)},
	}}
	for name, test := range map[string]struct {
		pod  corev1.PodStatus
		want judgement
	}{
		"nothing known":   {corev1.PodStatus{}, judgement{}},
		"still at work":   {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "main"}}}, judgement{}},
		"excluded":        {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{exited("main", 2, policyNow)}}, judgement{}},
		"no failure":      {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{exited("main", 0, policyNow)}}, judgement{}},
		"counts by rule":  {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{exited("main", 3, policyNow)}}, judgement{}},
		"fails the index": {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{exited("main", 5, policyNow)}}, judgement{failIndex: true}},
		"of another container": {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{exited("main", 0, policyNow), exited("log", 5, policyNow)}},
			judgement{failJob: "Container log for pod ns/p failed with exit code 5 matching FailJob rule at index 4"}},
		"in the beginning": {corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{exited("init", 9, policyNow)}},
			judgement{failJob: "Container init for pod ns/p failed with exit code 9 matching FailJob rule at index 4"}},
		"disrupted": {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{exited("main", 137, policyNow)},
			Conditions: []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}}, judgement{ignore: true}},
		"not disrupted": {corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionFalse}}}, judgement{}},
		"by a condition": {corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: "ConfigIssue", Status: corev1.ConditionFalse}}},
			judgement{failJob: "Pod ns/p has condition ConfigIssue matching FailJob rule at index 3"}},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Status: test.pod}
		if got := judge(policy, pod); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

// TestBreaksIndex: an index is given up after as many failures as it may have,
// those that are ignored not counted, or at once by a rule.
func TestBreaksIndex(t *testing.T) {
	job := &batchv1.Job{Spec: batchv1.JobSpec{BackoffLimitPerIndex: new(int32(2)), PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
		{Action: batchv1.PodFailurePolicyActionIgnore, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{7}}},
		{Action: batchv1.PodFailurePolicyActionFailIndex, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{8}}},
	}}}}
	for _, test := range []struct {
		failures string
		code     int32
		phase    corev1.PodPhase
		want     bool
	}{
		{"1", 1, corev1.PodFailed, false},
		{"2", 1, corev1.PodFailed, true},
		{"2", 1, corev1.PodRunning, false},
		{"2", 7, corev1.PodFailed, false},
		{"0", 8, corev1.PodFailed, true},
		{"-2", 1, corev1.PodFailed, false},
		{"99999999999", 1, corev1.PodFailed, false},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{batchv1.JobIndexFailureCountAnnotation: test.failures}},
			Status: corev1.PodStatus{Phase: test.phase, ContainerStatuses: []corev1.ContainerStatus{exited("main", test.code, policyNow)}}}
		if got := breaksIndex(job, pod); got != test.want {
			t.Errorf("breaksIndex() of a pod %s with %s failures before and exit code %d = %t, want %t",
				test.phase, test.failures, test.code, got, test.want)
		}
	}
}

// TestEndTime has each way to tell when a pod ended come before the next.
func TestEndTime(t *testing.T) {
	at := func(seconds int64) time.Time { return time.Unix(seconds, 0) }
	always := corev1.ContainerRestartPolicyAlways
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(at(1))}}
	want := func(name string, seconds int64) {
		t.Helper()
		if got := endTime(pod); !got.Equal(at(seconds)) {
			t.Errorf("%s: %d, want %d", name, got.Unix(), seconds)
		}
	}
	want("nothing but its creation", 1)
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = new(metav1.NewTime(at(50))), new(int64(30))
	want("deleted", 20)
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at(10))}}
	want("ready", 20)
	pod.Status.Conditions[0].Status = corev1.ConditionFalse
	want("not ready any more", 10)
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{exited("a", 0, at(4)), exited("b", 1, at(6)), exited("c", 0, at(5))}
	want("all containers ended", 6)
	pod.Spec.InitContainers = []corev1.Container{{Name: "first"}, {Name: "beside", RestartPolicy: &always}}
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{exited("first", 0, at(99)), exited("beside", 0, at(8))}
	want("and the one beside them", 8)
	pod.Status.ContainerStatuses[1].State.Terminated = nil
	want("one still runs", 10)
}

// TestIndexInEnvironment checks that a container that has the variable does not get it again.
func TestIndexInEnvironment(t *testing.T) {
	job := &batchv1.Job{Spec: batchv1.JobSpec{CompletionMode: new(batchv1.IndexedCompletion)}}
	job.Spec.Template.Spec.Containers = []corev1.Container{{Name: "a", Env: []corev1.EnvVar{{Name: completionIndexEnv, Value: "mine"}}}, {Name: "b"}}
	template := jobTemplate(job)
	if env := template.Spec.Containers[0].Env; len(env) != 1 || env[0].Value != "mine" {
		t.Errorf("the container a has the environment %+v, want mine alone", env)
	}
	if env := template.Spec.Containers[1].Env; len(env) != 1 || env[0].ValueFrom == nil {
		t.Errorf("the container b has the environment %+v, want one variable, with ValueFrom", env)
	}
	if len(job.Spec.Template.Spec.Containers[1].Env) != 0 {
		t.Error("the job was changed")
	}
}

type told []string

func (l *told) Event(_ runtime.Object, eventtype, reason, message string) {
	*l = append(*l, eventtype+" "+reason+": "+message)
}

// TestJobTells of too many successes only if there are.
func TestJobTells(t *testing.T) {
	for succeeded, want := range map[int32]int{2: 1, 3: 2} {
		var events told
		c := &Controller{config: Config{Events: &events}}
		job := &batchv1.Job{Spec: batchv1.JobSpec{Completions: new(int32(2))}}
		status := batchv1.JobStatus{Succeeded: succeeded, Conditions: []batchv1.JobCondition{
			{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue}, {Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}}
		c.announce(job, status)
		if len(events) != want || events[len(events)-1] != "Normal Completed: Job completed" ||
			want == 2 && events[0] != "Warning TooManySucceededPods: Too many succeeded pods running after completion count reached" {
			t.Errorf("%d succeeded of 2: %q", succeeded, events)
		}
		job.Status = status
		if c.announce(job, status); len(events) != want {
			t.Errorf("told again: %q", events)
		}
	}
}
