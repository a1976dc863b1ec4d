package nodes_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane/planetest"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestRuntimeClass runs a pod with a class: it gets the class's overhead and constraints on the way in,
// and its node knows the class. A pod of an unknown class is refused.
func TestRuntimeClass(t *testing.T) {
	p := planetest.Start(t, planetest.Nodes(1))
	class := &nodev1.RuntimeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "sandboxed"}, Handler: "kata",
		Overhead:   &nodev1.Overhead{PodFixed: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}},
		Scheduling: &nodev1.Scheduling{NodeSelector: map[string]string{corev1.LabelOSStable: "linux"}},
	}
	if _, err := typed.RuntimeClasses(p.Client()).Create(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	pods := typed.Pods(p.Client())
	of := func(name, class string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec:       corev1.PodSpec{RuntimeClassName: &class, Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
		}
	}
	if _, err := pods.Create(t.Context(), of("web", "sandboxed")); err != nil {
		t.Fatal(err)
	}
	planetest.Eventually(t, func() error {
		pod, err := pods.Get(t.Context(), "default", "web")
		switch {
		case err != nil:
			return err
		case pod.Spec.Overhead.Memory().String() != "64Mi" || pod.Spec.NodeSelector[corev1.LabelOSStable] != "linux":
			t.Fatalf("overhead %v, selector %v", pod.Spec.Overhead, pod.Spec.NodeSelector)
		case pod.Status.Phase != corev1.PodRunning:
			return fmt.Errorf("the pod is %s", pod.Status.Phase)
		}
		return nil
	})
	_, err := pods.Create(t.Context(), of("other", "gvisor"))
	if want := `pods "other" is forbidden: pod rejected: RuntimeClass "gvisor" not found`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}
