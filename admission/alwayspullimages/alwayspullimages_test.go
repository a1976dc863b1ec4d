package alwayspullimages_test

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/alwayspullimages"
	corev1 "k8s.io/api/core/v1"
)

// newPod has one container of each kind and a volume that is an image.
func newPod(image string) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "setup", Image: image, ImagePullPolicy: corev1.PullNever}},
		Containers:     []corev1.Container{{Name: "web", Image: image, ImagePullPolicy: corev1.PullIfNotPresent}},
		EphemeralContainers: []corev1.EphemeralContainer{
			{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: image}},
		},
		Volumes: []corev1.Volume{{Name: "empty"}, {Name: "data", VolumeSource: corev1.VolumeSource{
			Image: &corev1.ImageVolumeSource{Reference: image, PullPolicy: corev1.PullIfNotPresent},
		}}},
	}}
}

func create(pod *corev1.Pod) *admission.Request {
	return &admission.Request{Operation: admission.Create, Namespace: "shop", Name: "web", Object: pod,
		Resource: admission.GroupVersionResource{Version: "v1", Resource: "pods"}}
}

func update(pod, old *corev1.Pod) *admission.Request {
	r := create(pod)
	r.Operation, r.OldObject = admission.Update, old
	return r
}

func Example() {
	chain := admission.Chain{
		Mutators:   []admission.Mutator{alwayspullimages.Plugin{}},
		Validators: []admission.Validator{alwayspullimages.Plugin{}},
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "setup", Image: "private", ImagePullPolicy: corev1.PullNever}},
		Containers:     []corev1.Container{{Name: "web", Image: "private", ImagePullPolicy: corev1.PullAlways}},
	}}
	fmt.Println(chain.Validate(context.Background(), create(pod)))
	if err := chain.Mutate(context.Background(), create(pod)); err != nil {
		fmt.Println(err)
	}
	fmt.Println(pod.Spec.InitContainers[0].ImagePullPolicy, chain.Validate(context.Background(), create(pod)))
	// Output:
	// pods "web" is forbidden: spec.initContainers[0].imagePullPolicy: Unsupported value: "Never": supported values: "Always"
	// Always <nil>
}

func TestEveryImage(t *testing.T) {
	pod, plugin := newPod("a"), alwayspullimages.Plugin{}
	source := pod.Spec.Volumes[1].Image
	if err := plugin.Mutate(t.Context(), create(pod)); err != nil {
		t.Fatal(err)
	}
	if err := plugin.Validate(t.Context(), create(pod)); err != nil {
		t.Error(err)
	}
	for _, policy := range []*corev1.PullPolicy{
		&pod.Spec.InitContainers[0].ImagePullPolicy, &pod.Spec.Containers[0].ImagePullPolicy,
		&pod.Spec.EphemeralContainers[0].ImagePullPolicy, &pod.Spec.Volumes[1].Image.PullPolicy,
	} {
		if *policy != corev1.PullAlways {
			t.Errorf("Mutate sets the pull policy %q, want Always: %v", *policy, &pod.Spec)
		}
		*policy = corev1.PullIfNotPresent
		if err := plugin.Validate(t.Context(), create(pod)); err == nil {
			t.Errorf("admitted %+v", pod.Spec)
		}
		*policy = corev1.PullAlways
	}
	if source.PullPolicy != corev1.PullIfNotPresent {
		t.Error("what the volume pointed to was changed")
	}
	if err := plugin.Validate(t.Context(), create(newPod("a"))); err == nil || err.Error() != `pods "web" is forbidden: [`+
		`spec.initContainers[0].imagePullPolicy: Unsupported value: "Never": supported values: "Always", `+
		`spec.containers[0].imagePullPolicy: Unsupported value: "IfNotPresent": supported values: "Always", `+
		`spec.ephemeralContainers[0].imagePullPolicy: Unsupported value: "": supported values: "Always", `+
		`spec.volumes[1].image.pullPolicy: Unsupported value: "IfNotPresent": supported values: "Always"]` {
		t.Error(err)
	}
}

func TestUpdates(t *testing.T) {
	status := update(newPod("b"), newPod("a"))
	status.Subresource = "status"
	swapped, both := newPod("a"), newPod("a")
	swapped.Spec.Containers[0].Image = "b"
	both.Spec.InitContainers[0].Image = "b"
	for name, test := range map[string]struct {
		request *admission.Request
		changed bool
	}{
		"the same images":         {update(newPod("a"), newPod("a")), false},
		"images in other places":  {update(swapped, both), false},
		"another image":           {update(newPod("b"), newPod("a")), true},
		"status":                  {status, false},
		"nothing known of before": {withoutOld(newPod("a")), true},
	} {
		plugin, pod := alwayspullimages.Plugin{}, test.request.Object.(*corev1.Pod)
		if err := plugin.Validate(t.Context(), test.request); (err != nil) != test.changed {
			t.Errorf("%s: Validate(request) = %v, want an error: %t", name, err, test.changed)
		}
		if err := plugin.Mutate(t.Context(), test.request); err != nil {
			t.Error(err)
		}
		if changed := pod.Spec.Containers[0].ImagePullPolicy == corev1.PullAlways; changed != test.changed {
			t.Errorf("%s: changed: %v", name, changed)
		}
	}
}

// TestDebug: an ephemeral container that is added to a pod, and nothing else of it.
func TestDebug(t *testing.T) {
	pod, plugin := newPod("a"), alwayspullimages.Plugin{}
	pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, corev1.EphemeralContainer{
		EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "more", Image: "b", ImagePullPolicy: corev1.PullNever},
	})
	r := update(pod, newPod("a"))
	r.Subresource = "ephemeralcontainers"
	if err := plugin.Validate(t.Context(), r); err == nil || err.Error() != `pods "web" is forbidden: `+
		`spec.ephemeralContainers[1].imagePullPolicy: Unsupported value: "Never": supported values: "Always"` {
		t.Error(err)
	}
	if err := plugin.Mutate(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if err := plugin.Validate(t.Context(), r); err != nil {
		t.Error(err)
	}
	want := newPod("a").Spec
	want.EphemeralContainers = append(want.EphemeralContainers, pod.Spec.EphemeralContainers[1])
	if !reflect.DeepEqual(pod.Spec, want) || pod.Spec.EphemeralContainers[1].ImagePullPolicy != corev1.PullAlways {
		t.Errorf("Mutate gives the spec %v, want %v with the pull policy Always in the second ephemeral container", &pod.Spec, &want)
	}
}

func withoutOld(pod *corev1.Pod) *admission.Request {
	r := create(pod)
	r.Operation = admission.Update
	return r
}
