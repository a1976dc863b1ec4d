package lifecycle

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Limits of the messages in the status of a pod, in bytes. All containers share them. The first is that of
// Kubernetes; the second keeps the errors of many containers from making the pod too large to be written.
const (
	terminationMessages = 12 << 10
	waitingMessages     = 256 << 10
)

// shortenMessages cuts the messages of containers.
func shortenMessages(status *corev1.PodStatus) {
	lists := [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses}
	containers := 0
	for _, list := range lists {
		containers += len(list)
	}
	if containers == 0 {
		return
	}
	shorten := func(s *corev1.ContainerState) {
		if s.Terminated != nil {
			s.Terminated.Message = cut(s.Terminated.Message, terminationMessages/containers)
		}
		if s.Waiting != nil {
			s.Waiting.Message = cut(s.Waiting.Message, waitingMessages/containers)
		}
	}
	for _, list := range lists {
		for i := range list {
			shorten(&list[i].State)
			shorten(&list[i].LastTerminationState)
		}
	}
}

// cut returns at most n bytes of a text, without half a character at the end.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "")
}
