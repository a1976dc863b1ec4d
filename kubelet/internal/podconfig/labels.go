package podconfig

import (
	"maps"
	"strconv"

	"github.com/planekit/planekit/kubelet/internal/lifecycle"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
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
	// AnnotationRound and AnnotationFirst hold Round and First of a [lifecycle.Container]. A container of round
	// 0 has neither.
	AnnotationRound = "planekit.io/round"
	AnnotationFirst = "planekit.io/first-of-round"
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

// SetRound records in the configuration of a container its round, and whether it is the first of its name there.
func SetRound(c *runtimeapi.ContainerConfig, round uint32, first bool) {
	if round > 0 {
		c.Annotations[AnnotationRound] = strconv.FormatUint(uint64(round), 10)
		c.Annotations[AnnotationFirst] = strconv.FormatBool(first)
	}
}

// Round returns what the annotations of a container say about its round. What is not a number means 0.
func Round(annotations map[string]string) (round uint32, first bool) {
	n, err := strconv.ParseUint(annotations[AnnotationRound], 10, 32)
	if err != nil {
		return 0, false
	}
	return uint32(n), annotations[AnnotationFirst] == "true"
}

// messagePath returns the path of a container's termination message file.
func messagePath(c *corev1.Container) string {
	if c.TerminationMessagePath != "" {
		return c.TerminationMessagePath
	}
	return corev1.TerminationMessagePathDefault
}
