package lifecycle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// world is a runtime with one pod in it, to which decisions and accidents
// happen.
type world struct {
	t       *testing.T
	pod     *corev1.Pod
	state   State
	memory  *Memory
	now     time.Time
	random  *rand.Rand
	used    map[string]bool // names of containers and sandboxes ever made
	starts  map[string]int
	rounds  map[uint32]bool // that a container has ended
	history []string

	walk
}

// newWorld returns a world with a new pod.
func newWorld(t *testing.T, seed uint64, policy corev1.RestartPolicy, random *rand.Rand, inits ...string) *world {
	w := &world{t: t, pod: testPod(policy, inits...), memory: NewMemory(), now: t0, random: random, used: map[string]bool{}, starts: map[string]int{}, rounds: map[uint32]bool{}, walk: newWalk()}
	w.randomRules()
	w.history = append(w.history, fmt.Sprintf("seed %d policy %s inits %v", seed, policy, inits))
	return w
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	for _, line := range w.history[max(0, len(w.history)-12):] {
		w.t.Log(line)
	}
	w.t.Fatalf(w.history[0]+": "+format, args...)
}

// step carries out what plan says and checks it against what must never happen.
func (w *world) step() Decision {
	d := Plan(w.pod, &w.state, w.memory, w.now)
	w.plans++
	w.history = append(w.history, fmt.Sprintf("%v %v => %s", w.now.Sub(t0), w.state, words(d)))
	w.checkDecision(d)
	for _, wave := range d.Stop {
		for _, a := range wave {
			c := w.container(a.Container.ID)
			if c == nil {
				w.fail("stops %s, which is not there", a.Container.ID)
			}
			w.end(c, 143)
		}
	}
	for _, id := range d.StopSandboxes {
		w.stopSandbox(id)
	}
	for _, id := range d.Remove {
		if c := w.container(id); c == nil || c.Phase == Running {
			w.fail("removes %s", id)
		}
		w.state.Containers = slices.DeleteFunc(w.state.Containers, func(c Container) bool { return c.ID == id })
	}
	for _, id := range d.RemoveSandboxes {
		w.state.Sandboxes = slices.DeleteFunc(w.state.Sandboxes, func(s Sandbox) bool { return s.ID == id })
		for _, c := range w.state.Containers {
			if c.Sandbox == id {
				w.fail("removes sandbox %s with %s in it", id, c.ID)
			}
		}
	}
	if d.CreateSandbox {
		w.create(d)
	}
	if len(d.Start) > 0 && d.Changes() {
		return d // carried out the next time
	}
	for _, a := range d.Start {
		w.start(a)
	}
	return d
}

func (w *world) create(d Decision) {
	for _, s := range w.state.Sandboxes {
		if s.Ready {
			w.fail("a second sandbox beside %s", s.ID)
		}
	}
	if w.state.Running() > 0 {
		w.fail("a new sandbox while something runs")
	}
	id := fmt.Sprintf("s%d", d.SandboxAttempt)
	if w.used[id] {
		w.fail("sandbox %s a second time", id)
	}
	w.used[id] = true
	if w.random.IntN(4) == 0 {
		w.memory.SandboxFailed, w.memory.SandboxAttempt = w.now, d.SandboxAttempt+1
		return
	}
	w.state.Sandboxes = slices.Insert(w.state.Sandboxes, 0, Sandbox{ID: id, Attempt: d.SandboxAttempt, Ready: true, IPs: []string{"10.0.0.1"}})
}

func (w *world) start(a StartAction) {
	sandbox := w.state.Sandbox()
	if sandbox == nil {
		w.fail("starts %s in no sandbox", a.Spec.Name)
	}
	id := fmt.Sprintf("%s%d", a.Spec.Name, a.Attempt)
	if w.used[id] {
		w.fail("container %s a second time", id)
	}
	for _, c := range w.state.Containers {
		if c.Name == a.Spec.Name && c.Phase == Running {
			w.fail("starts %s beside %s", id, c.ID)
		}
	}
	w.checkRound(a)
	w.checkBackoff(a)
	if w.failsToStart(a, sandbox.ID) {
		return
	}
	main := slices.ContainsFunc(w.pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == a.Spec.Name })
	w.starts[fmt.Sprint(a.Spec.Name, a.Round)]++
	if w.pod.Spec.RestartPolicy == restartNever && !IsSidecar(a.Spec) && w.starts[fmt.Sprint(a.Spec.Name, a.Round)] > 1 && (main || !restartsAll(&w.pod.Spec)) {
		w.fail("starts %s again in a pod that is never restarted", id)
	}
	for i := range w.pod.Spec.InitContainers {
		before := &w.pod.Spec.InitContainers[i]
		if before.Name == a.Spec.Name || w.ephemeral(a.Spec.Name) {
			break
		}
		c := w.state.LatestIn(sandbox.ID, before.Name)
		mainRan := slices.ContainsFunc(w.state.Containers, func(c Container) bool {
			return c.Sandbox == sandbox.ID && (c.Name == "a" || c.Name == "b") && c.Round == a.Round
		})
		done := c != nil && c.Round == a.Round && (IsSidecar(before) && c.Phase == Running || !IsSidecar(before) && c.Phase == Exited && c.ExitCode == 0)
		if !done && !mainRan && (main || !IsSidecar(a.Spec)) {
			w.fail("starts %s before %s is through", id, before.Name)
		}
	}
	w.used[id] = true
	if !a.Failed.IsZero() {
		w.memory.Restarts[a.Spec.Name] = w.memory.Restarts[a.Spec.Name].Next(a.Failed, w.now)
		w.restarts[a.Spec.Name] = w.restarts[a.Spec.Name].next(a.Failed, w.now)
	}
	w.state.Containers = slices.Insert(w.state.Containers, 0, Container{
		ID: id, Name: a.Spec.Name, Attempt: a.Attempt, Round: a.Round, First: a.First, Sandbox: sandbox.ID, Phase: Running, Started: w.now, Created: w.now,
	})
}

// checkRound fails if a container is started in a round that no container has begun by its end, or while one
// of an earlier round runs.
func (w *world) checkRound(a StartAction) {
	if a.Round > 0 && !w.rounds[a.Round-1] {
		w.fail("starts %s in round %d", a.Spec.Name, a.Round)
	}
	for _, c := range w.state.Containers {
		if c.Phase == Running && c.Round < a.Round && !w.ephemeral(c.Name) {
			w.fail("starts %s in round %d beside %s", a.Spec.Name, a.Round, c.ID)
		}
	}
}

func (w *world) container(id string) *Container {
	for i := range w.state.Containers {
		if w.state.Containers[i].ID == id {
			return &w.state.Containers[i]
		}
	}
	return nil
}

func (w *world) end(c *Container, code int32) {
	if c.Phase == Running {
		c.Phase, c.ExitCode, c.Finished = Exited, code, w.now
		for _, spec := range slices.Concat(w.pod.Spec.InitContainers, w.pod.Spec.Containers) {
			if spec.Name == c.Name && code == restartAllCode && len(spec.RestartPolicyRules) > 0 {
				w.rounds[c.Round] = true
			}
		}
	}
}

// randomRules gives some pods a container whose end restarts all.
func (w *world) randomRules() {
	for _, list := range [][]corev1.Container{w.pod.Spec.InitContainers, w.pod.Spec.Containers} {
		for i := range list {
			if w.random.IntN(4) == 0 {
				restartAllOn(&list[i], restartAllCode)
				if !IsSidecar(&list[i]) {
					list[i].RestartPolicy = nil // the pod's
				}
			}
		}
	}
}

func (w *world) stopSandbox(id string) {
	for i := range w.state.Sandboxes {
		if s := &w.state.Sandboxes[i]; s.ID == id {
			s.Ready, s.IPs = false, nil
		}
	}
	for i := range w.state.Containers {
		if c := &w.state.Containers[i]; c.Sandbox == id {
			w.end(c, 137)
		}
	}
}

// accident lets something happen.
func (w *world) accident() {
	w.now = w.now.Add(time.Duration(w.random.IntN(30)) * time.Second)
	switch w.random.IntN(8) {
	case 0:
		if len(w.state.Sandboxes) > 0 {
			w.stopSandbox(w.state.Sandboxes[0].ID)
		}
	case 1:
		// The kubelet restarts.
		w.restarts, w.pulls = map[string]bounds{}, map[string]bounds{}
		w.memory = &Memory{Restarts: map[string]Backoff{}, Pulls: map[string]PullFailure{}, Starts: map[string]StartFailure{}, SandboxAttempt: w.memory.SandboxAttempt}
	default:
		if n := len(w.state.Containers); n > 0 {
			w.end(&w.state.Containers[w.random.IntN(n)], []int32{0, 1, restartAllCode}[w.random.IntN(3)])
		}
	}
}

// settle lets time pass and init containers succeed until plan wants nothing.
func (w *world) settle() Decision {
	for range 1000 {
		d := w.step()
		waits := false
		for i := range w.state.Containers {
			c := &w.state.Containers[i]
			for j := range w.pod.Spec.InitContainers {
				if spec := &w.pod.Spec.InitContainers[j]; spec.Name == c.Name && !IsSidecar(spec) && c.Phase == Running {
					w.end(c, 0)
					waits = true
				}
			}
		}
		if !d.Again.IsZero() {
			w.now = d.Again
			continue
		}
		if !waits && !d.Changes() && len(d.Start) == 0 {
			w.checkQuiet()
			return d
		}
	}
	w.fail("it does not settle")
	return Decision{}
}

func TestPlanModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	walks := 0
	for made := 0; made < *plans; walks++ {
		made += runModel(t, seed+uint64(walks))
	}
	t.Logf("%d walks", walks)
}

// runModel walks through the life of one pod, and returns how often it was planned.
func runModel(t *testing.T, seed uint64) int {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	policy := []corev1.RestartPolicy{restartAlways, restartOnFailure, restartNever}[random.IntN(3)]
	inits := [][]string{nil, {"x"}, {"x", "y"}, {"side"}, {"side", "x"}, {"x", "side"}}[random.IntN(6)]
	w := newWorld(t, seed, policy, random, inits...)
	w.failing = random.IntN(2) == 0
	for range random.IntN(40) {
		if random.IntN(2) == 0 {
			w.accident()
		}
		if random.IntN(20) == 0 {
			w.debug()
		}
		w.finish(w.step())
	}
	if random.IntN(20) == 0 {
		w.crash()
	}
	d := w.settle()
	w.checkSettled(d)
	running := 0
	for _, c := range w.state.Containers {
		if (c.Name == "a" || c.Name == "b") && c.Phase == Running {
			running++
		}
	}
	switch {
	case policy == restartAlways && (d.Finished || running != 2):
		w.fail("%d of 2 containers run, finished %t", running, d.Finished)
	case d.Finished && w.state.Running() > 0:
		w.fail("finished, and something runs")
	case !d.Finished && running == 0:
		w.fail("not finished, and nothing runs")
	}
	dead := map[string]int{}
	for _, c := range w.state.Containers {
		if c.Phase == Exited {
			if dead[c.Name]++; dead[c.Name] > 1 {
				w.fail("more than one dead %s is kept", c.Name)
			}
		}
	}
	return w.plans
}
