package admission_test

import (
	"fmt"

	"github.com/planekit/planekit/kubelet/admission"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// A node admits a pod if it passes the checks of Kubernetes' kubelet and one of the program's own.
func Example() {
	handlers, err := admission.Handlers(admission.Host{Kernel: "6.1.0"})
	if err != nil {
		panic(err)
	}
	handlers = append(handlers, admission.HandlerFunc(func(r admission.Request) admission.Verdict {
		if r.Pod.Labels["owner"] == "" {
			return admission.Verdict{Reason: "NoOwner", Message: "the pod has no owner"}
		}
		return admission.Verdict{}
	}))
	node := &corev1.Node{Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourcePods: resource.MustParse("110"),
	}}}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("700m")},
	}}}}}
	verdict, _ := admission.Decide(admission.Request{Pod: pod, Node: node}, handlers)
	fmt.Println(verdict.Reason, "-", verdict.Message)
	verdict, _ = admission.Decide(admission.Request{Pod: pod, Others: []*corev1.Pod{pod}, Node: node}, handlers)
	fmt.Println(verdict.Reason, "-", verdict.Message)
	// Output:
	// NoOwner - the pod has no owner
	// OutOfcpu - Node didn't have enough resource: cpu, requested: 700, used: 700, capacity: 1000
}
