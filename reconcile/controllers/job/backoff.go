package job

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/planekit/planekit/reconcile/controllers/internal/optional"
	"github.com/planekit/planekit/reconcile/controllers/internal/podstatus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The waits between pods of a Job after failures, as in Kubernetes.
const (
	jobBackoff    = 10 * time.Second
	maxJobBackoff = 10 * time.Minute
)

// enoughFailures is the number of failures after which the wait no longer grows.
const enoughFailures = 7

// waitAfter returns the wait after the latest of a number of failures.
func waitAfter(failures int) time.Duration {
	if failures == 0 {
		return 0
	}
	return min(jobBackoff<<(min(failures, enoughFailures)-1), maxJobBackoff)
}

// endings remembers when pods of Jobs failed or succeeded, including pods that no longer exist. It
// may be lost: it is filled again from the pods that exist.
type endings struct {
	mu sync.Mutex
	// byJob is guarded by mu.
	byJob map[types.UID]*ending
}

// ending holds, for one Job, when a pod last succeeded, and the latest failures since.
type ending struct {
	success  time.Time
	failures map[types.UID]time.Time
	// future is the last end that was later than the clock, and seen when that was first so: nodes have other clocks,
	// and clocks are set back.
	future, seen time.Time
}

// wait records how pods of a Job ended and returns how long the next pod has to wait: 10 s after
// the first failure since the last success, doubled for each further one.
func (e *endings) wait(job types.UID, succeeded, failed []*corev1.Pod, now time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	record := e.byJob[job]
	if record == nil {
		record = &ending{failures: make(map[types.UID]time.Time)}
		if e.byJob == nil {
			e.byJob = make(map[types.UID]*ending)
		}
		e.byJob[job] = record
	}
	last := record.note(succeeded, failed)
	if last.After(now) {
		if !last.Equal(record.future) {
			record.future, record.seen = last, now
		}
		last = record.seen
	}
	return last.Add(waitAfter(len(record.failures))).Sub(now)
}

func (r *ending) note(succeeded, failed []*corev1.Pod) (last time.Time) {
	for _, pod := range succeeded {
		// A pod that counts as failed because it was deleted may still succeed.
		if _, failed := r.failures[pod.UID]; !failed {
			r.success = later(r.success, endTime(pod))
		}
	}
	for _, pod := range failed {
		// Keep the first observed time: a pod that is deleted ends twice.
		if _, ok := r.failures[pod.UID]; !ok {
			r.failures[pod.UID] = endTime(pod)
		}
	}
	maps.DeleteFunc(r.failures, func(_ types.UID, end time.Time) bool { return !end.After(r.success) })
	newest := slices.SortedFunc(maps.Keys(r.failures), func(a, b types.UID) int {
		return cmp.Or(r.failures[b].Compare(r.failures[a]), cmp.Compare(a, b))
	})
	for _, uid := range newest[min(len(newest), enoughFailures):] {
		delete(r.failures, uid)
	}
	if len(newest) == 0 {
		return r.success
	}
	return r.failures[newest[0]]
}

func (e *endings) drop(job types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.byJob, job)
}

// endTime returns when a pod ended: when its last container did; otherwise when it became unready
// for good, when its deletion was requested, or when it was created.
func endTime(pod *corev1.Pod) time.Time {
	if end, all := lastExit(pod); all {
		return end
	}
	if c := podstatus.ReadyCondition(pod); c != nil && c.Status == corev1.ConditionFalse && !c.LastTransitionTime.IsZero() {
		return c.LastTransitionTime.Time
	}
	if pod.DeletionTimestamp != nil {
		grace := time.Duration(optional.Value(pod.DeletionGracePeriodSeconds, 0)) * time.Second
		return pod.DeletionTimestamp.Add(-grace)
	}
	return pod.CreationTimestamp.Time
}

// lastExit returns when the last container ended, including sidecars, and whether all have ended.
func lastExit(pod *corev1.Pod) (end time.Time, all bool) {
	statuses := slices.Clone(pod.Status.ContainerStatuses)
	for i := range pod.Status.InitContainerStatuses {
		if s := &pod.Status.InitContainerStatuses[i]; isSidecar(pod, s.Name) {
			statuses = append(statuses, *s)
		}
	}
	for i := range statuses {
		t := statuses[i].State.Terminated
		if t == nil || t.FinishedAt.IsZero() {
			return time.Time{}, false
		}
		end = later(end, t.FinishedAt.Time)
	}
	return end, len(statuses) > 0
}

func isSidecar(pod *corev1.Pod, container string) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool {
		return c.Name == container && optional.Value(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways
	})
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
