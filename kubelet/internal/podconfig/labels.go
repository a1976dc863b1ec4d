package podconfig

import (
	"maps"
	"strconv"

	"github.com/planekit/planekit/kubelet/internal/lifecycle"
	corev1 "k8s.io/api/core/v1"
)

// Labels and annotations of sandboxes and containers. All except the node's are known to tools for
// Kubernetes runtimes, such as crictl.
const (
	LabelPodName       = "io.kubernetes.pod.name"
	LabelPodNamespace  = "io.kubernetes.pod.namespace"
	LabelPodUID        = "io.kubernetes.pod.uid"
	LabelContainerName = "io.kubernetes.container.name"
	// LabelNode distinguishes the pods of several kubelets in one runtime.
	LabelNode = "planekit.io/node"

	AnnotationSpec        = "io.kubernetes.container.hash"
	AnnotationGrace       = "io.kubernetes.pod.terminationGracePeriod"
	AnnotationMessagePath = "io.kubernetes.container.terminationMessagePath"
	AnnotationMessageFrom = "io.kubernetes.container.terminationMessagePolicy"
)

func (b *Builder) podLabels(pod *corev1.Pod) map[string]string {
	labels := maps.Clone(pod.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[LabelPodName] = pod.Name
	labels[LabelPodNamespace] = pod.Namespace
	labels[LabelPodUID] = string(pod.UID)
	labels[LabelNode] = b.NodeName
	return labels
}

func (b *Builder) containerLabels(pod *corev1.Pod, c *corev1.Container) map[string]string {
	return map[string]string{
		LabelPodName:       pod.Name,
		LabelPodNamespace:  pod.Namespace,
		LabelPodUID:        string(pod.UID),
		LabelContainerName: c.Name,
		LabelNode:          b.NodeName,
	}
}

func containerAnnotations(pod *corev1.Pod, c *corev1.Container) map[string]string {
	a := map[string]string{
		AnnotationSpec:        lifecycle.Fingerprint(c),
		AnnotationMessagePath: messagePath(c),
		AnnotationMessageFrom: string(c.TerminationMessagePolicy),
	}
	if g := pod.Spec.TerminationGracePeriodSeconds; g != nil {
		a[AnnotationGrace] = strconv.FormatInt(*g, 10)
	}
	return a
}

// messagePath returns the path of a container's termination message file.
func messagePath(c *corev1.Container) string {
	if c.TerminationMessagePath != "" {
		return c.TerminationMessagePath
	}
	return corev1.TerminationMessagePathDefault
}
