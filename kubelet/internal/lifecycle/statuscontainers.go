package lifecycle

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reasons of containers that wait because their pod begins to start.
const (
	ContainerCreating = "ContainerCreating"
	PodInitializing   = "PodInitializing"
)

// containers returns the statuses of specs, in their order.
func (o *Observation) containers(specs []corev1.Container, old []corev1.ContainerStatus, init bool) []corev1.ContainerStatus {
	var list []corev1.ContainerStatus
	for i := range specs {
		list = append(list, o.container(&specs[i], findStatus(old, specs[i].Name), init))
	}
	return list
}

// ephemeral returns the statuses of the ephemeral containers. They are never ready, and have no
// startup.
func (o *Observation) ephemeral(old []corev1.ContainerStatus) []corev1.ContainerStatus {
	var list []corev1.ContainerStatus
	for i := range o.Pod.Spec.EphemeralContainers {
		spec := (*corev1.Container)(&o.Pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		status := o.container(spec, findStatus(old, spec.Name), false)
		status.Ready, status.Started = false, nil
		if c := o.State.latest(spec.Name); c != nil && c.recalled {
			status.State = corev1.ContainerState{Terminated: o.terminated(c)} // it is not started again
		}
		list = append(list, status)
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
func (o *Observation) container(spec *corev1.Container, old *corev1.ContainerStatus, init bool) corev1.ContainerStatus {
	status := corev1.ContainerStatus{Name: spec.Name, Image: spec.Image, Started: new(bool), VolumeMounts: o.volumeMounts(spec)}
	current := o.State.latest(spec.Name)
	waiting, held := o.Decision.Waiting[spec.Name]
	if current == nil {
		if !held {
			waiting = corev1.ContainerStateWaiting{Reason: ContainerCreating}
			if !o.Decision.Initialized || init && o.hasInit() {
				waiting.Reason = PodInitializing
			}
		}
		status.State.Waiting = &waiting
		return status
	}
	o.size(&status, spec, current)
	status.RestartCount = int32(current.Attempt)
	if o.awaitsRound(current) {
		status.RestartCount++ // also if the pod ends before
		if !o.Decision.Finished {
			if !held {
				waiting = corev1.ContainerStateWaiting{Reason: reasonRestarting, Message: messageRestarting}
			}
			status.State.Waiting, status.LastTerminationState.Terminated = &waiting, restarting()
			return status
		}
	}
	status.ContainerID = o.Runtime + "://" + current.ID
	status.ImageID = current.ImageID
	if current.Image != "" {
		status.Image = current.Image
	}
	if current.User != nil {
		status.User = &corev1.ContainerUser{Linux: current.User.DeepCopy()}
	}
	status.LastTerminationState = o.lastTermination(current, old)
	switch {
	case current.Phase == Running:
		status.State.Running = &corev1.ContainerStateRunning{StartedAt: Seconds(current.Started)}
		health := o.State.health(spec)
		*status.Started = health.Started
		status.Ready = health.Ready && (!init || IsSidecar(spec))
	case held:
		status.State.Waiting = &waiting
		status.LastTerminationState.Terminated = o.terminated(current)
	case current.Phase == Exited && current.recalled && !o.Decision.Finished && o.returns(spec, current, init):
		status.State.Waiting = &corev1.ContainerStateWaiting{Reason: ContainerCreating}
		status.LastTerminationState.Terminated = o.terminated(current)
	case current.Phase == Exited:
		status.State.Terminated = o.terminated(current)
		status.Ready = init && !IsSidecar(spec) && current.ExitCode == 0
	default:
		status.State.Waiting = &corev1.ContainerStateWaiting{Reason: ContainerCreating}
	}
	return status
}

// volumeMounts returns the volumes that a container mounts, and for the read-only ones, whether the
// mounts below are read-only too.
func (o *Observation) volumeMounts(spec *corev1.Container) []corev1.VolumeMountStatus {
	var list []corev1.VolumeMountStatus
	for i := range spec.VolumeMounts {
		m := &spec.VolumeMounts[i]
		status := corev1.VolumeMountStatus{Name: m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly}
		if m.ReadOnly {
			mode := corev1.RecursiveReadOnlyDisabled
			// With an error the container does not start, and its state says why.
			if recursive, err := RecursiveReadOnly(m, o.RecursiveReadOnly); err == nil && recursive {
				mode = corev1.RecursiveReadOnlyEnabled
			}
			status.RecursiveReadOnly = &mode
		}
		list = append(list, status)
	}
	return list
}

// returns reports whether a container that is gone will run again.
func (o *Observation) returns(spec *corev1.Container, c *Container, init bool) bool {
	if init {
		return IsSidecar(spec) || !o.Decision.Initialized
	}
	return restarts(spec, o.Pod.Spec.RestartPolicy, c)
}

func (o *Observation) hasInit() bool { return len(o.Pod.Spec.InitContainers) > 0 }

// lastTermination returns how the container before current ended: from the runtime, or else from
// the previous status.
func (o *Observation) lastTermination(current *Container, old *corev1.ContainerStatus) corev1.ContainerState {
	if current.First && current.Round > 0 {
		return corev1.ContainerState{Terminated: restarting()}
	}
	for i := range o.State.Containers {
		c := &o.State.Containers[i]
		if c.Name == current.Name && c.ID != current.ID && c.Phase == Exited {
			return corev1.ContainerState{Terminated: o.terminated(c)}
		}
	}
	if old == nil || old.ContainerID == "" {
		return corev1.ContainerState{}
	}
	if old.ContainerID != o.Runtime+"://"+current.ID && uint32(old.RestartCount) < current.Attempt {
		t := endOf(old)
		return corev1.ContainerState{Terminated: &t}
	}
	return *old.LastTerminationState.DeepCopy()
}

func (o *Observation) terminated(c *Container) *corev1.ContainerStateTerminated {
	return &corev1.ContainerStateTerminated{
		ExitCode: c.ExitCode, Reason: c.Reason, Message: c.Message,
		StartedAt: Seconds(c.Started), FinishedAt: Seconds(c.Finished),
		ContainerID: o.Runtime + "://" + c.ID,
	}
}

// Seconds returns t with the API's precision, so that it compares equal after it was written and
// read.
func Seconds(t time.Time) metav1.Time {
	if t.IsZero() {
		return metav1.Time{}
	}
	return metav1.Time{Time: t.Truncate(time.Second)}
}
