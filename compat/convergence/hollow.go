package convergence

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// fate is the annotation of a pod that says how it ends. A pod without one runs and is
// ready.
const (
	fate     = "hollow/fate"
	succeeds = "succeeds" // it runs, then it has succeeded
	fails    = "fails"    // it runs, then it has failed
	starts   = "starts"   // it runs, and is never ready
)

// nodeName is the node that all pods are bound to.
const nodeName = "hollow"

// hollow does to the pods of one namespace what a scheduler and a kubelet do.
type hollow struct {
	client    kubernetes.Interface
	record    *record
	namespace string
	// number is of this room among those of a side, pods counts those that were
	// given an address.
	number, pods int
}

// step does what is due to the first pod that something is due to, and says
// whether there was one.
func (h *hollow) step(ctx context.Context) (bool, error) {
	list, err := h.client.CoreV1().Pods(h.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, err
	}
	pods := list.Items
	slices.SortFunc(pods, func(a, b corev1.Pod) int {
		return cmp.Or(cmp.Compare(h.rank(&a), h.rank(&b)), cmp.Compare(h.record.place(a.UID), h.record.place(b.UID)))
	})
	for i := range pods {
		due, err := h.advance(ctx, &pods[i])
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return true, nil // a controller was there first
		}
		if due || err != nil {
			return due, err
		}
	}
	return false, nil
}

// rank puts pods of an earlier owner first.
func (h *hollow) rank(pod *corev1.Pod) int {
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return h.record.place(owner.UID)
	}
	return -1
}

// advance takes a pod one step further, if one is due.
func (h *hollow) advance(ctx context.Context, pod *corev1.Pod) (bool, error) {
	pods := h.client.CoreV1().Pods(pod.Namespace)
	switch {
	case pod.DeletionTimestamp != nil:
		if *pod.DeletionGracePeriodSeconds == 0 {
			return false, nil // a finalizer holds it
		}
		none := int64(0)
		return true, pods.Delete(ctx, pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: &none, Preconditions: &metav1.Preconditions{UID: &pod.UID},
		})
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		return false, nil
	case pod.Spec.NodeName == "":
		err := pods.Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
			Target:     corev1.ObjectReference{Kind: "Node", Name: nodeName},
		}, metav1.CreateOptions{})
		if err != nil {
			return true, err
		}
		if pod, err = pods.Get(ctx, pod.Name, metav1.GetOptions{}); err != nil {
			return true, err
		}
		h.run(pod)
	case pod.Annotations[fate] == succeeds:
		end(pod, corev1.PodSucceeded, 0)
	case pod.Annotations[fate] == fails:
		end(pod, corev1.PodFailed, 1)
	default:
		return false, nil
	}
	_, err := pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return true, err
}

// run changes pod as the kubelet does when all containers run.
func (h *hollow) run(pod *corev1.Pod) {
	h.pods++
	now := metav1.Now()
	// Of one length, so that none begins as another does.
	ip := fmt.Sprintf("10.%d.%d.%d", 100+h.number, 100+h.pods/100, 100+h.pods%100)
	s := &pod.Status
	s.Phase, s.StartTime = corev1.PodRunning, &now
	s.PodIP, s.PodIPs = ip, []corev1.PodIP{{IP: ip}}
	s.HostIP, s.HostIPs = "192.168.0.1", []corev1.HostIP{{IP: "192.168.0.1"}}
	ready := pod.Annotations[fate] != starts
	for _, c := range pod.Spec.Containers {
		begun := true
		s.ContainerStatuses = append(s.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: "hollow://" + c.Image, ContainerID: "hollow://" + c.Name,
			Ready: ready, Started: &begun, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	setCondition(pod, corev1.PodInitialized, true, "")
	setCondition(pod, corev1.ContainersReady, ready, "ContainersNotReady")
	setCondition(pod, corev1.PodReady, ready, "ContainersNotReady")
}

// end changes pod as the kubelet does when all containers have ended.
func end(pod *corev1.Pod, phase corev1.PodPhase, code int32) {
	reason := map[corev1.PodPhase]string{corev1.PodSucceeded: "Completed", corev1.PodFailed: "Error"}[phase]
	pod.Status.Phase = phase
	for i := range pod.Status.ContainerStatuses {
		c := &pod.Status.ContainerStatuses[i]
		begun := false
		c.Ready, c.Started = false, &begun
		c.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: code, Reason: reason, ContainerID: c.ContainerID, FinishedAt: metav1.Now(),
		}}
	}
	why := map[corev1.PodPhase]string{corev1.PodSucceeded: "PodCompleted", corev1.PodFailed: "PodFailed"}[phase]
	setCondition(pod, corev1.ContainersReady, false, why)
	setCondition(pod, corev1.PodReady, false, why)
}

func setCondition(pod *corev1.Pod, kind corev1.PodConditionType, so bool, whyNot string) {
	c := corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}
	if !so {
		c.Status, c.Reason = corev1.ConditionFalse, whyNot
	}
	conditions := slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
	pod.Status.Conditions = append(conditions, c)
}
