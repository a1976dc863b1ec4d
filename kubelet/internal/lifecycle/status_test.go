package lifecycle

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func observe(t *testing.T, pod *corev1.Pod, state string) (*Observation, corev1.PodStatus) {
	t.Helper()
	s := parse(t, state)
	Recall(pod, s)
	o := &Observation{Pod: pod, State: s, Decision: Plan(pod, s, NewMemory(), t0), HostIPs: []string{"192.0.2.1"}, Runtime: "r", Now: t0}
	return o, o.Status()
}

// conditionOf returns a condition of a status; where there is none, one without a type.
func conditionOf(status *corev1.PodStatus, kind corev1.PodConditionType) corev1.PodCondition {
	if c := findCondition(status, kind); c != nil {
		return *c
	}
	return corev1.PodCondition{}
}

func TestPhase(t *testing.T) {
	for _, test := range []struct {
		name   string
		policy corev1.RestartPolicy
		inits  []string
		state  string
		want   corev1.PodPhase
	}{
		{"new", restartAlways, nil, "", corev1.PodPending},
		{"one not yet started", restartAlways, nil, "s0! | a0@s0:run", corev1.PodPending},
		{"all run", restartAlways, nil, "s0! | a0@s0:run b0@s0:run", corev1.PodRunning},
		{"one crashed", restartAlways, nil, "s0! | a0@s0:exit1 b0@s0:run", corev1.PodRunning},
		{"all ended, always", restartAlways, nil, "s0! | a0@s0:exit0 b0@s0:exit0", corev1.PodRunning},
		{"all ended well", restartOnFailure, nil, "s0! | a0@s0:exit0 b0@s0:exit0", corev1.PodSucceeded},
		{"one failed for good", restartNever, nil, "s0! | a0@s0:exit0 b0@s0:exit1", corev1.PodFailed},
		{"one failed for good, one runs", restartNever, nil, "s0! | a0@s0:run b0@s0:exit1", corev1.PodRunning},
		{"init runs", restartAlways, []string{"x"}, "s0! | x0@s0:run", corev1.PodPending},
		{"init failed for good", restartNever, []string{"x"}, "s0! | x0@s0:exit1", corev1.PodFailed},
		{"sidecar outlives the rest", restartNever, []string{"side"}, "s0! | side0@s0:run a0@s0:exit0 b0@s0:exit0", corev1.PodRunning},
		{"sidecar has stopped", restartNever, []string{"side"}, "s0! | side0@s0:exit143 a0@s0:exit0 b0@s0:exit0", corev1.PodSucceeded},
		{"the sandbox died, never", restartNever, nil, "s0 | a0@s0:exit137", corev1.PodFailed},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, status := observe(t, testPod(test.policy, test.inits...), test.state); status.Phase != test.want {
				t.Errorf("%s: %s, want %s", test.state, status.Phase, test.want)
			}
		})
	}
}

func TestPhaseIsFinal(t *testing.T) {
	for _, phase := range []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed} {
		pod := testPod(restartAlways)
		pod.Status.Phase = phase
		if _, status := observe(t, pod, "s0! | a0@s0:run b0@s0:run"); status.Phase != phase {
			t.Errorf("%s became %s", phase, status.Phase)
		}
	}
}

func TestConditions(t *testing.T) {
	pod := testPod(restartAlways, "x")
	pod.Generation = 3
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: "mine", Status: corev1.ConditionTrue}}
	_, status := observe(t, pod, "s0! | x0@s0:run")
	for _, want := range []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, ObservedGeneration: 3},
		{Type: "mine", Status: corev1.ConditionTrue},
		{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue, ObservedGeneration: 3},
		{Type: corev1.PodInitialized, Status: corev1.ConditionFalse, Reason: "ContainersNotInitialized", Message: "containers with incomplete status: [x]", ObservedGeneration: 3},
		{Type: corev1.ContainersReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady", Message: "containers with unready status: [a b]", ObservedGeneration: 3},
		{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady", Message: "containers with unready status: [a b]", ObservedGeneration: 3},
	} {
		got := findCondition(&status, want.Type)
		if got == nil {
			t.Errorf("no condition %s", want.Type)
			continue
		}
		got.LastTransitionTime = want.LastTransitionTime
		if *got != want {
			t.Errorf("got %+v\nwant %+v", *got, want)
		}
	}
	if c := status.ContainerStatuses[0]; c.State.Waiting == nil || c.State.Waiting.Reason != "PodInitializing" {
		t.Errorf("container: %+v", c)
	}
}

func TestReadinessGate(t *testing.T) {
	pod := testPod(restartAlways)
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "gate"}}
	const state = "s0! | a0@s0:run b0@s0:run"
	_, status := observe(t, pod, state)
	if c := conditionOf(&status, corev1.PodReady); c.Status != corev1.ConditionFalse || c.Reason != "ReadinessGatesNotReady" {
		t.Errorf("closed: %+v", c)
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: "gate", Status: corev1.ConditionTrue}}
	_, status = observe(t, pod, state)
	if c := conditionOf(&status, corev1.PodReady); c.Status != corev1.ConditionTrue {
		t.Errorf("open: %+v", c)
	}
}

// TestStatusIsStable: writing what was computed changes nothing the next time.
// TestRestartCountNeverFalls: an attempt may be created, reported, and removed before it is started,
// and the pod that the next status is made of may be older than that report.
func TestRestartCountNeverFalls(t *testing.T) {
	pod := testPod(restartAlways, "x")
	api := corev1.PodStatus{
		InitContainerStatuses: []corev1.ContainerStatus{{Name: "x", ContainerID: "r://x3", RestartCount: 3}},
		ContainerStatuses:     []corev1.ContainerStatus{{Name: "a", ContainerID: "r://a1", RestartCount: 1}, {Name: "b", ContainerID: "r://b0"}},
	}
	for state, want := range map[string][3]int32{
		"s0! | x2@s0:exit0 a0@s0:exit1 b0@s0:run":             {3, 1, 0},
		"s0! | x3@s0:exit0 a1@s0:run a0@s0:exit1 b1@s0:run":   {3, 1, 1},
		"s0! | x4@s0:exit0 a2@s0:run a1@s0:exit1 b0@s0:exit0": {4, 2, 0},
	} {
		_, status := observe(t, pod, state)
		merged := MergeStatus(&api, &status, time.Now())
		if got := [3]int32{merged.InitContainerStatuses[0].RestartCount, merged.ContainerStatuses[0].RestartCount, merged.ContainerStatuses[1].RestartCount}; got != want {
			t.Errorf("%s: counts %v, want %v", state, got, want)
		}
	}
}

func TestStatusIsStable(t *testing.T) {
	for _, state := range []string{"", "s0!", "s0! | a0@s0:run b0@s0:run", "s0! | a1@s0:run a0@s0:exit1 b0@s0:run", "s1! s0 | a1@s1:run b0@s0:exit137"} {
		pod := testPod(restartAlways)
		_, status := observe(t, pod, state)
		pod.Status = MergeStatus(&pod.Status, &status, t0)
		_, again := observe(t, pod, state)
		merged := MergeStatus(&pod.Status, &again, t0)
		if merged.String() != pod.Status.String() {
			t.Errorf("%s:\n%s\nbecame\n%s", state, pod.Status.String(), merged.String())
		}
	}
}

func TestMergeKeepsWhatOthersWrote(t *testing.T) {
	api := corev1.PodStatus{
		Phase: corev1.PodFailed, Reason: "Evicted", NominatedNodeName: "n",
		Conditions: []corev1.PodCondition{
			{Type: "theirs", Status: corev1.ConditionTrue},
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: Seconds(t0)},
		},
	}
	mine := corev1.PodStatus{
		Phase: corev1.PodRunning,
		Conditions: []corev1.PodCondition{
			{Type: "theirs", Status: corev1.ConditionFalse},
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: Seconds(t0.Add(backoffFirst))},
		},
	}
	got := MergeStatus(&api, &mine, t0)
	if got.Phase != corev1.PodFailed || got.Reason != "Evicted" || got.NominatedNodeName != "n" {
		t.Errorf("MergeStatus(&api, &mine, t0) = %v, want Failed, Evicted and nominated for n", &got)
	}
	if c := conditionOf(&got, "theirs"); c.Status != corev1.ConditionTrue {
		t.Errorf("MergeStatus(&api, &mine, t0) has the condition %+v, want theirs as it was, True", c)
	}
	if c := conditionOf(&got, corev1.PodReady); c.Status != corev1.ConditionTrue || !c.LastTransitionTime.Time.Equal(t0) {
		t.Errorf("MergeStatus(&api, &mine, t0) has the condition %+v, want Ready, True since %v: it did not turn", c, t0)
	}
}
