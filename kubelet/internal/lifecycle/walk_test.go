package lifecycle

import (
	"flag"
	"fmt"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// plans is the least number of plans that TestPlanModel makes.
var plans = flag.Int("plans", 40_000, "how often the model test plans")

// walk holds what a world has seen, from which the bounds of decisions follow.
type walk struct {
	plans    int
	attempts map[string]uint32 // the next free one, by the name of the container
	restarts map[string]bounds
	pulls    map[string]bounds
	failing  bool // images cannot be pulled and containers cannot be started at times
	ended    bool // the status says that the pod has ended
}

func newWalk() walk {
	return walk{attempts: map[string]uint32{}, restarts: map[string]bounds{}, pulls: map[string]bounds{}}
}

// bounds follow the back-off of one container: 10 s at first, doubled up to 300 s, and forgotten after
// 600 s without a failure.
type bounds struct {
	delay time.Duration
	since time.Time
}

func (b bounds) forgotten(failed time.Time) bool {
	return b.delay == 0 || failed.Sub(b.since) > 600*time.Second
}

func (b bounds) next(failed, now time.Time) bounds {
	if b.forgotten(failed) {
		return bounds{10 * time.Second, now}
	}
	return bounds{min(2*b.delay, 300*time.Second), now}
}

// checkDecision fails on a decision that is never right.
func (w *world) checkDecision(d Decision) {
	if w.ended && (d.CreateSandbox || len(d.Start) > 0) {
		w.fail("acts on a pod that has ended")
	}
	if d.Finished && (d.CreateSandbox || len(d.Start) > 0) {
		w.fail("finishes a pod and starts something")
	}
	if !d.Again.IsZero() && !d.Again.After(w.now) {
		w.fail("plans again at %v, which is not in the future", d.Again.Sub(t0))
	}
	if d.Again.Sub(w.now) > 300*time.Second {
		w.fail("waits for %v", d.Again.Sub(w.now))
	}
	for name, waiting := range d.Waiting {
		if b := w.restarts[name]; waiting.Reason == "CrashLoopBackOff" && d.Again.After(w.now.Add(b.delay)) {
			w.fail("%s waits for %v, and its back-off is %v", name, d.Again.Sub(w.now), b.delay)
		}
	}
	seen := map[string]bool{}
	for _, a := range d.Start {
		if _, waits := d.Waiting[a.Spec.Name]; waits || seen[a.Spec.Name] {
			w.fail("starts %s that waits, or that it starts too", a.Spec.Name)
		}
		seen[a.Spec.Name] = true
	}
	if w.plans%64 == 0 {
		if again := Plan(w.pod, &w.state, w.memory, w.now); !reflect.DeepEqual(d, again) {
			w.fail("plans otherwise the second time: %s", words(again))
		}
	}
}

// checkBackoff fails if a container is started before its back-offs are over, or with an attempt that
// is not greater than all before.
func (w *world) checkBackoff(a StartAction) {
	name := a.Spec.Name
	if b := w.restarts[name]; !a.Failed.IsZero() && !b.forgotten(a.Failed) && w.now.Before(a.Failed.Add(b.delay)) {
		w.fail("starts %s before its back-off of %v is over", name, b.delay)
	}
	if b := w.pulls[name]; w.now.Before(b.since.Add(b.delay)) {
		w.fail("pulls the image of %s before its back-off of %v is over", name, b.delay)
	}
	if a.Attempt < w.attempts[name] {
		w.fail("starts %s%d after attempt %d", name, a.Attempt, w.attempts[name]-1)
	}
}

// failsToStart reports whether a start fails, and remembers it as a kubelet does.
func (w *world) failsToStart(a StartAction, sandbox string) bool {
	name := a.Spec.Name
	switch chance := w.random.IntN(16); {
	case w.failing && chance == 0:
		w.memory.Starts[name] = StartFailure{At: w.now, Sandbox: sandbox, Reason: "CreateContainerError"}
		return true
	case w.failing && chance == 1:
		f := w.memory.Pulls[name]
		f.Image, f.Backoff, f.Failed, f.Reason = a.Spec.Image, f.Backoff.Next(w.now, w.now), w.now, "ErrImagePull"
		w.memory.Pulls[name] = f
		w.pulls[name] = w.pulls[name].next(w.now, w.now)
		return true
	}
	delete(w.memory.Starts, name)
	delete(w.memory.Pulls, name)
	delete(w.pulls, name)
	w.attempts[name] = a.Attempt + 1
	return false
}

// debug adds an ephemeral container, some with a target.
func (w *world) debug() {
	w.pod = w.pod.DeepCopy()
	c := corev1.EphemeralContainer{}
	c.Name, c.Image = fmt.Sprintf("debug-%d-", len(w.pod.Spec.EphemeralContainers)), "i"
	c.TargetContainerName = []string{"", "a"}[w.random.IntN(2)]
	w.pod.Spec.EphemeralContainers = append(w.pod.Spec.EphemeralContainers, c)
}

func (w *world) ephemeral(name string) bool {
	return slices.ContainsFunc(w.pod.Spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool { return c.Name == name })
}

// crash lets everything that runs fail, again and again, so that back-offs reach their limit.
func (w *world) crash() {
	for range 100 {
		for i := range w.state.Containers {
			w.end(&w.state.Containers[i], 1)
		}
		if d := w.step(); d.Again.After(w.now) {
			w.now = d.Again
		}
	}
}

// finish writes the phase of a pod that has ended, sooner or later. The runtime may lose it then.
func (w *world) finish(d Decision) {
	if d.Finished && w.state.Running() == 0 && w.random.IntN(2) == 0 && !w.ended {
		w.ended = true
		w.pod = w.pod.DeepCopy()
		w.pod.Status.Phase = corev1.PodSucceeded
	}
	if w.ended && w.random.IntN(4) == 0 {
		w.state.Containers, w.state.Sandboxes = nil, nil
	}
}

// checkQuiet fails if a settled pod, to which nothing happens, needs something later.
func (w *world) checkQuiet() {
	for _, later := range []time.Duration{time.Second, time.Hour, 1000 * time.Hour} {
		if d := Plan(w.pod, &w.state, w.memory, w.now.Add(later)); d.Changes() || len(d.Start) > 0 || !d.Again.IsZero() {
			w.fail("after %v it does %s", later, words(d))
		}
	}
}
