package resize

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
)

// summary is the JSON at the end of the message of an event.
type summary struct {
	InitContainers []containerSize `json:"initContainers,omitempty"`
	Containers     []containerSize `json:"containers,omitempty"`
	Generation     int64           `json:"generation"`
	Error          string          `json:"error,omitempty"`
}

type containerSize struct {
	Name      string                      `json:"name"`
	Resources corev1.ResourceRequirements `json:"resources"`
}

// Message returns the message of an event about a resize: what happened, and the size of the pod.
// problem may be empty.
func Message(what string, pod *corev1.Pod, generation int64, problem string) string {
	s := summary{Generation: generation, Error: problem}
	for i := range pod.Spec.InitContainers {
		s.InitContainers = append(s.InitContainers, containerSize{pod.Spec.InitContainers[i].Name, pod.Spec.InitContainers[i].Resources})
	}
	for i := range pod.Spec.Containers {
		s.Containers = append(s.Containers, containerSize{pod.Spec.Containers[i].Name, pod.Spec.Containers[i].Resources})
	}
	text, err := json.Marshal(s)
	if err != nil {
		return what
	}
	return what + ": " + string(text)
}
