package core

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestCompletePod: a pod gets the defaults of the API, and is refused for what the API refuses.
func TestCompletePod(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
	}
	if err := CompletePod(pod); err != nil || pod.Spec.RestartPolicy != corev1.RestartPolicyAlways || pod.Spec.Containers[0].ImagePullPolicy != corev1.PullAlways {
		t.Errorf("CompletePod makes %+v, %v, want restartPolicy Always and imagePullPolicy Always", pod.Spec, err)
	}
	pod.Labels["a b"], pod.Spec.Containers[0].Image = "x", ""
	err := CompletePod(pod)
	for _, field := range []string{"metadata.labels", "spec.containers[0].image"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
}
