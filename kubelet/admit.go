package kubelet

import (
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/planekit/planekit/kubelet/admission"
	"github.com/planekit/planekit/kubelet/eviction"
	"github.com/planekit/planekit/kubelet/internal/gate"
	"github.com/planekit/planekit/kubelet/internal/lifecycle"
	"github.com/planekit/planekit/kubelet/internal/machine"
	"github.com/planekit/planekit/kubelet/internal/pause"
	"github.com/planekit/planekit/kubelet/internal/podconfig"
	"github.com/planekit/planekit/kubelet/internal/qos"
	"github.com/planekit/planekit/kubelet/shutdown"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// admissionHandlers returns the checks of pods, in the order of Kubernetes' kubelet.
func (k *Kubelet) admissionHandlers() ([]admission.Handler, error) {
	builtin, err := admission.Handlers(admission.Host{
		OS: runtime.GOOS, Kernel: k.host.System.KernelVersion, AllowedUnsafeSysctls: k.config.AllowedUnsafeSysctls,
		AppArmor: machine.AppArmor("/sys"),
	})
	pressure := admission.HandlerFunc(func(r admission.Request) admission.Verdict {
		if message := eviction.Refuse(r.Pod, qos.Class(r.Pod), k.evictor.current()); message != "" {
			return admission.Verdict{Reason: eviction.Reason, Message: message}
		}
		return admission.Verdict{}
	})
	down := admission.HandlerFunc(func(admission.Request) admission.Verdict { return k.shutdownVerdict() })
	return slices.Concat([]admission.Handler{pressure}, builtin, k.config.Admission, []admission.Handler{down}), err
}

// shutdownVerdict refuses pods of a node that shuts down.
func (k *Kubelet) shutdownVerdict() admission.Verdict {
	if !k.shuttingDown.Load() {
		return admission.Verdict{}
	}
	return admission.Verdict{Reason: shutdown.RefusedReason, Message: shutdown.RefusedMessage}
}

// freshNodePatience is how long pods wait for the Node from the API.
const freshNodePatience = 5 * time.Second

// admissionNode returns the Node for admission; nil if it is not known.
func (k *Kubelet) admissionNode(ctx context.Context, fresh bool) *corev1.Node {
	if node := k.node.Load(); node == nil || k.config.standalone() {
		return k.remember(k.newNode()) // static pods start before the Node is registered
	} else if !fresh {
		return node
	}
	ctx, cancel := context.WithTimeout(ctx, freshNodePatience)
	defer cancel()
	node, err := k.config.Nodes.Get(ctx, "", k.config.NodeName)
	if err != nil {
		return nil
	}
	return k.remember(node)
}

// remember keeps a Node for admission, with the status of this kubelet.
func (k *Kubelet) remember(node *corev1.Node) *corev1.Node {
	node = node.DeepCopy()
	k.setNodeStatus(&node.Status, time.Now())
	k.node.Store(node)
	return node
}

// restore lets the pods that have started before hold their resources, before any other pod is
// admitted. It returns false if ctx is done before the runtime has said which these are.
func (k *Kubelet) restore(ctx context.Context) bool {
	started := map[podUID]bool{}
	if !pause.Retry(ctx, k.log, "runtime does not list its sandboxes", func() error {
		list, err := k.config.Runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{
			Filter: &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{podconfig.LabelNode: k.config.NodeName}},
		})
		for _, s := range list.GetItems() {
			started[podUID(s.GetLabels()[podconfig.LabelPodUID])] = true
		}
		return err
	}) {
		return false
	}
	var waiting []*corev1.Pod
	for pod := range k.pods.All() {
		switch {
		case pod.Spec.NodeName != k.config.NodeName || ended(pod):
		case started[pod.UID] || pod.Status.StartTime != nil:
			k.gate.Restore(pod)
		case pod.DeletionTimestamp == nil:
			waiting = append(waiting, pod)
		}
	}
	k.gate.Enqueue(waiting...)
	return true
}

// enter lets a pod without a worker queue for admission. A pod that has started before holds its
// resources.
func (k *Kubelet) enter(pod *corev1.Pod) {
	switch {
	case ended(pod):
	case pod.Status.StartTime != nil:
		k.gate.Restore(pod)
	case pod.DeletionTimestamp == nil:
		k.gate.Enqueue(pod)
	}
}

// leave takes back what a pod holds of the node, once nothing of it runs. It comes before the report to
// the API, after which a scheduler may bind another pod at once.
func (k *Kubelet) leave(uid podUID) {
	if k.gate.Leave(uid) {
		k.wakeAll() // some may wait for it
	}
}

// ended reports whether a pod has ended for good.
func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// podAdmission records the admission of a worker's pod.
type podAdmission struct {
	decided bool
	// after are the pods that leave before this one starts, for which it waits until a time.
	after []gate.Leaving
	until time.Time
}

// admit asks once whether the node takes a pod that has not started, and ends the pods that must make
// room for it. It returns until when the pod waits for these; zero if it need not.
func (w *worker) admit(ctx context.Context, pod *corev1.Pod, state *lifecycle.State) time.Time {
	a := &w.admission
	if !a.decided {
		a.decided = true
		switch {
		case ended(pod):
		case len(state.Sandboxes)+len(state.Containers) > 0 || pod.Status.StartTime != nil:
			w.kubelet.gate.Restore(pod)
			if w.kubelet.shuttingDown.Load() && w.kubelet.config.Shutdown.Ends() {
				w.reject(shutdownRejection(nil)) // Shutdown has not seen this worker
			}
		default:
			w.decide(ctx, pod)
		}
		if w.kubelet.gate.Ending(w.uid) {
			w.kubelet.preempt(pod) // it was chosen before it had a worker
		}
	}
	a.after = slices.DeleteFunc(a.after, func(l gate.Leaving) bool {
		select {
		case <-l.Left:
			return true
		default:
			return false
		}
	})
	if len(a.after) == 0 || w.rejected() != nil || !time.Now().Before(a.until) {
		return time.Time{}
	}
	return a.until
}

// decide asks whether the node takes the pod, and acts on the answer.
func (w *worker) decide(ctx context.Context, pod *corev1.Pod) {
	k := w.kubelet
	outcome := k.gate.Decide(ctx, pod)
	verdict := outcome.Verdict
	if verdict.Admits() {
		// Shutdown ends the pods that were admitted before it began.
		verdict = k.shutdownVerdict()
	}
	if !verdict.Admits() {
		if w.reject(lifecycle.Rejection{Reason: verdict.Reason, Message: "Pod was rejected: " + verdict.Message, Refused: true}) {
			k.events.Pod(pod, nil, corev1.EventTypeWarning, verdict.Reason, verdict.Message)
		}
		return
	}
	for _, victim := range outcome.Victims {
		k.preempt(victim)
	}
	w.admission.after = outcome.After
	for _, leaving := range outcome.After {
		w.admission.until = later(w.admission.until, time.Now().Add(leavePatience(leaving.Pod)))
	}
}

// leavePatience returns how long a pod may take to end before another one starts in its place.
func leavePatience(pod *corev1.Pod) time.Duration {
	period := time.Duration(grace(pod)) * time.Second
	return period + max(period/2, 10*time.Second)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// preempt ends a pod for a critical one.
func (k *Kubelet) preempt(pod *corev1.Pod) {
	w := k.find(pod.UID)
	if w == nil || !w.reject(lifecycle.Rejection{
		Reason: admission.ReasonPreempting, Message: admission.MessagePreempting,
		Disruption: true, DisruptionMessage: admission.MessageDisruptionOfPod,
	}) {
		return
	}
	k.log.Info("preempting pod", "pod", pod.Namespace+"/"+pod.Name)
	k.events.Pod(pod, nil, corev1.EventTypeWarning, admission.ReasonPreempting, admission.MessagePreempting)
}
