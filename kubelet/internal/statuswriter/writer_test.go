package statuswriter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// flakyPods is an API with one pod, other writers of it, and errors.
type flakyPods struct {
	mu     sync.Mutex
	random *rand.Rand
	pod    *corev1.Pod
	before []*corev1.Pod // the versions before pod
	calm   bool          // no more errors
	check  func(old, now *corev1.PodStatus)
}

func (f *flakyPods) write(change func(*corev1.PodStatus)) *corev1.Pod {
	pod := f.pod.DeepCopy()
	change(&pod.Status)
	f.check(&f.pod.Status, &pod.Status)
	pod.ResourceVersion += "i"
	f.before = append(f.before, f.pod)
	f.pod = pod
	return pod
}

func (f *flakyPods) Get(context.Context, string, string) (*corev1.Pod, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.calm && f.random.IntN(4) == 0 {
		return nil, errors.New("the API does not answer")
	}
	return f.pod, nil
}

func (f *flakyPods) UpdateStatus(_ context.Context, in *corev1.Pod) (*corev1.Pod, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if in.ResourceVersion != f.pod.ResourceVersion {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, in.Name, errors.New("changed"))
	}
	if !f.calm && f.random.IntN(4) == 0 {
		return nil, errors.New("the API does not answer")
	}
	pod := f.write(func(s *corev1.PodStatus) { *s = *in.Status.DeepCopy() })
	if !f.calm && f.random.IntN(4) == 0 {
		return nil, errors.New("the answer is lost")
	}
	return pod, nil
}

func (f *flakyPods) Delete(context.Context, string, string, metav1.DeleteOptions) error { return nil }

// readiness returns the condition Ready, or nil.
func readiness(status *corev1.PodStatus) *corev1.PodCondition {
	for i := range status.Conditions {
		if status.Conditions[i].Type == corev1.PodReady {
			return &status.Conditions[i]
		}
	}
	return nil
}

// TestModel: through errors, lost answers, other writers, restarts and a cache that is behind, the status in the API keeps its
// start, its end and the conditions of other writers, and is at last what the worker has set.
func TestModel(t *testing.T) {
	first := uint64(time.Now().UnixNano())
	t.Logf("seed %d", first)
	for i := range 60 {
		seed := first + uint64(i)
		synctest.Test(t, func(t *testing.T) { runModel(t, seed) })
	}
}

func runModel(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 0))
	f := &flakyPods{random: rand.New(rand.NewPCG(seed, 1)), pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u", ResourceVersion: "i"}}}
	foreign := 0
	f.check = func(old, now *corev1.PodStatus) {
		if ended := old.Phase == corev1.PodSucceeded || old.Phase == corev1.PodFailed; ended && (now.Phase != old.Phase || now.Reason != old.Reason) {
			t.Errorf("seed %d: %s %s became %s %s", seed, old.Phase, old.Reason, now.Phase, now.Reason)
		}
		if old.StartTime != nil && !old.StartTime.Equal(now.StartTime) {
			t.Errorf("seed %d: started at %v, then at %v", seed, old.StartTime, now.StartTime)
		}
		before, after := readiness(old), readiness(now)
		if before != nil && (after == nil || after.LastTransitionTime.Before(&before.LastTransitionTime) ||
			after.Status == before.Status && !after.LastTransitionTime.Equal(&before.LastTransitionTime)) {
			t.Errorf("seed %d: Ready was %v, then %v", seed, before, after)
		}
		if len(old.ContainerStatuses) > 0 && now.ContainerStatuses[0].RestartCount < old.ContainerStatuses[0].RestartCount {
			t.Errorf("seed %d: restarted %d times, then %d", seed, old.ContainerStatuses[0].RestartCount, now.ContainerStatuses[0].RestartCount)
		}
		others := 0
		for _, c := range now.Conditions {
			if c.Type == "example.com/gate" {
				others++
			}
		}
		if others != min(foreign, 1) {
			t.Errorf("seed %d: %d conditions of another writer", seed, others)
		}
	}
	var w *Writer
	var group sync.WaitGroup
	cancel := func() {}
	start := func() { // the kubelet restarts: what was not written is lost
		cancel()
		group.Wait()
		var ctx context.Context
		ctx, cancel = context.WithCancel(t.Context())
		w = New(f, logr.Discard())
		group.Go(func() { w.Run(ctx) })
	}
	start()
	var last corev1.PodStatus
	var count int32
	for range 30 {
		if random.IntN(8) == 0 {
			start()
		}
		time.Sleep(time.Duration(random.IntN(8000)) * time.Millisecond)
		f.mu.Lock()
		seen := f.pod
		if len(f.before) > 0 && random.IntN(2) == 0 {
			seen = f.before[len(f.before)-1] // the cache is behind
		}
		if random.IntN(4) == 0 {
			foreign++
			f.write(func(s *corev1.PodStatus) {
				if foreign == 1 {
					s.Conditions = append(s.Conditions, corev1.PodCondition{Type: "example.com/gate"})
				}
				s.NominatedNodeName = fmt.Sprint(foreign)
			})
		}
		f.mu.Unlock()
		// A worker sees the pod as it was, or as it was before this.
		next := corev1.PodStatus{Phase: corev1.PodRunning, StartTime: seen.Status.StartTime, PodIP: fmt.Sprint("10.0.0.", random.IntN(9))}
		if next.StartTime == nil {
			next.StartTime = &metav1.Time{Time: time.Now().Truncate(time.Second)}
		}
		count += int32(random.IntN(2))
		next.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", RestartCount: count}}
		ready := corev1.PodCondition{Type: corev1.PodReady, Status: []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse}[random.IntN(2)]}
		if c := readiness(&seen.Status); c != nil && c.Status == ready.Status {
			ready.LastTransitionTime = c.LastTransitionTime
		} else {
			ready.LastTransitionTime = metav1.Time{Time: time.Now().Truncate(time.Second)}
		}
		next.Conditions = []corev1.PodCondition{ready}
		if random.IntN(8) == 0 {
			next.Phase, next.Reason = corev1.PodFailed, fmt.Sprint("Evicted", random.IntN(3))
		}
		last = next
		w.Set(seen, next)
	}
	f.mu.Lock()
	f.calm = true
	seen := f.pod
	f.mu.Unlock()
	w.Set(seen, last) // the cache catches up, which wakes the worker
	select {
	case <-w.Written():
	case <-time.After(time.Minute):
		t.Errorf("seed %d: the last status was never written", seed)
	}
	f.mu.Lock()
	if f.pod.Status.PodIP != last.PodIP {
		t.Errorf("seed %d: the status has %q, want %q", seed, f.pod.Status.PodIP, last.PodIP)
	}
	f.mu.Unlock()
	cancel()
	group.Wait()
}
