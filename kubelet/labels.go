package kubelet

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// Labels and annotations of sandboxes and containers. All except the node's are known to tools for
// Kubernetes runtimes, such as crictl.
const (
	labelPodName       = "io.kubernetes.pod.name"
	labelPodNamespace  = "io.kubernetes.pod.namespace"
	labelPodUID        = "io.kubernetes.pod.uid"
	labelContainerName = "io.kubernetes.container.name"
	// labelNode distinguishes the pods of several kubelets in one runtime.
	labelNode = "planekit.io/node"

	annotationSpec        = "io.kubernetes.container.hash"
	annotationGrace       = "io.kubernetes.pod.terminationGracePeriod"
	annotationMessagePath = "io.kubernetes.container.terminationMessagePath"
	annotationMessageFrom = "io.kubernetes.container.terminationMessagePolicy"
)

func (k *Kubelet) podLabels(pod *corev1.Pod) map[string]string {
	labels := maps.Clone(pod.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[labelPodName] = pod.Name
	labels[labelPodNamespace] = pod.Namespace
	labels[labelPodUID] = string(pod.UID)
	labels[labelNode] = k.config.NodeName
	return labels
}

func (k *Kubelet) containerLabels(pod *corev1.Pod, c *corev1.Container) map[string]string {
	return map[string]string{
		labelPodName:       pod.Name,
		labelPodNamespace:  pod.Namespace,
		labelPodUID:        string(pod.UID),
		labelContainerName: c.Name,
		labelNode:          k.config.NodeName,
	}
}

func containerAnnotations(pod *corev1.Pod, c *corev1.Container) map[string]string {
	a := map[string]string{
		annotationSpec:        fingerprint(c),
		annotationMessagePath: messagePath(c),
		annotationMessageFrom: string(c.TerminationMessagePolicy),
	}
	if g := pod.Spec.TerminationGracePeriodSeconds; g != nil {
		a[annotationGrace] = strconv.FormatInt(*g, 10)
	}
	return a
}

// fingerprint hashes the mutable part of a container spec, its image. A change restarts the
// container.
func fingerprint(c *corev1.Container) string {
	h := fnv.New32a()
	// Strings can always be encoded.
	text, _ := json.Marshal([]string{c.Name, c.Image})
	h.Write(text)
	return fmt.Sprintf("%x", h.Sum32())
}

// messagePath returns the path of a container's termination message file.
func messagePath(c *corev1.Container) string {
	if c.TerminationMessagePath != "" {
		return c.TerminationMessagePath
	}
	return corev1.TerminationMessagePathDefault
}
