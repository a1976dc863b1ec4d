package core

import (
	"fmt"
	"strconv"
	"time"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	"github.com/planekit/planekit/apiserver/kube/internal/podspec"
	corev1 "k8s.io/api/core/v1"
)

func podColumns() []apiserver.Column {
	specDoc, statusDoc := corev1.PodSpec{}.SwaggerDoc(), corev1.PodStatus{}.SwaggerDoc()
	columns := []apiserver.Column{
		column.Text("Ready", "The aggregate readiness state of this pod for accepting traffic.",
			func(p *corev1.Pod) string { return readPod(p).readyCell() }),
		column.Text("Status", "The aggregate status of the containers in this pod.",
			func(p *corev1.Pod) string { return readPod(p).reason }),
		column.TimeDependent(column.Text("Restarts", "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted.",
			func(p *corev1.Pod) string { return readPod(p).restartsCell() })),
		column.Age[*corev1.Pod](),
	}
	return append(columns, column.Wide(
		column.Text("IP", statusDoc["podIP"], func(p *corev1.Pod) string { return column.OrNone(p.Status.PodIP) }),
		column.Text("Node", specDoc["nodeName"], func(p *corev1.Pod) string { return column.OrNone(p.Spec.NodeName) }),
		column.Text("Nominated Node", statusDoc["nominatedNodeName"], func(p *corev1.Pod) string { return column.OrNone(p.Status.NominatedNodeName) }),
		column.Text("Readiness Gates", specDoc["readinessGates"], gatesCell),
	)...)
}

// A podState holds the cells of a pod's row.
type podState struct {
	reason       string
	ready, total int
	// restarts are all that were seen; sidecars those that matter even after
	// initialization.
	restarts, sidecars restarts
}

// restarts counts restarts and holds the end of the last container that was restarted.
type restarts struct {
	count int
	last  time.Time
}

func (r *restarts) add(c *corev1.ContainerStatus) {
	r.count += int(c.RestartCount)
	if t := c.LastTerminationState.Terminated; t != nil && t.FinishedAt.After(r.last) {
		r.last = t.FinishedAt.Time
	}
}

func (r podState) readyCell() string { return fmt.Sprintf("%d/%d", r.ready, r.total) }

func (r podState) restartsCell() string {
	if r.restarts.count == 0 || r.restarts.last.IsZero() {
		return strconv.Itoa(r.restarts.count)
	}
	return fmt.Sprintf("%d (%s ago)", r.restarts.count, column.Since(r.restarts.last))
}

// readPod finds the word that says most about a pod: the state of its deletion, its containers or
// its init containers, or else its own reason or phase.
func readPod(pod *corev1.Pod) podState {
	sidecars := map[string]bool{}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; podspec.IsSidecar(c) {
			sidecars[c.Name] = true
		}
	}
	r := podState{
		reason: podReason(pod),
		total:  len(pod.Spec.Containers) + len(sidecars),
	}
	initializing := r.readInit(pod, sidecars)
	if !initializing || isTrue(pod, corev1.PodInitialized) {
		r.readContainers(pod)
	}
	if pod.DeletionTimestamp != nil {
		switch {
		case pod.Status.Reason == nodeLost:
			r.reason = "Unknown"
		case !finished(pod):
			r.reason = "Terminating"
		}
	}
	return r
}

// nodeLost is the reason of a pod whose node no longer answers.
const nodeLost = "NodeLost"

func podReason(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonSchedulingGated {
			return corev1.PodReasonSchedulingGated
		}
	}
	if pod.Status.Reason != "" {
		return pod.Status.Reason
	}
	return string(pod.Status.Phase)
}

// readInit reads the init containers up to the first that has not finished, and reports whether
// there is one.
func (r *podState) readInit(pod *corev1.Pod, sidecars map[string]bool) bool {
	for i := range pod.Status.InitContainerStatuses {
		c := &pod.Status.InitContainerStatuses[i]
		r.restarts.add(c)
		if sidecars[c.Name] {
			r.sidecars.add(c)
		}
		end, waiting := c.State.Terminated, c.State.Waiting
		switch {
		case end != nil && end.ExitCode == 0:
		case sidecars[c.Name] && optional.Deref(c.Started):
			if c.Ready {
				r.ready++
			}
		case end != nil:
			r.reason = "Init:" + ending(end)
			return true
		case waiting != nil && waiting.Reason != "" && waiting.Reason != "PodInitializing":
			r.reason = "Init:" + waiting.Reason
			return true
		default:
			r.reason = fmt.Sprintf("Init:%d/%d", i, len(pod.Spec.InitContainers))
			return true
		}
	}
	return false
}

// readContainers takes the reason of the first container that has one. Of the restarts so far only
// those of sidecars count.
func (r *podState) readContainers(pod *corev1.Pod) {
	r.restarts = r.sidecars
	var running bool
	var failure string
	for i := len(pod.Status.ContainerStatuses) - 1; i >= 0; i-- {
		c := &pod.Status.ContainerStatuses[i]
		r.restarts.add(c)
		switch end, waiting := c.State.Terminated, c.State.Waiting; {
		case waiting != nil && waiting.Reason != "":
			r.reason = waiting.Reason
		case end != nil:
			r.reason = ending(end)
			if end.ExitCode != 0 {
				failure = r.reason
			}
		case c.Ready && c.State.Running != nil:
			running = true
			r.ready++
		}
	}
	// One container that completed says nothing about the others.
	if r.reason != "Completed" {
		return
	}
	switch {
	case running && isTrue(pod, corev1.PodReady):
		r.reason = "Running"
	case failure != "":
		r.reason = failure
	case running:
		r.reason = "NotReady"
	}
}

// ending returns how a container ended.
func ending(t *corev1.ContainerStateTerminated) string {
	switch {
	case t.Reason != "":
		return t.Reason
	case t.Signal != 0:
		return fmt.Sprintf("Signal:%d", t.Signal)
	}
	return fmt.Sprintf("ExitCode:%d", t.ExitCode)
}

func isTrue(pod *corev1.Pod, condition corev1.PodConditionType) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == condition {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func gatesCell(pod *corev1.Pod) string {
	if len(pod.Spec.ReadinessGates) == 0 {
		return column.None
	}
	open := 0
	for _, g := range pod.Spec.ReadinessGates {
		if isTrue(pod, g.ConditionType) {
			open++
		}
	}
	return fmt.Sprintf("%d/%d", open, len(pod.Spec.ReadinessGates))
}
