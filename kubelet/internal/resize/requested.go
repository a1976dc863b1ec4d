package resize

import corev1 "k8s.io/api/core/v1"

// Request is one resource of one container that a change of a spec resizes, in the words of Kubernetes'
// metrics.
type Request struct {
	// Resource is cpu or memory, Requirement requests or limits, and Operation add, remove, increase or
	// decrease.
	Resource, Requirement, Operation string
}

// Requested returns what a change from old to pod resizes, one request for each resource, requirement
// and container.
func Requested(old, pod *corev1.Pod) []Request {
	var list []Request
	before, now := Of(old), Of(pod)
	for name, size := range now.Containers {
		was, known := before.Containers[name]
		if !known {
			continue
		}
		for _, resource := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceCPU} {
			for _, r := range []struct {
				name     string
				now, was corev1.ResourceList
			}{{"requests", size.Requests, was.Requests}, {"limits", size.Limits, was.Limits}} {
				if operation := operation(amount(r.was, resource), amount(r.now, resource)); operation != "" {
					list = append(list, Request{string(resource), r.name, operation})
				}
			}
		}
	}
	return list
}

func operation(before, now int64) string {
	switch {
	case before == now:
		return ""
	case now == 0:
		return "remove"
	case before == 0:
		return "add"
	case now < before:
		return "decrease"
	}
	return "increase"
}
