package kubelet

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
	state   podState
	memory  *memory
	now     time.Time
	random  *rand.Rand
	used    map[string]bool // names of containers and sandboxes ever made
	starts  map[string]int
	history []string
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	for _, line := range w.history[max(0, len(w.history)-12):] {
		w.t.Log(line)
	}
	w.t.Fatalf(w.history[0]+": "+format, args...)
}

// step carries out what plan says and checks it against what must never happen.
func (w *world) step() decision {
	d := plan(w.pod, &w.state, w.memory, w.now)
	w.history = append(w.history, fmt.Sprintf("%v %v => %s", w.now.Sub(t0), w.state, words(d)))
	for _, wave := range d.stop {
		for _, a := range wave {
			c := w.container(a.container.id)
			if c == nil {
				w.fail("stops %s, which is not there", a.container.id)
			}
			w.end(c, 143)
		}
	}
	for _, id := range d.stopSandboxes {
		w.stopSandbox(id)
	}
	for _, id := range d.remove {
		if c := w.container(id); c == nil || c.phase == containerRunning {
			w.fail("removes %s", id)
		}
		w.state.containers = slices.DeleteFunc(w.state.containers, func(c containerState) bool { return c.id == id })
	}
	for _, id := range d.removeSandboxes {
		w.state.sandboxes = slices.DeleteFunc(w.state.sandboxes, func(s sandboxState) bool { return s.id == id })
		for _, c := range w.state.containers {
			if c.sandbox == id {
				w.fail("removes sandbox %s with %s in it", id, c.id)
			}
		}
	}
	if d.createSandbox {
		w.create(d)
	}
	if len(d.start) > 0 && d.changes() {
		return d // carried out the next time
	}
	for _, a := range d.start {
		w.start(a)
	}
	return d
}

func (w *world) create(d decision) {
	for _, s := range w.state.sandboxes {
		if s.ready {
			w.fail("a second sandbox beside %s", s.id)
		}
	}
	if w.state.running() > 0 {
		w.fail("a new sandbox while something runs")
	}
	id := fmt.Sprintf("s%d", d.sandboxAttempt)
	if w.used[id] {
		w.fail("sandbox %s a second time", id)
	}
	w.used[id] = true
	if w.random.IntN(4) == 0 {
		w.memory.sandboxFailed, w.memory.sandboxAttempt = w.now, d.sandboxAttempt+1
		return
	}
	w.state.sandboxes = slices.Insert(w.state.sandboxes, 0, sandboxState{id: id, attempt: d.sandboxAttempt, ready: true, ips: []string{"10.0.0.1"}})
}

func (w *world) start(a startAction) {
	sandbox := w.state.sandbox()
	if sandbox == nil {
		w.fail("starts %s in no sandbox", a.spec.Name)
	}
	id := fmt.Sprintf("%s%d", a.spec.Name, a.attempt)
	if w.used[id] {
		w.fail("container %s a second time", id)
	}
	for _, c := range w.state.containers {
		if c.name == a.spec.Name && c.phase == containerRunning {
			w.fail("starts %s beside %s", id, c.id)
		}
	}
	w.starts[a.spec.Name]++
	if w.pod.Spec.RestartPolicy == restartNever && !sidecar(a.spec) && w.starts[a.spec.Name] > 1 {
		w.fail("starts %s again in a pod that is never restarted", id)
	}
	main := slices.ContainsFunc(w.pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == a.spec.Name })
	for i := range w.pod.Spec.InitContainers {
		before := &w.pod.Spec.InitContainers[i]
		if before.Name == a.spec.Name {
			break
		}
		c := w.state.latestIn(sandbox.id, before.Name)
		mainRan := slices.ContainsFunc(w.state.containers, func(c containerState) bool {
			return c.sandbox == sandbox.id && (c.name == "a" || c.name == "b")
		})
		done := c != nil && (sidecar(before) && c.phase == containerRunning || !sidecar(before) && c.phase == containerExited && c.exitCode == 0)
		if !done && !mainRan && (main || !sidecar(a.spec)) {
			w.fail("starts %s before %s is through", id, before.Name)
		}
	}
	w.used[id] = true
	if !a.failed.IsZero() {
		w.memory.restarts[a.spec.Name] = w.memory.restarts[a.spec.Name].next(a.failed, w.now)
	}
	w.state.containers = slices.Insert(w.state.containers, 0, containerState{
		id: id, name: a.spec.Name, attempt: a.attempt, sandbox: sandbox.id, phase: containerRunning, started: w.now, created: w.now,
	})
}

func (w *world) container(id string) *containerState {
	for i := range w.state.containers {
		if w.state.containers[i].id == id {
			return &w.state.containers[i]
		}
	}
	return nil
}

func (w *world) end(c *containerState, code int32) {
	if c.phase == containerRunning {
		c.phase, c.exitCode, c.finished = containerExited, code, w.now
	}
}

func (w *world) stopSandbox(id string) {
	for i := range w.state.sandboxes {
		if s := &w.state.sandboxes[i]; s.id == id {
			s.ready, s.ips = false, nil
		}
	}
	for i := range w.state.containers {
		if c := &w.state.containers[i]; c.sandbox == id {
			w.end(c, 137)
		}
	}
}

// accident lets something happen.
func (w *world) accident() {
	w.now = w.now.Add(time.Duration(w.random.IntN(30)) * time.Second)
	switch w.random.IntN(8) {
	case 0:
		if len(w.state.sandboxes) > 0 {
			w.stopSandbox(w.state.sandboxes[0].id)
		}
	case 1:
		// The kubelet restarts.
		w.memory = &memory{restarts: map[string]backoff{}, pulls: map[string]pullFailure{}, starts: map[string]startFailure{}, sandboxAttempt: w.memory.sandboxAttempt}
	default:
		if n := len(w.state.containers); n > 0 {
			w.end(&w.state.containers[w.random.IntN(n)], int32(w.random.IntN(2)))
		}
	}
}

// settle lets time pass and init containers succeed until plan wants nothing.
func (w *world) settle() decision {
	for range 1000 {
		d := w.step()
		waits := false
		for i := range w.state.containers {
			c := &w.state.containers[i]
			for j := range w.pod.Spec.InitContainers {
				if spec := &w.pod.Spec.InitContainers[j]; spec.Name == c.name && !sidecar(spec) && c.phase == containerRunning {
					w.end(c, 0)
					waits = true
				}
			}
		}
		if !d.again.IsZero() {
			w.now = d.again
			continue
		}
		if !waits && !d.changes() && len(d.start) == 0 {
			return d
		}
	}
	w.fail("it does not settle")
	return decision{}
}

func TestPlanModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for i := range 3000 {
		runModel(t, seed+uint64(i))
	}
}

func runModel(t *testing.T, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	policy := []corev1.RestartPolicy{restartAlways, restartOnFailure, restartNever}[random.IntN(3)]
	inits := [][]string{nil, {"x"}, {"x", "y"}, {"side"}, {"side", "x"}, {"x", "side"}}[random.IntN(6)]
	w := &world{t: t, pod: testPod(policy, inits...), memory: newMemory(), now: t0, random: random, used: map[string]bool{}, starts: map[string]int{}}
	w.history = append(w.history, fmt.Sprintf("seed %d policy %s inits %v", seed, policy, inits))
	for range random.IntN(40) {
		if random.IntN(2) == 0 {
			w.accident()
		}
		w.step()
	}
	d := w.settle()
	running := 0
	for _, c := range w.state.containers {
		if (c.name == "a" || c.name == "b") && c.phase == containerRunning {
			running++
		}
	}
	switch {
	case policy == restartAlways && (d.finished || running != 2):
		w.fail("%d of 2 containers run, finished %t", running, d.finished)
	case d.finished && w.state.running() > 0:
		w.fail("finished, and something runs")
	case !d.finished && running == 0:
		w.fail("not finished, and nothing runs")
	}
	dead := map[string]int{}
	for _, c := range w.state.containers {
		if c.phase == containerExited {
			if dead[c.name]++; dead[c.name] > 1 {
				w.fail("more than one dead %s is kept", c.name)
			}
		}
	}
}
