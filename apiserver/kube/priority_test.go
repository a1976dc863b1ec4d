package kube_test

import (
	"context"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/defaulttolerations"
	"github.com/planekit/planekit/admission/priority"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/kube"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// systemClasses is a copy that knows the classes of every cluster.
type systemClasses []*schedulingv1.PriorityClass

func (c systemClasses) Get(name string) (*schedulingv1.PriorityClass, bool) {
	i := slices.IndexFunc(c, func(class *schedulingv1.PriorityClass) bool { return class.Name == name })
	if i < 0 {
		return nil, false
	}
	return c[i], true
}

func (c systemClasses) All() iter.Seq[*schedulingv1.PriorityClass] { return slices.Values(c) }

func (c systemClasses) none(_ context.Context, name string) (*schedulingv1.PriorityClass, error) {
	return nil, apierrors.NewNotFound(schedulingv1.Resource("priorityclasses"), name)
}

// TestServedPriority: what the plugins fill into a pod passes validation, stays when
// an update leaves it out, and cannot be changed afterwards.
func TestServedPriority(t *testing.T) {
	classes := systemClasses(kube.PriorityClasses())
	priorities, err := priority.New(priority.Config{Classes: classes, Lookup: classes.none})
	if err != nil {
		t.Fatal(err)
	}
	tolerations, err := defaulttolerations.New(defaulttolerations.Config{})
	if err != nil {
		t.Fatal(err)
	}
	c := client{t, apiservertest.Start(t, apiservertest.WithResources(kube.Resources()...), apiservertest.WithAdmission(admission.Chain{
		Mutators: []admission.Mutator{priorities, tolerations}, Validators: []admission.Validator{priorities},
	})), "application/json"}
	c.do("POST", "/api/v1/namespaces", `{metadata: {name: team}}`, 201)
	const pods = "/api/v1/namespaces/team/pods"
	const spec = `spec: {priorityClassName: system-node-critical, terminationGracePeriodSeconds: 5, containers: [{name: web, image: nginx}]`
	pod := object(t, c.do("POST", pods, `{metadata: {name: web}, `+spec+`}}`, 201))
	check := func(pod *unstructured.Unstructured) {
		t.Helper()
		n, _, _ := unstructured.NestedInt64(pod.Object, "spec", "priority")
		list, _, _ := unstructured.NestedSlice(pod.Object, "spec", "tolerations")
		if n != 2_000_001_000 || value(pod, "spec", "preemptionPolicy") != "PreemptLowerPriority" || len(list) != 2 {
			t.Errorf("priority %d, %d tolerations: %v", n, len(list), pod)
		}
	}
	check(pod)
	check(object(t, c.do("PUT", pods+"/web", `{metadata: {name: web, labels: {a: b}}, `+spec+`}}`, 200)))
	for _, changed := range []string{`, priority: 7}}`, `, preemptionPolicy: Never}}`} {
		if body := c.do("PUT", pods+"/web", `{metadata: {name: web}, `+spec+changed, 422); !strings.Contains(string(body), "pod updates may not change fields") {
			t.Errorf("PUT of the pod with %q = 422 %s, want %q in it", changed, body, "pod updates may not change fields")
		}
	}
	if body := c.do("POST", pods, `{metadata: {name: bad}, spec: {priorityClassName: none, containers: [{name: web, image: nginx}]}}`, 403); !strings.Contains(
		string(body), `pods \"bad\" is forbidden: no PriorityClass with name none was found`) {
		t.Errorf("POST of a pod with the class none = 403 %s, want no PriorityClass with name none was found", body)
	}
	c.do("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", `{metadata: {name: system-mine}, value: 5}`, 422)
}
