package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A world is a cluster and the pods to place in it.
type world struct {
	nodes []*corev1.Node
	// placed are on nodes from the beginning.
	placed []*corev1.Pod
	// pending are placed one after another.
	pending []*corev1.Pod
	// leave says that pods of placed leave while others are placed.
	leave bool
	// before, if not nil, returns what happens before the decision about the pod with an index.
	before func(i int) []change
}

// A change happens in the cluster while pods are placed. One of its fields is set.
type change struct {
	node *corev1.Node // added or updated
	gone *corev1.Pod  // one of world.placed
}

const (
	// zoneCount is the number of zones that nodes are in.
	zoneCount = 10
	// groupSize is the number of pods that share their labels and constraints, like those of a
	// Deployment.
	groupSize = 100
	namespace = "default"
)

func zone(i int) string { return fmt.Sprintf("zone-%d", i%zoneCount) }

// newNode returns a node with 32 cores, 256 GiB and room for 110 pods.
func newNode(i int) *corev1.Node {
	name := fmt.Sprintf("node-%d", i)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelTopologyZone: zone(i), corev1.LabelTopologyRegion: "region-0",
			corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
			corev1.LabelInstanceTypeStable: fmt.Sprintf("type-%d", i%4),
		}},
		Status: corev1.NodeStatus{
			Capacity: capacity(), Allocatable: capacity(),
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

func capacity() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("256Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
}

// newPod returns a pod of the size and with the tolerations that most pods have.
func newPod(name, app string) *corev1.Pod {
	seconds := new(int64(300))
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{
			SchedulerName: corev1.DefaultSchedulerName, Priority: new(int32(0)),
			Containers: []corev1.Container{{Name: "app", Image: "registry.example/app:1", Resources: requests(100, 500)}},
			Tolerations: []corev1.Toleration{
				{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: seconds},
				{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: seconds},
			},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
}

// requests returns requests for CPU in thousandths of a core and for memory in MiB.
func requests(cpu, memory int64) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(cpu, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(memory<<20, resource.BinarySI),
	}}
}

// placedOn returns the pod as it runs on a node.
func placedOn(pod *corev1.Pod, node string) *corev1.Pod {
	pod.Spec.NodeName, pod.Status.Phase = node, corev1.PodRunning
	return pod
}

// sameApp selects the pods that share the label app with a pod.
func sameApp(pod *corev1.Pod) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": pod.Labels["app"]}}
}
