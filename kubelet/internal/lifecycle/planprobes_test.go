package lifecycle

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/planekit/planekit/kubelet/probe"
)

func TestPlanUnhealthyContainers(t *testing.T) {
	grace := int64(7)
	for _, test := range []struct {
		name, state string
		policy      corev1.RestartPolicy
		failed      map[string]probe.State
		stopped     map[string]string
		want        string
		message     string
	}{
		{name: "liveness", policy: restartAlways, state: "s0! | a0@s0:run b0@s0:run",
			failed: map[string]probe.State{"a": {Unhealthy: &probe.Unhealthy{Kind: probe.Liveness, Grace: &grace}}},
			want:   "stop a0", message: "Container a failed liveness probe, will be restarted"},
		{name: "startup", policy: restartOnFailure, state: "s0! | a0@s0:run b0@s0:run",
			failed: map[string]probe.State{"a": {Unhealthy: &probe.Unhealthy{Kind: probe.Startup, Grace: &grace}}},
			want:   "stop a0", message: "Container a failed startup probe, will be restarted"},
		{name: "never", policy: restartNever, state: "s0! | a0@s0:run b0@s0:run",
			failed: map[string]probe.State{"a": {Unhealthy: &probe.Unhealthy{Kind: probe.Liveness, Grace: &grace}}},
			want:   "stop a0", message: "Container a failed liveness probe"},
		{name: "stopped, on failure", policy: restartOnFailure, state: "s0! | a0@s0:exit0 b0@s0:run",
			stopped: map[string]string{"a": "a0"}, want: "start a1"},
		{name: "another stopped, on failure", policy: restartOnFailure, state: "s0! | a1@s0:exit0 b0@s0:run",
			stopped: map[string]string{"a": "a0"}, want: ""},
		{name: "both ended, one stopped", policy: restartOnFailure, state: "s0! | a0@s0:exit0 b0@s0:exit0",
			stopped: map[string]string{"a": "a0"}, want: "start a1"},
		{name: "stopped, never", policy: restartNever, state: "s0! | a0@s0:exit0 b0@s0:run",
			stopped: map[string]string{"a": "a0"}, want: ""},
	} {
		state, m := parse(t, test.state), NewMemory()
		state.Probes = test.failed
		if test.stopped != nil {
			m.Unhealthy = test.stopped
		}
		d := Plan(testPod(test.policy), state, m, t0)
		if got := words(d); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
		if test.message == "" || len(d.Stop) == 0 {
			continue
		}
		if action := d.Stop[0][0]; action.Message != test.message || *action.Grace != grace || !action.Unhealthy {
			t.Errorf("%s: %+v, want the message %q", test.name, action, test.message)
		}
	}
}

// Main containers wait until the sidecars have started, in the sense of their startup probes.
func TestPlanSidecarWithStartupProbe(t *testing.T) {
	pod := testPod(restartAlways, "side")
	pod.Spec.InitContainers[0].StartupProbe = &corev1.Probe{}
	state := parse(t, "s0! | side0@s0:run")
	if got := words(Plan(pod, state, NewMemory(), t0)); got != "" {
		t.Errorf("before its probe has succeeded: %s", got)
	}
	state.Probes = map[string]probe.State{"side": {Started: true}}
	if got := words(Plan(pod, state, NewMemory(), t0)); got != "start a0, start b0" {
		t.Errorf("after its probe has succeeded: %s", got)
	}
}
