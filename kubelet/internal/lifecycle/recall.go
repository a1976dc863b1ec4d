package lifecycle

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const (
	reasonVanished  = "ContainerStatusUnknown"
	messageVanished = "The container could not be located when the pod was terminated"
)

// Recall adds to s the containers that are in the pod's status but no longer in the runtime,
// because they were removed or the runtime has lost them. Their restart counts then continue, and
// completed work is not repeated. A container that was running is recalled as killed.
func Recall(pod *corev1.Pod, s *State) {
	for _, list := range [][]corev1.ContainerStatus{
		pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses,
	} {
		for _, status := range list {
			if status.ContainerID == "" || s.latest(status.Name) != nil {
				continue
			}
			t := endOf(&status)
			_, id, _ := strings.Cut(status.ContainerID, "://")
			var user *corev1.LinuxContainerUser
			if status.User != nil {
				user = status.User.Linux
			}
			s.Containers = append(s.Containers, Container{
				ID: id, Name: status.Name, Attempt: uint32(status.RestartCount), Phase: Exited,
				Started: t.StartedAt.Time, Finished: t.FinishedAt.Time,
				ExitCode: t.ExitCode, Reason: t.Reason, Message: t.Message,
				Image: status.Image, ImageID: status.ImageID, User: user, recalled: true,
			})
		}
	}
}

// endOf returns how the container of a status ended, given that it is gone.
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
