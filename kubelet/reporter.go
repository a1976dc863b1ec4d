package kubelet

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/kubelet/internal/lifecycle"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// maxConflicts is the number of consecutive conflicts that a write may have.
	maxConflicts = 5
	// Delays after a failed write.
	firstWriteRetry = 200 * time.Millisecond
	lastWriteRetry  = 10 * time.Second
	// settleFor is how long the status of a pod that only begins to start waits for a newer one. Most pods
	// run by then, and the API server gets one status of them instead of three.
	settleFor = 500 * time.Millisecond
	// trustWritten is how long the answer to a write is believed to be newer than the cache.
	trustWritten = 20 * time.Second
)

// reporter writes one pod's status to the API, and deletes the Pod at the end. It writes only the
// newest status, and a slow or unavailable API does not delay the worker.
type reporter struct {
	pods   PodStatus
	log    logr.Logger
	signal chan struct{} // of size 1

	// known is the last pod read from the API, at the time asked. After a write that failed, it may be
	// old: the API may have the new status all the same. Only run uses these fields.
	known  *corev1.Pod
	asked  time.Time
	unsure bool

	mu sync.Mutex
	// mu guards the fields below.
	pod    *corev1.Pod
	status *corev1.PodStatus // to be written; may be nil
	since  time.Time         // when status was first to be written; zero if it is written
	clean  chan struct{}     // closed when status is written; nil if it is
	delete bool              // to be deleted after that
}

func newReporter(pods PodStatus, log logr.Logger) *reporter {
	return &reporter{pods: pods, log: log, signal: make(chan struct{}, 1)}
}

// set sets the status to write.
func (r *reporter) set(pod *corev1.Pod, status corev1.PodStatus) {
	r.mu.Lock()
	r.pod, r.status = pod, &status
	if r.clean == nil {
		r.clean, r.since = make(chan struct{}), time.Now()
	}
	r.mu.Unlock()
	r.notify()
}

// settles returns how long a status waits for a newer one: until settleFor after since if no container has
// begun to run or failed, otherwise not at all.
func settles(status *corev1.PodStatus, since time.Time) time.Duration {
	if status == nil || status.Phase != corev1.PodPending || status.Reason != "" {
		return 0
	}
	for _, list := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses} {
		for i := range list {
			w := list[i].State.Waiting
			if w == nil || w.Reason != lifecycle.ContainerCreating && w.Reason != lifecycle.PodInitializing || list[i].RestartCount > 0 {
				return 0
			}
		}
	}
	return max(0, settleFor-time.Since(since))
}

// written returns a channel that is closed when the status that was last set has been written, or
// will never be.
func (r *reporter) written() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.clean != nil {
		return r.clean
	}
	clean := make(chan struct{})
	close(clean)
	return clean
}

// setWritten records that a status was written. A nil status stands for any: none is written later.
func (r *reporter) setWritten(status *corev1.PodStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.clean != nil && (status == nil || r.status == status) {
		close(r.clean)
		r.clean = nil
	}
}

// finish requests the deletion of the Pod after the last status was written.
func (r *reporter) finish(pod *corev1.Pod) {
	r.mu.Lock()
	r.pod, r.delete = pod, true
	r.mu.Unlock()
	r.notify()
}

func (r *reporter) notify() {
	select {
	case r.signal <- struct{}{}:
	default:
	}
}

// run writes until ctx is done or the Pod is deleted.
func (r *reporter) run(ctx context.Context) {
	defer r.setWritten(nil)
	delay := firstWriteRetry
	timer := time.NewTimer(0)
	timer.Stop() // it is set while a status settles
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.signal:
		case <-timer.C:
		}
		r.mu.Lock()
		pod, status, finish, settling := r.pod, r.status, r.delete, settles(r.status, r.since)
		r.mu.Unlock()
		if settling > 0 && !finish {
			timer.Reset(settling)
			continue
		}
		err := r.write(ctx, pod, status)
		if err == nil && status != nil {
			r.setWritten(status)
		}
		if err == nil && finish {
			err = r.remove(ctx, pod)
			if err == nil {
				return
			}
		}
		if err == nil {
			delay = firstWriteRetry
			continue
		}
		if ctx.Err() != nil {
			return
		}
		r.log.Error(err, "report pod", "again", delay)
		if !sleep(ctx, delay) {
			return
		}
		delay = min(2*delay, lastWriteRetry)
		r.notify()
	}
}

// write updates the status of the newest version of the pod in the API. It ignores a deleted pod.
func (r *reporter) write(ctx context.Context, pod *corev1.Pod, status *corev1.PodStatus) error {
	if status == nil {
		return nil
	}
	if r.known == nil || time.Since(r.asked) > trustWritten {
		// By now the cache contains that write, and later writes of other clients.
		r.known = pod
	}
	for range maxConflicts {
		if r.unsure {
			if gone, err := r.ask(ctx, pod); gone || err != nil {
				return err
			}
		}
		next := *r.known
		next.Status = lifecycle.MergeStatus(&r.known.Status, status, time.Now())
		if equality.Semantic.DeepEqual(&next.Status, &r.known.Status) {
			return nil
		}
		written, err := r.pods.UpdateStatus(ctx, &next)
		if err == nil {
			r.known, r.asked = written, time.Now()
			return nil
		}
		if apierrors.IsNotFound(err) {
			return nil
		}
		r.unsure = true
		if !apierrors.IsConflict(err) {
			return fmt.Errorf("update status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	return fmt.Errorf("update status of pod %s/%s: conflict after conflict", pod.Namespace, pod.Name)
}

// ask reads the pod from the API. It reports whether it is gone, or another pod has its name.
func (r *reporter) ask(ctx context.Context, pod *corev1.Pod) (gone bool, err error) {
	live, err := r.pods.Get(ctx, pod.Namespace, pod.Name)
	if apierrors.IsNotFound(err) || err == nil && live.UID != pod.UID {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("get pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	r.known, r.asked, r.unsure = live, time.Now(), false
	return false, nil
}

// remove deletes the Pod, but not another pod with the same name.
func (r *reporter) remove(ctx context.Context, pod *corev1.Pod) error {
	now := int64(0)
	err := r.pods.Delete(ctx, pod.Namespace, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &pod.UID},
	})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("delete pod %s/%s: %w", pod.Namespace, pod.Name, err)
}
