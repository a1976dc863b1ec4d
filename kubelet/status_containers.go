package kubelet

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// containers returns the statuses of specs, in their order.
func (o *observation) containers(specs []corev1.Container, old []corev1.ContainerStatus, init bool) []corev1.ContainerStatus {
	var list []corev1.ContainerStatus
	for i := range specs {
		list = append(list, o.container(&specs[i], findStatus(old, specs[i].Name), init))
	}
	return list
}

func findStatus(list []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

// container returns the status of one container; old is the previous one, or nil.
func (o *observation) container(spec *corev1.Container, old *corev1.ContainerStatus, init bool) corev1.ContainerStatus {
	status := corev1.ContainerStatus{Name: spec.Name, Image: spec.Image, Started: new(bool)}
	current := o.state.latest(spec.Name)
	waiting, held := o.decision.waiting[spec.Name]
	if current == nil {
		if !held {
			waiting = corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
			if !o.decision.initialized || init && o.hasInit() {
				waiting.Reason = "PodInitializing"
			}
		}
		status.State.Waiting = &waiting
		return status
	}
	status.ContainerID = o.runtime + "://" + current.id
	status.RestartCount = int32(current.attempt)
	status.ImageID = current.imageID
	if current.image != "" {
		status.Image = current.image
	}
	status.LastTerminationState = o.lastTermination(current, old)
	switch {
	case current.phase == containerRunning:
		status.State.Running = &corev1.ContainerStateRunning{StartedAt: seconds(current.started)}
		health := o.state.health(spec)
		*status.Started = health.Started
		status.Ready = health.Ready && (!init || sidecar(spec))
	case held:
		status.State.Waiting = &waiting
		status.LastTerminationState.Terminated = o.terminated(current)
	case current.phase == containerExited && current.recalled && !o.decision.finished && o.returns(spec, current, init):
		status.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
		status.LastTerminationState.Terminated = o.terminated(current)
	case current.phase == containerExited:
		status.State.Terminated = o.terminated(current)
		status.Ready = init && !sidecar(spec) && current.exitCode == 0
	default:
		status.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
	}
	return status
}

// returns reports whether a container that is gone will run again.
func (o *observation) returns(spec *corev1.Container, c *containerState, init bool) bool {
	if init {
		return sidecar(spec) || !o.decision.initialized
	}
	return restarts(o.pod.Spec.RestartPolicy, c)
}

func (o *observation) hasInit() bool { return len(o.pod.Spec.InitContainers) > 0 }

// lastTermination returns how the container before current ended: from the runtime, or else from
// the previous status.
func (o *observation) lastTermination(current *containerState, old *corev1.ContainerStatus) corev1.ContainerState {
	for i := range o.state.containers {
		c := &o.state.containers[i]
		if c.name == current.name && c.id != current.id && c.phase == containerExited {
			return corev1.ContainerState{Terminated: o.terminated(c)}
		}
	}
	if old == nil || old.ContainerID == "" {
		return corev1.ContainerState{}
	}
	if old.ContainerID != o.runtime+"://"+current.id && uint32(old.RestartCount) < current.attempt {
		t := endOf(old)
		return corev1.ContainerState{Terminated: &t}
	}
	return *old.LastTerminationState.DeepCopy()
}

func (o *observation) terminated(c *containerState) *corev1.ContainerStateTerminated {
	return &corev1.ContainerStateTerminated{
		ExitCode: c.exitCode, Reason: c.reason, Message: c.message,
		StartedAt: seconds(c.started), FinishedAt: seconds(c.finished),
		ContainerID: o.runtime + "://" + c.id,
	}
}

// seconds returns t with the API's precision, so that it compares equal after it was written and
// read.
func seconds(t time.Time) metav1.Time {
	if t.IsZero() {
		return metav1.Time{}
	}
	return metav1.Time{Time: t.Truncate(time.Second)}
}
