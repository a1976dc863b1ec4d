package schedule_test

import (
	"testing"

	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestRequestsDuringResize counts the larger size while a pod is resized in place.
func TestRequestsDuringResize(t *testing.T) {
	cpu := func(amount string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
	}
	for _, test := range []struct {
		name                    string
		spec, allocated, actual string
		infeasible              bool
		want                    int64
	}{
		{"grows, deferred", "3", "1", "1", false, 3000},
		{"grows, under way", "3", "3", "1", false, 3000},
		{"grows, infeasible", "3", "1", "1", true, 1000},
		{"shrinks, under way", "1", "1", "3", false, 3000},
		{"shrinks, not allocated", "1", "3", "2", false, 3000},
		{"shrunk", "1", "1", "1", false, 1000},
	} {
		for _, place := range []string{"container", "sidecar", "pod"} {
			always := corev1.ContainerRestartPolicyAlways
			pod := &corev1.Pod{}
			c := corev1.Container{Name: "a"}
			s := []corev1.ContainerStatus{{Name: "z"}, {Name: "a", AllocatedResources: cpu(test.allocated), Resources: &corev1.ResourceRequirements{Requests: cpu(test.actual)}}}
			c.Resources.Requests = cpu(test.spec)
			switch place {
			case "container":
				pod.Spec.Containers, pod.Status.ContainerStatuses = []corev1.Container{c}, s
			case "sidecar":
				c.RestartPolicy = &always
				pod.Spec.InitContainers, pod.Status.InitContainerStatuses = []corev1.Container{c}, s
			case "pod":
				pod.Spec.Containers = []corev1.Container{{Name: "a"}}
				pod.Spec.Resources = &corev1.ResourceRequirements{Requests: cpu(test.spec)}
				pod.Status.AllocatedResources, pod.Status.Resources = cpu(test.allocated), &corev1.ResourceRequirements{Requests: cpu(test.actual)}
			}
			if test.infeasible {
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Reason: corev1.PodReasonInfeasible}}
			}
			info := schedule.NewPodInfo(pod)
			if info.Requests.MilliCPU != test.want || info.NonZero.MilliCPU != test.want {
				t.Errorf("%s, %s: %d and %d, want %d", test.name, place, info.Requests.MilliCPU, info.NonZero.MilliCPU, test.want)
			}
		}
	}
}
