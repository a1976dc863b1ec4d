package podspec_test

import (
	"fmt"

	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/podspec"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func Example() {
	spec := corev1.PodSpec{
		Volumes:    []corev1.Volume{{Name: "data"}},
		Containers: []corev1.Container{{Name: "web", Image: "nginx", VolumeMounts: []corev1.VolumeMount{{Name: "date", MountPath: "/data"}}}},
	}
	podspec.Default(&spec)
	fmt.Println(spec.RestartPolicy, spec.Containers[0].ImagePullPolicy, spec.Volumes[0].EmptyDir != nil, podspec.QOSClass(&spec))
	var ps check.Problems
	podspec.Check(&ps, field.NewPath("spec"), &spec)
	fmt.Println(ps.List.ToAggregate())
	// Output:
	// Always Always true BestEffort
	// spec.containers[0].volumeMounts[0].name: Not found: "date"
}
