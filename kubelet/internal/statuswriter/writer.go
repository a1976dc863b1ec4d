// Package statuswriter writes the status of a pod to the API, in the background and at most one at a time.
//
//	w := statuswriter.New(pods, log)
//	go w.Run(ctx)
//	w.Set(pod, status) // does not block; only the newest is written
//
// A write keeps the conditions and fields of other writers, and the end of a pod that has ended. A failed
// write is repeated with a growing delay, from what the API has by then.
package statuswriter

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/kubelet/internal/lifecycle"
	"github.com/planekit/planekit/kubelet/internal/pause"
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

// Pods reads and writes pods in the API. Its errors are those of k8s.io/apimachinery/pkg/api/errors.
type Pods interface {
	Get(ctx context.Context, namespace, name string) (*corev1.Pod, error)
	// UpdateStatus fails with a conflict unless the pod's resourceVersion is the newest.
	UpdateStatus(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error)
	Delete(ctx context.Context, namespace, name string, options metav1.DeleteOptions) error
}

// Writer writes one pod's status to the API, and deletes the Pod at the end. It writes only the newest
// status, and a slow or unavailable API does not delay the caller. Its methods but Run may be called at any time.
type Writer struct {
	pods   Pods
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

// New returns a writer, which writes nothing before Run.
func New(pods Pods, log logr.Logger) *Writer {
	return &Writer{pods: pods, log: log, signal: make(chan struct{}, 1)}
}

// Set sets the status to write.
func (w *Writer) Set(pod *corev1.Pod, status corev1.PodStatus) {
	w.mu.Lock()
	w.pod, w.status = pod, &status
	if w.clean == nil {
		w.clean, w.since = make(chan struct{}), time.Now()
	}
	w.mu.Unlock()
	w.notify()
}

// settles returns how long a status waits for a newer one: until settleFor after since if no container has
// begun to run or failed, otherwise not at all.
func settles(status *corev1.PodStatus, since time.Time) time.Duration {
	if status == nil || status.Phase != corev1.PodPending || status.Reason != "" {
		return 0
	}
	for _, list := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses} {
		for i := range list {
			waiting := list[i].State.Waiting
			if waiting == nil || waiting.Reason != lifecycle.ContainerCreating && waiting.Reason != lifecycle.PodInitializing || list[i].RestartCount > 0 {
				return 0
			}
		}
	}
	return max(0, settleFor-time.Since(since))
}

// Written returns a channel that is closed when the status that was last set has been written, or
// will never be.
func (w *Writer) Written() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.clean != nil {
		return w.clean
	}
	clean := make(chan struct{})
	close(clean)
	return clean
}

// setWritten records that a status was written. A nil status stands for any: none is written later.
func (w *Writer) setWritten(status *corev1.PodStatus) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.clean != nil && (status == nil || w.status == status) {
		close(w.clean)
		w.clean = nil
	}
}

// Finish requests the deletion of the Pod after the last status was written.
func (w *Writer) Finish(pod *corev1.Pod) {
	w.mu.Lock()
	w.pod, w.delete = pod, true
	w.mu.Unlock()
	w.notify()
}

func (w *Writer) notify() {
	select {
	case w.signal <- struct{}{}:
	default:
	}
}

// Run writes until ctx is done or the Pod is deleted.
func (w *Writer) Run(ctx context.Context) {
	defer w.setWritten(nil)
	delay := firstWriteRetry
	timer := time.NewTimer(0)
	timer.Stop() // it is set while a status settles
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.signal:
		case <-timer.C:
		}
		w.mu.Lock()
		pod, status, finish, settling := w.pod, w.status, w.delete, settles(w.status, w.since)
		w.mu.Unlock()
		if settling > 0 && !finish {
			timer.Reset(settling)
			continue
		}
		err := w.write(ctx, pod, status)
		if err == nil && status != nil {
			w.setWritten(status)
		}
		if err == nil && finish {
			err = w.remove(ctx, pod)
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
		w.log.Error(err, "report pod", "again", delay)
		if !pause.For(ctx, delay) {
			return
		}
		delay = min(2*delay, lastWriteRetry)
		w.notify()
	}
}

// write updates the status of the newest version of the pod in the API. It ignores a deleted pod.
func (w *Writer) write(ctx context.Context, pod *corev1.Pod, status *corev1.PodStatus) error {
	if status == nil {
		return nil
	}
	if w.known == nil || time.Since(w.asked) > trustWritten {
		// By now the cache contains that write, and later writes of other clients.
		w.known = pod
	}
	for range maxConflicts {
		if w.unsure {
			if gone, err := w.ask(ctx, pod); gone || err != nil {
				return err
			}
		}
		next := *w.known
		next.Status = lifecycle.MergeStatus(&w.known.Status, status, time.Now())
		if equality.Semantic.DeepEqual(&next.Status, &w.known.Status) {
			return nil
		}
		written, err := w.pods.UpdateStatus(ctx, &next)
		if err == nil {
			w.known, w.asked = written, time.Now()
			return nil
		}
		if apierrors.IsNotFound(err) {
			return nil
		}
		w.unsure = true
		if !apierrors.IsConflict(err) {
			return fmt.Errorf("update status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	return fmt.Errorf("update status of pod %s/%s: conflict after conflict", pod.Namespace, pod.Name)
}

// ask reads the pod from the API. It reports whether it is gone, or another pod has its name.
func (w *Writer) ask(ctx context.Context, pod *corev1.Pod) (gone bool, err error) {
	live, err := w.pods.Get(ctx, pod.Namespace, pod.Name)
	if apierrors.IsNotFound(err) || err == nil && live.UID != pod.UID {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("get pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	w.known, w.asked, w.unsure = live, time.Now(), false
	return false, nil
}

// remove deletes the Pod, but not another pod with the same name.
func (w *Writer) remove(ctx context.Context, pod *corev1.Pod) error {
	now := int64(0)
	err := w.pods.Delete(ctx, pod.Namespace, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &pod.UID},
	})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("delete pod %s/%s: %w", pod.Namespace, pod.Name, err)
}
