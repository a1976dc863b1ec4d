package lifecycle

import (
	"testing"
	"time"
)

// TestPlanStartError: the reason why a container did not start is shown before the backoff.
func TestPlanStartError(t *testing.T) {
	pod, m := testPod(restartAlways), NewMemory()
	state := parse(t, "s0! | a1@s0:exit1 b0@s0:run")
	state.Containers[0].Finished = t0
	m.Restarts["a"] = m.Restarts["a"].Next(t0, t0)
	m.Starts["a"] = StartFailure{At: t0, Sandbox: "s0", Reason: "PostStartHookError", Message: "no"}
	for after, want := range map[time.Duration]string{
		0: "a waits: PostStartHookError", showStartError - 1: "a waits: PostStartHookError", showStartError: "a waits: CrashLoopBackOff",
	} {
		if got := words(Plan(pod, state, m, t0.Add(after))); got != want {
			t.Errorf("after %v: %s, want %s", after, got, want)
		}
	}
	m.Starts["a"] = StartFailure{At: t0, Sandbox: "another", Reason: "PostStartHookError", Message: "no"}
	if got := words(Plan(pod, state, m, t0)); got != "a waits: CrashLoopBackOff" {
		t.Errorf("in another sandbox: %s", got)
	}
}

func TestPlanPullBackOff(t *testing.T) {
	pod, m := testPod(restartAlways), NewMemory()
	state := parse(t, "s0! | b0@s0:run")
	m.Pulls["a"] = PullFailure{Image: "i", Failed: t0, Reason: "ErrImagePull", Message: "no", Backoff: Backoff{}.Next(t0, t0)}
	for _, test := range []struct {
		after time.Duration
		want  string
	}{
		{0, "a waits: ErrImagePull"}, {showPullError, "a waits: ImagePullBackOff"},
		{backoffFirst - 1, "a waits: ImagePullBackOff"}, {backoffFirst, "start a0"},
	} {
		if got := words(Plan(pod, state, m, t0.Add(test.after))); got != test.want {
			t.Errorf("after %v: %s, want %s", test.after, got, test.want)
		}
	}
	pod.Spec.Containers[0].Image = "other"
	if got := words(Plan(pod, state, m, t0)); got != "start a0" {
		t.Errorf("with another image: %s", got)
	}
}

func TestPlanHoldsAfterStartFailure(t *testing.T) {
	pod, m := testPod(restartAlways), NewMemory()
	m.Starts["a"] = StartFailure{At: t0, Sandbox: "s0", Reason: "CreateContainerError"}
	if got := words(Plan(pod, parse(t, "s0! | b0@s0:run"), m, t0)); got != "a waits: CreateContainerError" {
		t.Error(got)
	}
	if got := words(Plan(pod, parse(t, "s1! s0 | b0@s1:run"), m, t0)); got != "remove s0, start a0" {
		t.Errorf("in another sandbox: %s", got)
	}
}

// TestClockSetBack: a container that seems to have failed in the future waits no longer than its backoff.
func TestClockSetBack(t *testing.T) {
	pod, m := testPod(restartAlways), NewMemory()
	state := parse(t, "s0! | a1@s0:exit1 b0@s0:run")
	state.Containers[0].Finished = t0
	m.Restarts["a"] = m.Restarts["a"].Next(t0, t0)
	for back, want := range map[time.Duration]string{
		time.Second: "a waits: CrashLoopBackOff", backoffFirst: "a waits: CrashLoopBackOff",
		backoffFirst + time.Second: "start a2", time.Hour: "start a2",
	} {
		if got := words(Plan(pod, state, m, t0.Add(-back))); got != want {
			t.Errorf("Plan after the clock was set back by %v: %s, want %s", back, got, want)
		}
	}
}
