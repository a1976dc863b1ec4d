package lifecycle

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	t0     = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	always = corev1.ContainerRestartPolicyAlways
)

// pod makes a pod of containers a and b; inits are its init containers, those
// that begin with "side" being sidecars.
func testPod(policy corev1.RestartPolicy, inits ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u"}}
	p.Spec.RestartPolicy = policy
	p.Spec.Containers = []corev1.Container{{Name: "a", Image: "i"}, {Name: "b", Image: "i"}}
	for _, name := range inits {
		c := corev1.Container{Name: name, Image: "i"}
		if strings.HasPrefix(name, "side") {
			c.RestartPolicy = &always
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
	return p
}

// parse reads a state such as "s1! s0 | a1@s1:run a0@s0:exit3": sandboxes, of
// which those with a mark are ready, and containers with attempt, sandbox and
// phase, newest first. A container a1~1 is of round 1.
func parse(t *testing.T, text string) *State {
	t.Helper()
	left, right, _ := strings.Cut(text, "|")
	s := &State{}
	for _, f := range strings.Fields(left) {
		var n uint32
		if _, err := fmt.Sscanf(f, "s%d", &n); err != nil {
			t.Fatalf("the sandbox %q has no attempt: %v, want s and a number", f, err)
		}
		ready := strings.HasSuffix(f, "!")
		sandbox := Sandbox{ID: strings.TrimSuffix(f, "!"), Attempt: n, Ready: ready}
		if ready {
			sandbox.IPs = []string{"10.0.0.1"}
		}
		s.Sandboxes = append(s.Sandboxes, sandbox)
	}
	for _, f := range strings.Fields(right) {
		who, phase, _ := strings.Cut(f, ":")
		id, sandbox, _ := strings.Cut(who, "@")
		id, later, _ := strings.Cut(id, "~")
		name := strings.TrimRight(id, "0123456789")
		var attempt uint32
		if _, err := fmt.Sscanf(id[len(name):], "%d", &attempt); err != nil {
			t.Fatalf("the container %q has no attempt: %v, want a number after its name", f, err)
		}
		c := Container{ID: id, Name: name, Attempt: attempt, Sandbox: sandbox, Started: t0, Created: t0}
		if later != "" {
			if _, err := fmt.Sscanf(later, "%d", &c.Round); err != nil {
				t.Fatalf("the container %q has no round: %v, want a number after ~", f, err)
			}
			c.First = c.Round > 0
		}
		switch {
		case phase == "run":
			c.Phase = Running
		case phase == "new":
			c.Phase = Created
		case phase == "lost":
			c.Phase = Unknown
		default:
			c.Phase, c.Finished = Exited, t0
			if _, err := fmt.Sscanf(phase, "exit%d", &c.ExitCode); err != nil {
				t.Fatalf("the container %q has an unknown phase: %v, want run, new, lost, or exit and a number", f, err)
			}
		}
		s.Containers = append(s.Containers, c)
	}
	return s
}

// words writes a decision down in the order in which it is carried out.
func words(d Decision) string {
	var out []string
	for _, wave := range d.Stop {
		var ids []string
		for _, a := range wave {
			ids = append(ids, a.Container.ID)
		}
		out = append(out, "stop "+strings.Join(ids, "+"))
	}
	for _, id := range d.StopSandboxes {
		out = append(out, "stop "+id)
	}
	for _, id := range append(d.Remove, d.RemoveSandboxes...) {
		out = append(out, "remove "+id)
	}
	if d.CreateSandbox {
		out = append(out, fmt.Sprintf("create s%d", d.SandboxAttempt))
	}
	for _, a := range d.Start {
		what := fmt.Sprintf("start %s%d", a.Spec.Name, a.Attempt)
		if a.Round > 0 {
			what += fmt.Sprintf("~%d", a.Round)
		}
		out = append(out, what)
	}
	for _, name := range []string{"a", "b", "x", "y", "side"} {
		if w, ok := d.Waiting[name]; ok {
			out = append(out, name+" waits: "+w.Reason)
		}
	}
	if d.Finished {
		out = append(out, "finished")
	}
	return strings.Join(out, ", ")
}

const (
	restartAlways    = corev1.RestartPolicyAlways
	restartOnFailure = corev1.RestartPolicyOnFailure
	restartNever     = corev1.RestartPolicyNever
)

func TestPlan(t *testing.T) {
	for _, test := range []struct {
		name   string
		policy corev1.RestartPolicy
		inits  []string
		state  string
		want   string
	}{
		{"a new pod", restartAlways, nil, "", "create s0"},
		{"a sandbox is up", restartAlways, nil, "s0!", "start a0, start b0"},
		{"all is well", restartAlways, nil, "s0! | a0@s0:run b0@s0:run", ""},
		{"one crashed", restartAlways, nil, "s0! | a0@s0:exit1 b0@s0:run", "start a1"},
		{"one ended well", restartAlways, nil, "s0! | a0@s0:exit0 b0@s0:run", "start a1"},
		{"one ended well, on failure", restartOnFailure, nil, "s0! | a0@s0:exit0 b0@s0:run", ""},
		{"one crashed, on failure", restartOnFailure, nil, "s0! | a0@s0:exit1 b0@s0:run", "start a1"},
		{"one crashed, never", restartNever, nil, "s0! | a0@s0:exit1 b0@s0:run", ""},
		{"both ended, never", restartNever, nil, "s0! | a0@s0:exit1 b0@s0:exit0", "stop s0, finished"},
		{"both ended and the sandbox too", restartNever, nil, "s0 | a0@s0:exit1 b0@s0:exit0", "finished"},
		{"both ended well, on failure", restartOnFailure, nil, "s0! | a0@s0:exit0 b0@s0:exit0", "stop s0, finished"},

		{"the sandbox died", restartAlways, nil, "s0 | a0@s0:exit137 b0@s0:exit137", "create s1"},
		{"the sandbox died, something runs in it", restartAlways, nil, "s0 | a0@s0:run b0@s0:exit137", "stop a0"},
		{"a new sandbox after that", restartAlways, nil, "s1! s0 | a0@s0:exit137 b0@s0:exit137", "start a1, start b1"},
		{"the sandbox died, never", restartNever, nil, "s0 | a0@s0:exit137", "finished"},
		{"the sandbox died before anything ran, never", restartNever, nil, "s0", "create s1"},
		{"the sandbox died, one was done", restartOnFailure, nil, "s1! s0 | a0@s0:exit0 b0@s0:exit137", "start b1"},
		{"a late sandbox", restartAlways, nil, "s1! s0! | a0@s1:run b0@s1:run", "stop s0"},

		{"of the dead the newest is kept", restartAlways, nil, "s0! | a3@s0:run a2@s0:exit1 a1@s0:exit1 a0@s0:exit1 b0@s0:run", "remove a1, remove a0"},
		{"a dead sandbox goes with its last container", restartAlways, nil, "s2! s1 s0 | a1@s2:run b0@s2:run a0@s1:exit1", "remove s0"},
		{"created and never started", restartAlways, nil, "s0! | a0@s0:new b0@s0:run", "remove a0"},
		{"unknown", restartAlways, nil, "s0! | a0@s0:lost b0@s0:run", "stop a0"},

		{"first init container", restartAlways, []string{"x", "y"}, "s0!", "start x0"},
		{"first init container runs", restartAlways, []string{"x", "y"}, "s0! | x0@s0:run", ""},
		{"second init container", restartAlways, []string{"x", "y"}, "s0! | x0@s0:exit0", "start y0"},
		{"init containers are through", restartAlways, []string{"x", "y"}, "s0! | x0@s0:exit0 y0@s0:exit0", "start a0, start b0"},
		{"an init container failed", restartAlways, []string{"x", "y"}, "s0! | x0@s0:exit1", "start x1"},
		{"an init container failed, never", restartNever, []string{"x", "y"}, "s0! | x0@s0:exit1", "stop s0, finished"},
		{"init again in a new sandbox", restartAlways, []string{"x"}, "s1! s0 | x0@s0:exit0 a0@s0:exit137 b0@s0:exit137", "start x1"},
		{"init not again beside the main ones", restartAlways, []string{"x"}, "s0! | a0@s0:run b0@s0:run", ""},

		{"sidecar first", restartAlways, []string{"side", "x"}, "s0!", "start side0"},
		{"sidecar runs", restartAlways, []string{"side", "x"}, "s0! | side0@s0:run", "start x0"},
		{"sidecar died during init", restartAlways, []string{"side", "x"}, "s0! | side0@s0:exit1 x0@s0:run", "start side1"},
		{"sidecar died later", restartNever, []string{"side"}, "s0! | side0@s0:exit0 a0@s0:run b0@s0:run", "start side1"},
		{"sidecars stop last, in reverse", restartNever, []string{"side", "sidf", "sidecar"}, "s0! | side0@s0:run sidecar0@s0:run a0@s0:exit0 b0@s0:exit0", "stop sidecar0, stop side0, finished"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := Plan(testPod(test.policy, test.inits...), parse(t, test.state), NewMemory(), t0)
			if got := words(d); got != test.want {
				t.Errorf("%s\n got: %s\nwant: %s", test.state, got, test.want)
			}
		})
	}
}

func TestPlanBackOff(t *testing.T) {
	pod, m := testPod(restartAlways), NewMemory()
	state := parse(t, "s0! | a0@s0:exit1 b0@s0:run")
	now := t0
	// Free, 10, 20 ... 300 seconds, and 300 from then on.
	for _, seconds := range []int{0, 10, 20, 40, 80, 160, 300, 300} {
		state.Containers[0].Finished = now
		due := now.Add(time.Duration(seconds) * time.Second)
		if seconds > 0 {
			d := Plan(pod, state, m, due.Add(-1))
			if w := d.Waiting["a"]; w.Reason != "CrashLoopBackOff" || !d.Again.Equal(due) ||
				!strings.HasPrefix(w.Message, "back-off "+(time.Duration(seconds)*time.Second).String()+" restarting failed container=a pod=p_ns(u)") {
				t.Errorf("before %d s: %s %+v, again at %v", seconds, words(d), w, d.Again)
			}
		}
		if got := words(Plan(pod, state, m, due)); got != "start a1" {
			t.Errorf("after %d s: %s", seconds, got)
		}
		m.Restarts["a"] = m.Restarts["a"].Next(state.Containers[0].Finished, due)
		now = due
	}
	// It ran for long: the delay starts over.
	state.Containers[0].Finished = now.Add(backoffReset + time.Second)
	if got := words(Plan(pod, state, m, state.Containers[0].Finished)); got != "start a1" {
		t.Errorf("after a long run: %s", got)
	}
	if b := m.Restarts["a"].Next(state.Containers[0].Finished, now); b.delay != backoffFirst {
		t.Errorf("after a long run: %v", b.delay)
	}
}

func TestPlanSandboxAttempts(t *testing.T) {
	pod, m := testPod(restartAlways), NewMemory()
	m.SandboxAttempt = 4 // 0 to 3 are reserved by attempts that got no answer
	if got := words(Plan(pod, parse(t, ""), m, t0)); got != "create s4" {
		t.Error(got)
	}
	m.SandboxFailed = t0
	if d := Plan(pod, parse(t, ""), m, t0); words(d) != "" || !d.Again.Equal(t0.Add(retrySandbox)) {
		t.Errorf("just after a failure: %s, again at %v", words(d), d.Again)
	}
	lost := parse(t, "s0!")
	lost.Sandboxes[0].IPs = nil
	if got := words(Plan(pod, lost, NewMemory(), t0)); got != "stop s0" {
		t.Errorf("without an address: %s", got)
	}
	lost.Sandboxes[0].HostNetwork = true
	if got := words(Plan(pod, lost, NewMemory(), t0)); got != "start a0, start b0" {
		t.Errorf("on the host's network: %s", got)
	}
}

func TestPlanOver(t *testing.T) {
	state := parse(t, "s0! | a0@s0:run b0@s0:run")
	pod := testPod(restartAlways)
	pod.Status.Phase = corev1.PodFailed
	if got := words(Plan(pod, state, NewMemory(), t0)); got != "stop a0+b0, finished" {
		t.Errorf("a failed pod: %s", got)
	}
	pod = testPod(restartAlways)
	seconds := int64(60)
	pod.Spec.ActiveDeadlineSeconds = &seconds
	pod.Status.StartTime = &metav1.Time{Time: t0}
	if d := Plan(pod, state, NewMemory(), t0); words(d) != "" || !d.Again.Equal(t0.Add(time.Minute)) {
		t.Errorf("in time: %s, again at %v", words(d), d.Again)
	}
	if d := Plan(pod, state, NewMemory(), t0.Add(time.Minute)); words(d) != "stop a0+b0, finished" || d.reason != "DeadlineExceeded" {
		t.Errorf("overdue: %s %s", words(d), d.reason)
	}
}

func TestPlanImageChange(t *testing.T) {
	pod := testPod(restartAlways)
	state := parse(t, "s0! | a0@s0:run b0@s0:run")
	state.Containers[0].Spec = Fingerprint(&pod.Spec.Containers[0])
	if got := words(Plan(pod, state, NewMemory(), t0)); got != "" {
		t.Errorf("unchanged: %s", got)
	}
	pod.Spec.Containers[0].Image = "other"
	if got := words(Plan(pod, state, NewMemory(), t0)); got != "stop a0" {
		t.Errorf("changed: %s", got)
	}
}

// TestRecall: containers in the pod's status are not run again, and restart counts continue.
func TestRecall(t *testing.T) {
	status := corev1.ContainerStatus{Name: "a", ContainerID: "r://1", RestartCount: 4,
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 0}}}
	pod := testPod(restartOnFailure)
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{status}
	state := &State{}
	Recall(pod, state)
	if got := words(Plan(pod, state, NewMemory(), t0)); got != "create s0" {
		t.Errorf("b has not run: %s", got)
	}
	state.Sandboxes = parse(t, "s0!").Sandboxes
	if got := words(Plan(pod, state, NewMemory(), t0)); got != "start b0" {
		t.Errorf("a is done: %s", got)
	}
	pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	state.Containers = nil
	Recall(pod, state)
	if c := state.Containers[0]; c.ExitCode != 137 || c.Reason != reasonVanished {
		t.Errorf("vanished: %+v", c)
	}
	if got := words(Plan(pod, state, NewMemory(), t0)); got != "start a5, start b0" {
		t.Errorf("a vanished: %s", got)
	}
}

// TestPlanRejection: a pod that must not stay ends as a whole, with the reason and the grace period of
// its rejection, and nothing of it is started again.
func TestPlanRejection(t *testing.T) {
	m := NewMemory()
	m.Rejection = &Rejection{Reason: "Evicted", Message: "too large", Grace: new(int64), Disruption: true}
	pod := testPod(restartAlways, "side")
	state := parse(t, "s0! | a0@s0:run side0@s0:run b0@s0:exit1")
	d := Plan(pod, state, m, t0)
	if len(d.Stop) != 2 || d.Stop[0][0].Grace == nil || d.Stop[1][0].Grace == nil || len(d.Start) > 0 || !d.Finished {
		t.Errorf("Plan = %s with the stops %+v, want two waves with a grace period each, no start, and finished", words(d), d.Stop)
	}
	// It has failed only once its containers have stopped; until then its node is not free.
	for text, want := range map[string]corev1.PodStatus{
		"s0! | a0@s0:run side0@s0:run b0@s0:exit1":       {Phase: corev1.PodRunning},
		"s0! | a0@s0:exit137 side0@s0:run b0@s0:exit1":   {Phase: corev1.PodRunning},
		"s0! | a0@s0:exit137 side0@s0:exit0 b0@s0:exit1": {Phase: corev1.PodFailed, Reason: "Evicted", Message: "too large"},
	} {
		pod.Status.Phase = corev1.PodRunning
		state := parse(t, text)
		o := Observation{Pod: pod, State: state, Decision: Plan(pod, state, m, t0), Now: t0}
		status := o.Status()
		c := findCondition(&status, corev1.DisruptionTarget)
		if status.Phase != want.Phase || status.Reason != want.Reason || status.Message != want.Message ||
			(c != nil) != (want.Phase == corev1.PodFailed) || c != nil && (c.Status != corev1.ConditionTrue || c.Reason != "TerminationByKubelet" || c.Message != "too large") {
			t.Errorf("%s: the status is %s, %q, %q, %v; want %s, %q, %q, and only if Failed DisruptionTarget (TerminationByKubelet, too large)",
				text, status.Phase, status.Reason, status.Message, c, want.Phase, want.Reason, want.Message)
		}
	}
	m.Rejection.DisruptionMessage = "room for another one"
	state = parse(t, "s0! | a0@s0:exit137 side0@s0:exit0 b0@s0:exit1")
	o := Observation{Pod: pod, State: state, Decision: Plan(pod, state, m, t0), Now: t0}
	status := o.Status()
	if c := conditionOf(&status, corev1.DisruptionTarget); c.Status != corev1.ConditionTrue || c.Message != "room for another one" {
		t.Errorf("DisruptionTarget in the status is %+v, want True and the message \"room for another one\"", c)
	}
	for _, text := range []string{"", "s0! |", "s0! | a0@s0:exit0 b0@s0:exit1", "s0 | a0@s0:exit0"} {
		if d := Plan(pod, parse(t, text), m, t0); d.CreateSandbox || len(d.Start) > 0 || !d.Finished {
			t.Errorf("Plan(%q) = %s, want no sandbox, no start, and finished", text, words(d))
		}
	}
}

// TestRefused: a pod that the node has not admitted has failed, also after a restart, with no status
// of a container that never was.
func TestRefused(t *testing.T) {
	m := NewMemory()
	m.Rejection = &Rejection{Reason: "OutOfcpu", Message: "Pod was rejected: too large", Refused: true}
	pod := testPod(restartAlways, "side")
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
	for range 2 {
		state := parse(t, "")
		o := Observation{Pod: pod, State: state, Decision: Plan(pod, state, m, t0), Now: t0, HostIPs: []string{"192.0.2.1"}}
		s := o.Status()
		if s.Phase != corev1.PodFailed || s.Reason != "OutOfcpu" || s.Message != "Pod was rejected: too large" || s.StartTime == nil ||
			len(s.ContainerStatuses)+len(s.InitContainerStatuses) > 0 || len(s.Conditions) != 1 || s.HostIP != "" || s.QOSClass != corev1.PodQOSBestEffort {
			t.Errorf("the status is %v, want Failed, OutOfcpu, a start time, no container, one condition, no host IP, BestEffort", &s)
		}
		pod.Status, m = s, NewMemory()
	}
}

// TestPlanEphemeral: an ephemeral container is started once, in the processes of its target when that
// runs, and its end changes nothing of the pod.
func TestPlanEphemeral(t *testing.T) {
	pod := testPod(restartAlways)
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{
		{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "free", Image: "i"}},
		{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "bound", Image: "i"}, TargetContainerName: "a"},
	}
	for state, want := range map[string]string{
		"s0! | a0@s0:run b0@s0:run":                                            "free0 bound0>a0",
		"s0! | b0@s0:run a0@s0:exit1":                                          "free0 a1",
		"s0! | a0@s0:run b0@s0:run free0@s0:run":                               "bound0>a0",
		"s0! | a0@s0:run b0@s0:run free0@s0:exit1 bound0@s0:run":               "",
		"s1! s0 | a1@s1:run b1@s1:run free0@s0:exit0 bound0@s0:exit137":        "",
		"s0! | a0@s0:run b0@s0:run free0@s0:exit0 bound0@s0:exit1 a0@s0:exit1": "",
	} {
		d := Plan(pod, parse(t, state), NewMemory(), t0)
		var got []string
		for _, a := range d.Start {
			text := fmt.Sprint(a.Spec.Name, a.Attempt)
			if a.Target != "" {
				text += ">" + a.Target
			}
			got = append(got, text)
		}
		if strings.Join(got, " ") != want || d.Finished {
			t.Errorf("%s: starts %v, want %s", state, got, want)
		}
	}
	// It does not keep a pod from ending.
	pod.Spec.RestartPolicy = restartNever
	state := parse(t, "s0! | a0@s0:exit0 b0@s0:exit0 free0@s0:run")
	if d := Plan(pod, state, NewMemory(), t0); !d.Finished || len(d.Stop) != 1 {
		t.Errorf("Plan while only an ephemeral container runs = %s, want one wave of stops, and finished", words(d))
	}
}

func TestEphemeralStatus(t *testing.T) {
	pod := testPod(restartAlways)
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "i"}}}
	status := func(text string) corev1.PodStatus {
		state := parse(t, text)
		Recall(pod, state)
		o := Observation{Pod: pod, State: state, Decision: Plan(pod, state, NewMemory(), t0), Now: t0, Runtime: "r"}
		return o.Status()
	}
	one := func(s corev1.PodStatus) corev1.ContainerStatus {
		t.Helper()
		if len(s.EphemeralContainerStatuses) != 1 || s.Phase != corev1.PodRunning || conditionOf(&s, corev1.PodReady).Status != corev1.ConditionTrue {
			t.Fatalf("the status is %v, want one ephemeral container, Running and Ready", &s)
		}
		return s.EphemeralContainerStatuses[0]
	}
	if s := one(status("s0! | a0@s0:run b0@s0:run")); s.State.Waiting == nil || s.Started != nil || s.Ready {
		t.Errorf("before it starts: %+v", s)
	}
	if s := one(status("s0! | a0@s0:run b0@s0:run debug0@s0:run")); s.State.Running == nil || s.Ready || s.ContainerID != "r://debug0" {
		t.Errorf("running: %+v", s)
	}
	pod.Status = status("s0! | a0@s0:run b0@s0:run debug0@s0:exit3")
	if s := one(pod.Status); s.State.Terminated == nil || s.State.Terminated.ExitCode != 3 {
		t.Errorf("ended: %+v", s)
	}
	if s := one(status("s0! | a0@s0:run b0@s0:run")); s.State.Terminated == nil || s.State.Terminated.ExitCode != 3 {
		t.Errorf("ended and removed: %+v", s)
	}
}

// TestPlanRestartRules: a container's own policy and rules come before the pod's policy.
func TestPlanRestartRules(t *testing.T) {
	own := func(policy corev1.ContainerRestartPolicy) *corev1.ContainerRestartPolicy { return &policy }
	rule := func(operator corev1.ContainerRestartRuleOnExitCodesOperator, codes ...int32) []corev1.ContainerRestartRule {
		return []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestart,
			ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: operator, Values: codes}}}
	}
	const in, notIn = corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn
	for _, test := range []struct {
		pod      corev1.RestartPolicy
		own      *corev1.ContainerRestartPolicy
		rules    []corev1.ContainerRestartRule
		code     int
		again    bool
		finished bool // when the other container has succeeded
	}{
		{restartNever, nil, nil, 1, false, true},
		{restartNever, own("OnFailure"), nil, 1, true, false},
		{restartNever, own("OnFailure"), nil, 0, false, true},
		{restartNever, own("Always"), nil, 0, true, false},
		{restartNever, own("Never"), rule(in, 42), 42, true, false},
		{restartNever, own("Never"), rule(in, 42), 1, false, true},
		{restartNever, own("Never"), rule(notIn, 1, 2), 3, true, false},
		{restartNever, own("Never"), rule(notIn, 1, 2), 2, false, true},
		{restartAlways, own("Never"), nil, 1, false, false},
		{restartOnFailure, own("Never"), rule(in, 3), 5, false, true},
	} {
		pod := testPod(test.pod)
		pod.Spec.Containers[0].RestartPolicy, pod.Spec.Containers[0].RestartPolicyRules = test.own, test.rules
		state := parse(t, fmt.Sprintf("s0! | a0@s0:exit%d b0@s0:run", test.code))
		d := Plan(pod, state, NewMemory(), t0)
		if again := len(d.Start) == 1 && d.Start[0].Spec.Name == "a"; again != test.again || d.Finished {
			t.Errorf("%+v: Plan = %s, starts a again: %v; want %v, and not finished", test, words(d), again, test.again)
		}
		state = parse(t, fmt.Sprintf("s0! | a0@s0:exit%d b0@s0:exit0", test.code))
		if d := Plan(pod, state, NewMemory(), t0); d.Finished != test.finished {
			t.Errorf("%+v, both ended: %s", test, words(d))
		}
		// The same in a sandbox that died.
		state = parse(t, fmt.Sprintf("s0 | a0@s0:exit%d b0@s0:exit0", test.code))
		if d := Plan(pod, state, NewMemory(), t0); d.Finished != test.finished || d.CreateSandbox == test.finished {
			t.Errorf("%+v, in a dead sandbox: %s", test, words(d))
		}
	}
	// An init container that may not run again fails the pod.
	pod := testPod(restartAlways, "x")
	pod.Spec.InitContainers[0].RestartPolicy = own("Never")
	if d := Plan(pod, parse(t, "s0! | x0@s0:exit1"), NewMemory(), t0); !d.Finished || d.Initialized {
		t.Errorf("init container: %s", words(d))
	}
	pod.Spec.InitContainers[0].RestartPolicyRules = rule(in, 1)
	if d := Plan(pod, parse(t, "s0! | x0@s0:exit1"), NewMemory(), t0); d.Finished || len(d.Start) != 1 {
		t.Errorf("init container with a rule: %s", words(d))
	}
}
