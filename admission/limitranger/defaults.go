package limitranger

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// complete applies the defaults of l to the containers of pod.
func complete(pod *corev1.Pod, l *corev1.LimitRange) {
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	for i := range l.Spec.Limits {
		if item := &l.Spec.Limits[i]; item.Type == corev1.LimitTypeContainer {
			maps.Copy(requests, item.DefaultRequest)
			maps.Copy(limits, item.Default)
		}
	}
	var done []string
	for _, group := range []struct {
		called     string
		containers []corev1.Container
	}{{"container", pod.Spec.Containers}, {"init container", pod.Spec.InitContainers}} {
		for i := range group.containers {
			c := &group.containers[i]
			// The order does not matter, because limits and requests are independent here.
			if given := give(&c.Resources.Requests, requests); given != "" {
				done = append(done, given+" request for "+group.called+" "+c.Name)
			}
			if given := give(&c.Resources.Limits, limits); given != "" {
				done = append(done, given+" limit for "+group.called+" "+c.Name)
			}
		}
	}
	if len(done) == 0 {
		return
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[Annotation] = "LimitRanger plugin set: " + strings.Join(done, "; ")
}

// give adds missing defaults to list, and returns their names.
func give(list *corev1.ResourceList, defaults corev1.ResourceList) string {
	var given []string
	for _, name := range slices.Sorted(maps.Keys(defaults)) {
		if _, ok := (*list)[name]; ok {
			continue
		}
		if *list == nil {
			*list = corev1.ResourceList{}
		}
		(*list)[name] = defaults[name].DeepCopy()
		given = append(given, string(name))
	}
	return strings.Join(given, ", ")
}
