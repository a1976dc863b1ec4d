package podresize_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/podresize"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func node(name, system, cpu, memory string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: system}}}
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	return n
}

func resize(on, cpu, memory string) *admission.Request {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Generation: 2}, Spec: corev1.PodSpec{NodeName: on}}
	pod.Spec.Containers = []corev1.Container{{Name: "web", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)},
	}}}
	return &admission.Request{
		Operation: admission.Update, Resource: admission.GroupVersionResource{Version: "v1", Resource: "pods"}, Subresource: "resize", Name: "web",
		Object: pod, OldObject: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Generation: 1}},
	}
}

func plugin() *podresize.Plugin {
	nodes := localcache.NewMap[*corev1.Node]()
	nodes.Put(node("small", "linux", "2", "1Gi"))
	nodes.Put(node("other", "windows", "2", "1Gi"))
	p, err := podresize.New(podresize.Config{Nodes: nodes, Lookup: func(_ context.Context, _, name string) (*corev1.Node, error) {
		switch name {
		case "new":
			return node(name, "linux", "4", "4Gi"), nil
		case "broken":
			return nil, errors.New("the store does not answer")
		}
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, name)
	}})
	if err != nil {
		panic(err)
	}
	return p
}

func Example() {
	fmt.Println(plugin().Validate(context.Background(), resize("small", "3", "2Gi")))
	// Output: pods "web" is forbidden: node didn't have enough allocatable resources: cpu, requested: 3000, allocatable: 2000; memory, requested: 2147483648, allocatable: 1073741824
}

func TestValidate(t *testing.T) {
	for _, test := range []struct {
		name    string
		request *admission.Request
		change  func(*admission.Request)
		want    string // an error
		cause   metav1.CauseType
	}{
		{name: "fits", request: resize("small", "2", "1Gi")},
		{name: "fits a new node", request: resize("new", "4", "4Gi")},
		{name: "too much cpu", request: resize("new", "5", "4Gi"), want: "cpu, requested: 5000, allocatable: 4000", cause: podresize.NodeCapacity},
		{name: "too much memory", request: resize("small", "2", "2Gi"), want: "resources: memory, requested: 2147483648", cause: podresize.NodeCapacity},
		{name: "not linux", request: resize("other", "1", "1Gi"), want: `pod resize is only supported on linux nodes, node "other" is "windows"`, cause: podresize.UnsupportedPlatform},
		{name: "no node", request: resize("none", "1", "1Gi"), want: `pods "web" is forbidden: node "none" not found`},
		{name: "no answer", request: resize("broken", "1", "1Gi"), want: `failed to get node "broken": the store does not answer`},
		{name: "not bound", request: resize("", "9", "9Gi")},
		{name: "another subresource", request: resize("small", "9", "9Gi"), change: func(r *admission.Request) { r.Subresource = "status" }},
		{name: "a create", request: resize("small", "9", "9Gi"), change: func(r *admission.Request) { r.Operation = admission.Create }},
		{name: "another resource", request: resize("small", "9", "9Gi"), change: func(r *admission.Request) { r.Resource.Group = "metrics.k8s.io" }},
		{name: "no change", request: resize("small", "9", "9Gi"), change: func(r *admission.Request) { r.OldObject.(*corev1.Pod).Generation = 2 }},
		{name: "what it has does not count", request: resize("small", "1", "1Gi"), change: func(r *admission.Request) {
			pod := r.Object.(*corev1.Pod)
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web", Resources: &corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("9")},
			}}}
		}},
	} {
		if test.change != nil {
			test.change(test.request)
		}
		err := plugin().Validate(t.Context(), test.request)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
		if test.cause != "" && !apierrors.HasStatusCause(err, test.cause) {
			t.Errorf("%s: no cause %s in %v", test.name, test.cause, err)
		}
	}
	if _, err := podresize.New(podresize.Config{}); err == nil {
		t.Error("an empty config passes")
	}
}
