package kubelet

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const (
	reasonVanished  = "ContainerStatusUnknown"
	messageVanished = "The container could not be located when the pod was terminated"
)

// recall adds to s the containers that the pod's status tells of and the
// runtime no longer has: after all was stopped and removed, or lost with the
// runtime. Restart counts then go on, and what was done is not done again. A
// container that was running is recalled as killed.
func recall(pod *corev1.Pod, s *podState) {
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, status := range list {
			if status.ContainerID == "" || s.latest(status.Name) != nil {
				continue
			}
			t := endOf(&status)
			_, id, _ := strings.Cut(status.ContainerID, "://")
			s.containers = append(s.containers, containerState{
				id: id, name: status.Name, attempt: uint32(status.RestartCount), phase: containerExited,
				started: t.StartedAt.Time, finished: t.FinishedAt.Time,
				exitCode: t.ExitCode, reason: t.Reason, message: t.Message,
				image: status.Image, imageID: status.ImageID, recalled: true,
			})
		}
	}
}

// endOf tells how the container that a status speaks of ended, given that it is
// gone.
func endOf(status *corev1.ContainerStatus) corev1.ContainerStateTerminated {
	switch {
	case status.State.Terminated != nil:
		return *status.State.Terminated
	case status.State.Waiting != nil && status.LastTerminationState.Terminated != nil:
		return *status.LastTerminationState.Terminated
	}
	t := corev1.ContainerStateTerminated{
		ExitCode: 137, Reason: reasonVanished, Message: messageVanished, ContainerID: status.ContainerID,
	}
	if r := status.State.Running; r != nil {
		t.StartedAt = r.StartedAt
	}
	return t
}
