package kubelet

import (
	"context"
	"sync"
	"time"

	"github.com/planekit/planekit/kubelet/internal/lifecycle"
	"github.com/planekit/planekit/kubelet/internal/observe"
	"github.com/planekit/planekit/kubelet/internal/startup"
	"github.com/planekit/planekit/kubelet/internal/statuswriter"
	"github.com/planekit/planekit/kubelet/probe"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// retrySync is the delay after a failed sync.
const retrySync = time.Second

// worker syncs one pod. Only its run method acts; the other methods send requests to it.
type worker struct {
	kubelet  *Kubelet
	uid      podUID
	reporter *statuswriter.Writer
	poked    chan struct{} // of size 1: a second request adds nothing
	ended    chan struct{} // closed when nothing of the pod runs, or ever will, and that was reported
	seen     time.Time     // when the pod was first seen
	startup  *startup.Timer
	released chan struct{} // closed when the pod holds no volume and no cgroup any more; only run closes it

	// Only run uses the fields below.
	final     *corev1.PodStatus // the last one with which the pod has ended; nil if it has not
	observer  *observe.Observer
	memory    *lifecycle.Memory
	volumes   map[string]string
	volumesAt time.Time // when volumes were last refreshed
	// imageVolumes has the images of volumes by volume. They are ensured again whenever containers start.
	imageVolumes map[string]*runtimeapi.ImageSpec
	mounting     mountBackoff
	removal      removal
	resizing     resizing
	probes       *probe.Set
	admission    podAdmission
	assigned     bool            // see assignCPUs
	phase        corev1.PodPhase // as last reported
	overdue      bool            // the event about the active deadline was sent
	protected    string          // the sandbox with whose addresses Config.Protect was called

	mu sync.Mutex
	// mu guards the fields below.
	pod       *corev1.Pod
	gone      bool                 // the API no longer has the pod
	rejection *lifecycle.Rejection // why the pod must not stay; may be nil
	urgent    bool                 // the pod must end sooner than before
	interrupt context.CancelFunc   // interrupts the sync in progress; may be nil
	mounted   map[string]string    // the paths of the volumes; never changed
	stopped   map[string]bool      // the IDs of the containers whose preStop hooks were called
}

func newWorker(k *Kubelet, pod *corev1.Pod) *worker {
	w := &worker{
		kubelet:  k,
		uid:      pod.UID,
		reporter: statuswriter.New(k.config.PodStatus, k.log.WithValues("pod", pod.Namespace+"/"+pod.Name)),
		poked:    make(chan struct{}, 1),
		ended:    make(chan struct{}),
		released: make(chan struct{}),
		observer: observe.New(k.config.Runtime, pod.UID, k.config.NodeName),
		memory:   lifecycle.NewMemory(),
		pod:      pod,
		seen:     time.Now(),
		startup:  startup.New(pod),
		phase:    pod.Status.Phase,
	}
	w.probes = w.newProbes()
	return w
}

// poke requests a sync.
func (w *worker) poke() {
	select {
	case w.poked <- struct{}{}:
	default:
	}
}

// update passes a newer version of the pod to the worker. If it must end sooner than before, the
// work in progress is interrupted.
func (w *worker) update(pod *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone {
		return
	}
	old := w.pod
	pod = newer(old, pod)
	w.pod = pod
	urgent := old.DeletionTimestamp == nil && pod.DeletionTimestamp != nil ||
		pod.DeletionTimestamp != nil && grace(pod) < grace(old)
	w.urgent = w.urgent || urgent
	if urgent && w.interrupt != nil {
		w.interrupt()
	}
	// A change of only this kubelet's own status needs no sync.
	if old == pod || urgent || old.Generation != pod.Generation || old.Generation == 0 ||
		old.Status.Phase != pod.Status.Phase ||
		!equality.Semantic.DeepEqual(old.Annotations, pod.Annotations) || !equality.Semantic.DeepEqual(old.Labels, pod.Labels) {
		w.poke()
	}
}

// forget records that the API no longer has the pod.
func (w *worker) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.urgent = w.urgent || !w.gone
	w.gone = true
	if w.interrupt != nil && w.pod.DeletionTimestamp == nil {
		w.interrupt()
	}
	w.poke()
}

// reject makes the worker end the pod. A pod that was rejected before keeps its first reason. It
// reports whether this is the first.
func (w *worker) reject(r lifecycle.Rejection) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rejection != nil || w.gone {
		return false
	}
	w.rejection = &r
	if w.interrupt != nil && w.pod.DeletionTimestamp == nil {
		w.interrupt()
	}
	w.poke()
	return true
}

// rejected returns why the pod must not stay; nil if it may.
func (w *worker) rejected() *lifecycle.Rejection {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rejection
}

// setReleased closes w.released. Only run calls it.
func (w *worker) setReleased() {
	if !isClosed(w.released) {
		close(w.released)
	}
}

// setEnded closes w.ended. Only run calls it.
func (w *worker) setEnded() {
	if !isClosed(w.ended) {
		close(w.ended)
	}
}

// run syncs the pod whenever requested or due, until the pod is gone from both the API and the
// runtime.
func (w *worker) run(ctx context.Context) {
	reporting, stopReporting := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() { w.reporter.Run(reporting) })
	defer group.Wait()
	defer stopReporting()
	defer w.probes.Stop()

	timer := time.NewTimer(0)
	defer timer.Stop()
	cleaned := false
	var work workTimer
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-w.poked:
		case <-timer.C:
		}
		once, cancel := context.WithCancel(ctx)
		pod, gone := w.begin(cancel)
		var again time.Time
		if !cleaned {
			work.begin(w, pod, gone || pod.DeletionTimestamp != nil)
		}
		switch {
		case cleaned:
		case gone || pod.DeletionTimestamp != nil:
			if !w.removal.held() {
				cleaned = w.terminate(once, w.kubelet.allocations.Stopping(pod), gone)
			}
			if !cleaned {
				again = w.removal.until
			}
		case w.mustWait(pod):
		default:
			again = w.sync(once, pod)
		}
		w.end(cancel)
		work.end(w, cleaned)
		if cleaned {
			w.setEnded()
			w.setReleased()
			w.kubelet.updateClasses()
		}
		if cleaned && gone {
			w.kubelet.drop(w)
			return
		}
		timer.Stop()
		if !again.IsZero() {
			timer.Reset(time.Until(again))
		}
	}
}

// current returns the pod, and whether the API no longer has it.
func (w *worker) current() (*corev1.Pod, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pod, w.gone
}

// begin returns the pod to sync. From then on, updates may call cancel to interrupt the sync.
func (w *worker) begin(cancel context.CancelFunc) (*corev1.Pod, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.interrupt = cancel
	if w.urgent {
		w.urgent, w.removal.until = false, time.Time{}
	}
	return w.pod, w.gone
}

func (w *worker) end(cancel context.CancelFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.interrupt = nil
	cancel()
}

// drop removes a worker whose pod is gone.
func (k *Kubelet) drop(w *worker) {
	k.mu.Lock()
	if k.workers[w.uid] == w {
		delete(k.workers, w.uid)
	}
	k.mu.Unlock()
	k.tokens.Forget(w.uid)
	k.usage.Forget(w.uid)
	k.allocations.Forget(w.uid)
	k.gate.Forget(w.uid)
	pod, _ := w.current()
	k.ended(pod)
}
