package podspec_test

import (
	"fmt"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/internal/podspec"
	corev1 "k8s.io/api/core/v1"
)

func newPod() *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers:      []corev1.Container{{Name: "setup"}},
		Containers:          []corev1.Container{{Name: "web"}, {Name: "log"}},
		EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}}},
	}}
}

func ExampleContainers() {
	for place, c := range podspec.Containers(&newPod().Spec) {
		fmt.Println(place.Path(), c.Name)
	}
	// Output:
	// spec.initContainers[0] setup
	// spec.containers[0] web
	// spec.containers[1] log
	// spec.ephemeralContainers[0] debug
}

func TestContainersAreThoseOfThePod(t *testing.T) {
	pod := newPod()
	for _, c := range podspec.Containers(&pod.Spec) {
		c.Image = "changed"
	}
	for _, image := range []string{
		pod.Spec.InitContainers[0].Image, pod.Spec.Containers[1].Image, pod.Spec.EphemeralContainers[0].Image,
	} {
		if image != "changed" {
			t.Errorf("a change through Containers leaves the image %q, want %q: %v", image, "changed", &pod.Spec)
		}
	}
	for stop := 1; stop <= 4; stop++ {
		seen := 0
		for range podspec.Containers(&pod.Spec) {
			if seen++; seen == stop {
				break
			}
		}
		if seen != stop {
			t.Errorf("went on to %d after %d", seen, stop)
		}
	}
}

func TestOf(t *testing.T) {
	pods := admission.GroupVersionResource{Version: "v1", Resource: "pods"}
	metrics := admission.GroupVersionResource{Group: "metrics.k8s.io", Version: "v1beta1", Resource: "pods"}
	for name, test := range map[string]struct {
		request admission.Request
		want    bool
	}{
		"create":            {admission.Request{Operation: admission.Create, Resource: pods, Object: newPod()}, true},
		"update":            {admission.Request{Operation: admission.Update, Resource: pods, Object: newPod()}, true},
		"delete":            {admission.Request{Operation: admission.Delete, Resource: pods, OldObject: newPod()}, false},
		"status":            {admission.Request{Operation: admission.Update, Resource: pods, Subresource: "status", Object: newPod()}, false},
		"debug":             {admission.Request{Operation: admission.Update, Resource: pods, Subresource: "ephemeralcontainers", Object: newPod()}, true},
		"another group":     {admission.Request{Operation: admission.Create, Resource: metrics, Object: newPod()}, false},
		"another type":      {admission.Request{Operation: admission.Create, Resource: pods, Object: &corev1.Binding{}}, false},
		"binding":           {admission.Request{Operation: admission.Create, Resource: pods, Subresource: "binding", Object: &corev1.Binding{}}, false},
		"connect, no pod":   {admission.Request{Operation: admission.Connect, Resource: pods, Subresource: "exec"}, false},
		"create, no object": {admission.Request{Operation: admission.Create, Resource: pods}, false},
	} {
		if _, ok := podspec.Of(&test.request, "ephemeralcontainers"); ok != test.want {
			t.Errorf("%s: Of(request) = %t, want %t", name, ok, test.want)
		}
	}
}
