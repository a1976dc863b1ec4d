package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

const restartAllCode = 42

// restartAllOn makes the end of a container with a code restart all containers. Without a policy of its own,
// it is never restarted for another reason.
func restartAllOn(c *corev1.Container, code int32) {
	never := corev1.ContainerRestartPolicyNever
	if c.RestartPolicy == nil {
		c.RestartPolicy = &never
	}
	c.RestartPolicyRules = []corev1.ContainerRestartRule{{
		Action: corev1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
			Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{code},
		},
	}}
}

// checkSettled fails if a settled pod has more rounds than its containers have ended, or fewer.
func (w *world) checkSettled(d Decision) {
	if round := w.state.round(); w.rounds[round] && !d.Finished {
		for i := range w.pod.Spec.Containers {
			if c := w.state.latest(w.pod.Spec.Containers[i].Name); endsRound(&w.pod.Spec.Containers[i], c) && c.Round == round {
				w.fail("%s has ended round %d", c.ID, round)
			}
		}
	}
}

// TestPlanRestartAll: each state is one in which a kubelet may find the pod, also one that has just started.
func TestPlanRestartAll(t *testing.T) {
	for _, test := range []struct {
		name, state, want string
	}{
		{"all run", "s0! | a0@s0:run b0@s0:run side0@s0:run x0@s0:exit0", ""},
		{"another code", "s0! | a0@s0:exit1 b0@s0:run side0@s0:run x0@s0:exit0", ""},
		{"the code", "s0! | a0@s0:exit42 b0@s0:run side0@s0:run x0@s0:exit0", "stop b0, stop side0"},
		{"a main container is stopped", "s0! | a0@s0:exit42 b0@s0:exit143 side0@s0:run x0@s0:exit0", "stop side0"},
		{"all are stopped", "s0! | a0@s0:exit42 b0@s0:exit143 side0@s0:exit0 x0@s0:exit0", "start x1~1"},
		{"one was never started", "s0! | a0@s0:exit42 b0@s0:new side0@s0:exit0 x0@s0:exit0", "remove b0, start x1~1"},
		{"one is lost from sight", "s0! | a0@s0:exit42 b0@s0:lost side0@s0:exit0 x0@s0:exit0", "stop b0"},
		{"init runs again", "s0! | x1~1@s0:run a0@s0:exit42 b0@s0:exit143 side0@s0:exit0 x0@s0:exit0", ""},
		{"init is created again", "s0! | x1~1@s0:new a0@s0:exit42 b0@s0:exit143 side0@s0:exit0 x0@s0:exit0", "remove x1"},
		{"init has failed", "s0! | x1~1@s0:exit1 a0@s0:exit42 b0@s0:exit143 side0@s0:exit0", "stop s0, finished"},
		{"init has succeeded", "s0! | x1~1@s0:exit0 a0@s0:exit42 b0@s0:exit143 side0@s0:exit0", "start side1~1"},
		{"the sidecar runs", "s0! | x1~1@s0:exit0 side1~1@s0:run a0@s0:exit42 b0@s0:exit143", "start a1~1, start b1~1"},
		{"all run again", "s0! | a1~1@s0:run b1~1@s0:run side1~1@s0:run x1~1@s0:exit0 a0@s0:exit42", ""},
		{"the other has ended", "s0! | a1~1@s0:run b1~1@s0:exit0 side1~1@s0:run x1~1@s0:exit0 a0@s0:exit42", ""},
		{"the code again", "s0! | a1~1@s0:exit42 b1~1@s0:exit0 side1~1@s0:run x1~1@s0:exit0 a0@s0:exit42", "remove a0, stop side1"},
		{"both have ended", "s0! | a1~1@s0:exit0 b1~1@s0:exit0 side1~1@s0:exit0 x1~1@s0:exit0", "stop s0, finished"},
		{"the sidecar ends the round", "s0! | a0@s0:run b0@s0:run side0@s0:exit42 x0@s0:exit0", "stop a0+b0"},
		{"init ends the round", "s0! | x0@s0:exit42", "start x1~1"},
		{"the sandbox has died", "s0 | a0@s0:exit42 b0@s0:exit137 side0@s0:exit137 x0@s0:exit0", "create s1"},
		{"a new sandbox", "s1! s0 | a0@s0:exit42 b0@s0:exit137 side0@s0:exit137 x0@s0:exit0", "start x1~1"},
		{"the debugger goes on", "s0! | a0@s0:exit42 b0@s0:exit143 side0@s0:exit0 x0@s0:exit0 debug0@s0:run", "start x1~1"},
	} {
		pod := testPod(restartNever, "x", "side")
		for _, c := range []*corev1.Container{&pod.Spec.InitContainers[0], &pod.Spec.InitContainers[1], &pod.Spec.Containers[0]} {
			restartAllOn(c, restartAllCode)
		}
		if test.name == "the debugger goes on" {
			pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}}}
		}
		state := parse(t, test.state)
		d := Plan(pod, state, NewMemory(), t0)
		// The order of the list of actions is that of their execution, except for removals.
		if got := words(d); !sameWords(got, test.want) {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
		for _, wave := range d.Stop {
			for _, a := range wave {
				if !d.Finished && (a.Message != "killing" || !a.SkipHook || a.Grace == nil || *a.Grace != 0) {
					t.Errorf("%s: Plan has the stop %+v, want the message killing, no hook and a grace of 0", test.name, a)
				}
			}
		}
	}
}

// A restart of all containers has no backoff; the restart of one within the round does.
func TestPlanRestartAllBackOff(t *testing.T) {
	pod, m := testPod(restartAlways), NewMemory()
	restartAllOn(&pod.Spec.Containers[0], restartAllCode)
	always := corev1.ContainerRestartPolicyAlways
	pod.Spec.Containers[0].RestartPolicy = &always
	m.Restarts["a"] = m.Restarts["a"].Next(t0, t0)
	if got := words(Plan(pod, parse(t, "s0! | a0@s0:exit42 b0@s0:exit143"), m, t0)); got != "start a1~1, start b1~1" {
		t.Error(got)
	}
	if got := words(Plan(pod, parse(t, "s0! | a1~1@s0:exit1 b1~1@s0:run"), m, t0)); got != "a waits: CrashLoopBackOff" {
		t.Error(got)
	}
}

// A rule that comes first is the one that counts.
func TestRestartAllFirstRule(t *testing.T) {
	pod := testPod(restartNever)
	restartAllOn(&pod.Spec.Containers[0], restartAllCode)
	rules := &pod.Spec.Containers[0].RestartPolicyRules
	first := *(*rules)[0].DeepCopy()
	first.Action = corev1.ContainerRestartRuleActionRestart
	*rules = append([]corev1.ContainerRestartRule{first}, *rules...)
	if got := words(Plan(pod, parse(t, "s0! | a0@s0:exit42 b0@s0:run"), NewMemory(), t0)); got != "start a1" {
		t.Error(got)
	}
}

// A runtime that has lost all containers of a pod has its statuses in the API: the end in them counts. An old
// status does not restart containers that run.
func TestRestartAllRecalled(t *testing.T) {
	ended := func(name string, code int32) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, ContainerID: "r://" + name + "0", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: code},
		}}
	}
	pod := testPod(restartNever, "x")
	restartAllOn(&pod.Spec.Containers[0], restartAllCode)
	pod.Status.Phase = corev1.PodRunning
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{ended("x", 0)}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{ended("a", restartAllCode), ended("b", 143)}
	for state, want := range map[string]string{
		"":                            "create s0",
		"s1!":                         "start x1~1",
		"s1! | x1~1@s1:run":           "",
		"s1! | x1~1@s1:exit0":         "start a1~1, start b1~1",
		"s0! | a1@s0:run x0@s0:exit0": "",
	} {
		s := parse(t, state)
		Recall(pod, s)
		if got := words(Plan(pod, s, NewMemory(), t0)); got != want {
			t.Errorf("%q: %s, want %s", state, got, want)
		}
	}
}

// TestRestartAllStatus follows a pod through a restart of all its containers.
func TestRestartAllStatus(t *testing.T) {
	pod := testPod(restartNever, "x")
	restartAllOn(&pod.Spec.Containers[0], restartAllCode)
	for _, step := range []struct {
		state string
		phase corev1.PodPhase
		is    corev1.ConditionStatus
		a, b  string
		count int32
	}{
		{"s0! | x0@s0:run", corev1.PodPending, corev1.ConditionFalse, "PodInitializing", "PodInitializing", 0},
		{"s0! | a0@s0:run b0@s0:run x0@s0:exit0", corev1.PodRunning, corev1.ConditionFalse, "runs", "runs", 0},
		{"s0! | a0@s0:exit42 b0@s0:run x0@s0:exit0", corev1.PodRunning, corev1.ConditionTrue, "exit 42", "runs", 0},
		{"s0! | a0@s0:exit42 b0@s0:run x0@s0:exit0", corev1.PodRunning, corev1.ConditionTrue, "exit 42", "runs", 0},
		{"s0! | x1~1@s0:run a0@s0:exit42 b0@s0:exit143 x0@s0:exit0", corev1.PodPending, corev1.ConditionFalse, "RestartingAllContainers", "RestartingAllContainers", 1},
		{"s0! | x1~1@s0:exit0 a1~1@s0:run a0@s0:exit42 b0@s0:exit143 x0@s0:exit0", corev1.PodRunning, corev1.ConditionFalse, "runs", "RestartingAllContainers", 1},
		{"s0! | x1~1@s0:exit0 a1~1@s0:run b1~1@s0:run a0@s0:exit42 b0@s0:exit143", corev1.PodRunning, corev1.ConditionFalse, "runs", "runs", 1},
	} {
		s := parse(t, step.state)
		o := Observation{Pod: pod, State: s, Decision: Plan(pod, s, NewMemory(), t0), Now: t0, Runtime: "r"}
		status := o.Status()
		c := findCondition(&status, corev1.AllContainersRestarting)
		if c == nil || c.Status != step.is || status.Phase != step.phase {
			t.Fatalf("%s: the status has phase %s, AllContainersRestarting %v; want %s, %s",
				step.state, status.Phase, c, step.phase, step.is)
		}
		if step.is == corev1.ConditionTrue && (c.Reason != "RestartAllContainersStarted" || c.Message != "container exited with restart policy rule") {
			t.Errorf("%s: AllContainersRestarting is %v, want RestartAllContainersStarted, \"container exited with restart policy rule\"",
				step.state, c)
		}
		for i, want := range []string{step.a, step.b} {
			got := status.ContainerStatuses[i]
			if describe(&got) != want || got.RestartCount != step.count {
				t.Errorf("%s: %s is %s after %d restarts, want %s after %d", step.state, got.Name, describe(&got), got.RestartCount, want, step.count)
			}
			last := got.LastTerminationState.Terminated
			if step.count > 0 && (last == nil || last.Reason != "RestartingAllContainers" || last.ExitCode != 137 || last.ContainerID != "") {
				t.Errorf("%s: %s ended: %+v", step.state, got.Name, last)
			}
		}
		if step.count > 0 && conditionOf(&status, corev1.PodInitialized).Status != corev1.ConditionTrue {
			t.Errorf("%s: the pod is not initialized any more", step.state)
		}
		pod = pod.DeepCopy()
		pod.Status = MergeStatus(&pod.Status, &status, t0)
	}
	pod.Spec.Containers[0].RestartPolicyRules = nil
	pod.Status = corev1.PodStatus{}
	s := parse(t, "s0! | a0@s0:run b0@s0:run x0@s0:exit0")
	o := Observation{Pod: pod, State: s, Decision: Plan(pod, s, NewMemory(), t0), Now: t0}
	if status := o.Status(); findCondition(&status, corev1.AllContainersRestarting) != nil {
		t.Error("a pod without such a rule has the condition")
	}
}

// describe says what a container does, or why it waits.
func describe(c *corev1.ContainerStatus) string {
	switch {
	case c.State.Running != nil:
		return "runs"
	case c.State.Waiting != nil:
		return c.State.Waiting.Reason
	}
	return fmt.Sprintf("exit %d", c.State.Terminated.ExitCode)
}

// sameWords reports whether two descriptions have the same parts in any order.
func sameWords(a, b string) bool {
	x, y := strings.Split(a, ", "), strings.Split(b, ", ")
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}
