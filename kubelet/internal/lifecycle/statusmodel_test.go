package lifecycle

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// TestStatusModel: whatever happens to a pod and to its kubelet, its status does not move backwards.
func TestStatusModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for i := range 500 {
		runStatusModel(t, seed+uint64(i))
	}
}

func runStatusModel(t *testing.T, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	policy := []corev1.RestartPolicy{restartAlways, restartOnFailure, restartNever}[random.IntN(3)]
	inits := [][]string{nil, {"x"}, {"side"}, {"side", "x"}}[random.IntN(4)]
	w := newWorld(t, seed, policy, random, inits...)
	rejectAt := random.IntN(60)
	for i := range 40 {
		w.now = w.now.Add(time.Duration(random.IntN(400)) * time.Second)
		if random.IntN(2) == 0 {
			w.accident()
		}
		if i == rejectAt {
			w.memory.Rejection = &Rejection{Reason: "Evicted", Message: "too large", Disruption: true}
		}
		o := Observation{Pod: w.pod, State: &w.state, Decision: Plan(w.pod, &w.state, w.memory, w.now), Now: w.now}
		next := o.Status()
		w.checkForward(&w.pod.Status, &next)
		pod := w.pod.DeepCopy()
		pod.Status = MergeStatus(&w.pod.Status, &next, w.now)
		w.checkForward(&w.pod.Status, &pod.Status)
		w.pod = pod
		w.step()
	}
}

// checkForward fails if a status is older than the one before.
func (w *world) checkForward(old, now *corev1.PodStatus) {
	w.t.Helper()
	if hasEnded(old.Phase) && (now.Phase != old.Phase || now.Reason != old.Reason || now.Message != old.Message) {
		w.fail("%s %s became %s %s", old.Phase, old.Reason, now.Phase, now.Reason)
	}
	if old.StartTime != nil && !now.StartTime.Equal(old.StartTime) {
		w.fail("started at %v, then at %v", old.StartTime, now.StartTime)
	}
	if hasEnded(now.Phase) && w.state.Running() > 0 {
		w.fail("%s while %d containers run", now.Phase, w.state.Running())
	}
	all := slices.Concat(now.InitContainerStatuses, now.ContainerStatuses)
	for _, c := range slices.Concat(old.InitContainerStatuses, old.ContainerStatuses) {
		next := findStatus(all, c.Name)
		spec := slices.ContainsFunc(w.pod.Spec.InitContainers, func(i corev1.Container) bool { return i.Name == c.Name && IsSidecar(&i) })
		switch {
		case next == nil:
			w.fail("%s has no status any more", c.Name)
		case next.RestartCount < c.RestartCount:
			w.fail("%s was restarted %d times, then %d", c.Name, c.RestartCount, next.RestartCount)
		case c.State.Terminated != nil && next.State.Running != nil && (next.ContainerID == c.ContainerID || next.RestartCount <= c.RestartCount):
			w.fail("%s runs after %s has ended, with the restart count %d after %d", next.ContainerID, c.ContainerID, next.RestartCount, c.RestartCount)
		case c.State.Terminated != nil && next.State.Running != nil && w.pod.Spec.RestartPolicy == restartNever && !spec && !restartsAll(&w.pod.Spec):
			w.fail("%s runs again in a pod that is never restarted", c.Name)
		case c.State.Terminated != nil && next.State.Running != nil && hasEnded(old.Phase):
			w.fail("%s runs in a pod that is %s", c.Name, old.Phase)
		}
	}
}
