package lifecycle

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// kubeletView holds the versions of a pod in the API, and which of them a kubelet has in its cache.
type kubeletView struct {
	versions []*corev1.Pod
	seen     int
}

func (v *kubeletView) latest() *corev1.Pod { return v.versions[len(v.versions)-1] }

// store adds a version to the API.
func (v *kubeletView) store(change func(*corev1.Pod)) *corev1.Pod {
	next := v.latest().DeepCopy()
	change(next)
	v.versions = append(v.versions, next)
	return next
}

// TestStatusBehindModel: a kubelet whose cache is behind, whose writes fail, meet conflicts or lose their
// answers, and which restarts, never moves the status in the API backwards.
func TestStatusBehindModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for i := range 500 {
		runStatusBehind(t, seed+uint64(i))
	}
}

func runStatusBehind(t *testing.T, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	policy := []corev1.RestartPolicy{restartAlways, restartOnFailure, restartNever}[random.IntN(3)]
	inits := [][]string{nil, {"x"}, {"side"}, {"side", "x"}}[random.IntN(4)]
	w := &world{t: t, pod: testPod(policy, inits...), memory: NewMemory(), now: t0, random: random, used: map[string]bool{}, starts: map[string]int{}, rounds: map[uint32]bool{}, walk: newWalk()}
	w.randomRules()
	w.history = append(w.history, fmt.Sprintf("seed %d policy %s inits %v", seed, policy, inits))
	w.pod.Generation = 1
	v := &kubeletView{versions: []*corev1.Pod{w.pod}}
	for range 60 {
		w.now = w.now.Add(time.Duration(random.IntN(100)) * time.Second)
		memory := w.memory
		if random.IntN(2) == 0 {
			w.accident()
		}
		if w.memory != memory { // the kubelet was restarted, and lists the pods
			v.seen = len(v.versions) - 1
		}
		switch random.IntN(12) {
		case 0: // another client changes the spec
			v.store(func(pod *corev1.Pod) { pod.Generation++ })
		case 1:
			w.memory.Rejection = &Rejection{Reason: "Evicted", Message: "too large", Disruption: true}
		}
		v.seen += random.IntN(len(v.versions) - v.seen)
		w.pod = v.versions[v.seen]
		o := Observation{Pod: w.pod, State: &w.state, Decision: Plan(w.pod, &w.state, w.memory, w.now), Now: w.now}
		next := o.Status()
		if random.IntN(2) == 0 { // else the write fails, and a later status is written
			before := &v.latest().Status
			after := v.store(func(pod *corev1.Pod) { pod.Status = MergeStatus(&pod.Status, &next, w.now) })
			w.history = append(w.history, fmt.Sprintf("%v writes from %d over %d: %s ready %v", w.now.Sub(t0), v.seen, len(v.versions)-2, after.Status.Phase, findCondition(&after.Status, corev1.PodReady)))
			w.checkForward(before, &after.Status)
			w.checkTransitions(before, &after.Status)
		}
		w.step()
	}
}

// checkTransitions fails if a condition changes its time without its status, or to an earlier one, or if
// what was observed becomes older.
func (w *world) checkTransitions(old, now *corev1.PodStatus) {
	w.t.Helper()
	if now.ObservedGeneration < old.ObservedGeneration {
		w.fail("observed generation %d, then %d", old.ObservedGeneration, now.ObservedGeneration)
	}
	for _, before := range old.Conditions {
		after := findCondition(now, before.Type)
		switch {
		case !ours[before.Type] || passing[before.Type]:
		case after == nil:
			w.fail("%s is gone", before.Type)
		case after.Status == before.Status && !after.LastTransitionTime.Equal(&before.LastTransitionTime):
			w.fail("%s stays %s, and its time changes from %v to %v", before.Type, before.Status, before.LastTransitionTime, after.LastTransitionTime)
		case after.LastTransitionTime.Before(&before.LastTransitionTime):
			w.fail("%s became %s at %v, before it became %s at %v", before.Type, after.Status, after.LastTransitionTime, before.Status, before.LastTransitionTime)
		case after.LastTransitionTime.After(w.now):
			w.fail("%s became %s at %v, later than now", before.Type, after.Status, after.LastTransitionTime)
		case after.ObservedGeneration < before.ObservedGeneration:
			w.fail("%s observed generation %d, then %d", before.Type, before.ObservedGeneration, after.ObservedGeneration)
		}
	}
}
