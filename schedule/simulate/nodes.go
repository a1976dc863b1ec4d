package simulate

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Uniform returns nodes of one size, named node-00000 and so on, with room for 110 pods each, as a kubelet
// has by default. Names of nodes are their hostnames. It panics if an amount is not a quantity.
func Uniform(count int, cpu, memory string) []*corev1.Node {
	allocatable := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
		corev1.ResourcePods: resource.MustParse("110"),
	}
	var nodes []*corev1.Node
	for i := range count {
		name := fmt.Sprintf("node-%05d", i)
		nodes = append(nodes, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
			Status:     corev1.NodeStatus{Capacity: allocatable, Allocatable: allocatable},
		})
	}
	return nodes
}
