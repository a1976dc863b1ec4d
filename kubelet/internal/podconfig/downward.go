package podconfig

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Field reads a field of the pod for the downward API.
// https://kubernetes.io/docs/concepts/workloads/pods/downward-api/
func (b *Builder) Field(pod *corev1.Pod, path string) (string, error) {
	if field, key, ok := mapKey(path); ok {
		switch field {
		case "metadata.annotations":
			return pod.Annotations[key], nil
		case "metadata.labels":
			return pod.Labels[key], nil
		}
		return "", fmt.Errorf("unsupported field %q", path)
	}
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "metadata.labels":
		return quoteMap(pod.Labels), nil
	case "metadata.annotations":
		return quoteMap(pod.Annotations), nil
	case "spec.nodeName":
		return b.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.hostIP":
		return strings.Join(b.HostIPs[:min(1, len(b.HostIPs))], ""), nil
	case "status.hostIPs":
		return strings.Join(b.HostIPs, ","), nil
	case "status.podIP":
		return pod.Status.PodIP, nil
	case "status.podIPs":
		var ips []string
		for _, ip := range pod.Status.PodIPs {
			ips = append(ips, ip.IP)
		}
		return strings.Join(ips, ","), nil
	}
	return "", fmt.Errorf("unsupported field %q", path)
}

// mapKey parses metadata.labels['KEY'].
func mapKey(path string) (field, key string, ok bool) {
	field, rest, ok := strings.Cut(path, "['")
	if !ok || !strings.HasSuffix(rest, "']") {
		return "", "", false
	}
	return field, strings.TrimSuffix(rest, "']"), true
}

// quoteMap formats labels or annotations as sorted lines key="value".
func quoteMap(m map[string]string) string {
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		lines = append(lines, key+"="+strconv.Quote(m[key]))
	}
	return strings.Join(lines, "\n")
}

// ResourceField reads a request or limit of a container in units of the divisor, rounded up. A
// missing limit is the node's capacity.
func (b *Builder) ResourceField(pod *corev1.Pod, c *corev1.Container, r *corev1.ResourceFieldSelector) (string, error) {
	if r.ContainerName != "" && (c == nil || c.Name != r.ContainerName) {
		if c = FindContainer(pod, r.ContainerName); c == nil {
			return "", fmt.Errorf("container %q not found", r.ContainerName)
		}
	}
	if c == nil {
		return "", fmt.Errorf("resource %q of no container", r.Resource)
	}
	kind, name, _ := strings.Cut(r.Resource, ".")
	var list corev1.ResourceList
	switch kind {
	case "limits":
		list = c.Resources.Limits
	case "requests":
		list = c.Resources.Requests
	default:
		return "", fmt.Errorf("unsupported resource %q", r.Resource)
	}
	quantity, set := list[corev1.ResourceName(name)]
	if !set && kind == "limits" {
		quantity = b.Capacity()[corev1.ResourceName(name)]
	}
	divisor := r.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	if name == string(corev1.ResourceCPU) {
		return strconv.FormatInt(divideUp(quantity.MilliValue(), divisor.MilliValue()), 10), nil
	}
	return strconv.FormatInt(divideUp(quantity.Value(), divisor.Value()), 10), nil
}

// divideUp returns a/b rounded up. A validated divisor is positive; any other b counts as 1.
func divideUp(a, b int64) int64 {
	b = max(b, 1)
	return (a + b - 1) / b
}

// FindContainer returns the container, init container or ephemeral container called name; nil if
// there is none.
func FindContainer(pod *corev1.Pod, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if e := &pod.Spec.EphemeralContainers[i]; e.Name == name {
			return (*corev1.Container)(&e.EphemeralContainerCommon)
		}
	}
	return nil
}
