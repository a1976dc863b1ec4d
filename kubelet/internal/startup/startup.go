// Package startup measures how long new pods take to start, as Kubernetes' pod startup latency SLI
// defines it
// (https://github.com/kubernetes/community/blob/master/sig-scalability/slos/pod_startup_latency.md).
package startup

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Timer measures the start of one pod. It is safe for concurrent use.
type Timer struct {
	mu sync.Mutex
	// mu guards the fields below.
	done         bool      // nothing is left to measure
	pulling      time.Time // when the first attempt of a pull began; zero without a pull in progress
	pulls, inits time.Duration
}

// New returns a timer for a pod that is seen for the first time. A pod that has started before, with an
// earlier kubelet, is not measured.
func New(pod *corev1.Pod) *Timer { return &Timer{done: pod.Status.StartTime != nil} }

// Pulling records that a pull of an image begins. A failed pull goes on with the next attempt.
func (t *Timer) Pulling(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pulling.IsZero() {
		t.pulling = now
	}
}

// Pulled records that an image was pulled.
func (t *Timer) Pulled(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.pulling.IsZero() {
		t.pulls, t.pulling = t.pulls+now.Sub(t.pulling), time.Time{}
	}
}

// Init records how long all init containers together have run.
func (t *Timer) Init(ran time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inits = ran
}

// Done reports whether nothing is left to measure.
func (t *Timer) Done() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.done
}

// Took is how long a pod took to start since its creation.
type Took struct {
	Total time.Duration
	// SLI is without the pulls of images and the time in which init containers ran. Stateful pods are not
	// in that definition.
	SLI      time.Duration
	Stateful bool
}

// Observe returns how long a pod took to start when it is the first version of the pod in the API in which
// all containers run, and false otherwise.
func (t *Timer) Observe(pod *corev1.Pod, now time.Time) (Took, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.done:
		return Took{}, false
	case pod.Status.Phase == corev1.PodFailed, pod.Status.Phase == corev1.PodSucceeded:
		t.done = true
		return Took{}, false
	case !started(pod):
		return Took{}, false
	}
	t.done = true
	total := max(now.Sub(pod.CreationTimestamp.Time), 0)
	return Took{Total: total, SLI: max(total-t.pulls-t.inits, 0), Stateful: stateful(pod)}, true
}

// started reports whether all containers run.
func started(pod *corev1.Pod) bool {
	for i := range pod.Status.ContainerStatuses {
		if running := pod.Status.ContainerStatuses[i].State.Running; running == nil || running.StartedAt.IsZero() {
			return false
		}
	}
	return len(pod.Status.ContainerStatuses) > 0
}

// stateful reports whether a pod has a volume that is not made for it alone.
func stateful(pod *corev1.Pod) bool {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Secret == nil && v.ConfigMap == nil && v.DownwardAPI == nil && v.EmptyDir == nil && v.Projected == nil {
			return true
		}
	}
	return false
}
