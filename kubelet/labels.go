package kubelet

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// Labels and annotations on sandboxes and containers. All but the node's are
// those that tools around Kubernetes runtimes, crictl among them, know.
const (
	labelPodName       = "io.kubernetes.pod.name"
	labelPodNamespace  = "io.kubernetes.pod.namespace"
	labelPodUID        = "io.kubernetes.pod.uid"
	labelContainerName = "io.kubernetes.container.name"
	// labelNode tells the pods of several kubelets on one runtime apart.
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

// fingerprint stands for what of a container spec can change while it runs and
// then makes it start over: the image.
func fingerprint(c *corev1.Container) string {
	h := fnv.New32a()
	// Two strings always encode.
	text, _ := json.Marshal([]string{c.Name, c.Image})
	h.Write(text)
	return fmt.Sprintf("%x", h.Sum32())
}

// messagePath is where a container leaves its last words.
func messagePath(c *corev1.Container) string {
	if c.TerminationMessagePath != "" {
		return c.TerminationMessagePath
	}
	return corev1.TerminationMessagePathDefault
}
