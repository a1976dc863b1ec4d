package kube_test

import (
	"context"
	"fmt"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func resource(plural string) apiserver.Resource {
	for _, r := range kube.Resources() {
		if r.Plural == plural || r.Plural+"."+r.Group == plural {
			return r
		}
	}
	panic("no resource " + plural)
}

// A pod goes the way from a client to storage: completed, prepared, checked.
func Example() {
	pods := resource("pods").Strategy
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec: corev1.PodSpec{
			RestartPolicy: "Sometimes",
			Containers:    []corev1.Container{{Name: "web", Ports: []corev1.ContainerPort{{ContainerPort: 80000}}}},
		},
	}
	pods.Default(pod)
	pods.PrepareForCreate(context.Background(), pod)
	fmt.Println(pod.Status.Phase, pod.Status.QOSClass, pod.Spec.DNSPolicy)
	for _, err := range pods.Validate(context.Background(), pod) {
		fmt.Println(err)
	}
	// Output:
	// Pending BestEffort ClusterFirst
	// spec.containers[0].image: Required value
	// spec.containers[0].ports[0].containerPort: Invalid value: 80000: must be between 1 and 65535, inclusive
	// spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"
}
