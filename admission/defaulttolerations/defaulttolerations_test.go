package defaulttolerations_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/defaulttolerations"
	corev1 "k8s.io/api/core/v1"
)

func create(tolerations ...corev1.Toleration) (*corev1.Pod, *admission.Request) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Tolerations: tolerations}}
	return pod, &admission.Request{Operation: admission.Create, Namespace: "shop", Name: "web", Object: pod,
		Resource: admission.GroupVersionResource{Version: "v1", Resource: "pods"}}
}

func Example() {
	plugin, err := defaulttolerations.New(defaulttolerations.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	chain := admission.Chain{Mutators: []admission.Mutator{plugin}}
	pod, r := create()
	if err := chain.Mutate(context.Background(), r); err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range pod.Spec.Tolerations {
		fmt.Println(t.Key, t.Operator, t.Effect, *t.TolerationSeconds)
	}
	// Output:
	// node.kubernetes.io/not-ready Exists NoExecute 300
	// node.kubernetes.io/unreachable Exists NoExecute 300
}

func TestWhatAPodSaysStays(t *testing.T) {
	const notReady, unreachable = corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable
	type toleration = corev1.Toleration
	now, minute := int64(0), int64(60)
	plugin, err := defaulttolerations.New(defaulttolerations.Config{NotReady: &now, Unreachable: &minute})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		has  []toleration
		adds []string
	}{
		"nothing":                        {nil, []string{notReady, unreachable}},
		"another taint":                  {[]toleration{{Key: "gpu"}}, []string{notReady, unreachable}},
		"another effect":                 {[]toleration{{Key: notReady, Effect: corev1.TaintEffectNoSchedule}}, []string{notReady, unreachable}},
		"not-ready":                      {[]toleration{{Key: notReady, Effect: corev1.TaintEffectNoExecute}}, []string{unreachable}},
		"not-ready, any effect":          {[]toleration{{Key: notReady}}, []string{unreachable}},
		"unreachable":                    {[]toleration{{Key: unreachable, Effect: corev1.TaintEffectNoExecute}}, []string{notReady}},
		"both":                           {[]toleration{{Key: unreachable}, {Key: notReady}}, nil},
		"everything":                     {[]toleration{{Operator: corev1.TolerationOpExists}}, nil},
		"every taint that does not kill": {[]toleration{{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}, []string{notReady, unreachable}},
	} {
		pod, r := create(slices.Clone(test.has)...)
		if err := plugin.Mutate(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		var added []string
		for _, a := range pod.Spec.Tolerations[len(test.has):] {
			added = append(added, a.Key)
			if want := map[string]int64{notReady: 0, unreachable: 60}[a.Key]; *a.TolerationSeconds != want {
				t.Errorf("%s: %s for %d seconds, want %d", name, a.Key, *a.TolerationSeconds, want)
			}
		}
		if !slices.Equal(added, test.adds) {
			t.Errorf("%s: added %v, want %v", name, added, test.adds)
		}
		if !slices.Equal(pod.Spec.Tolerations[:len(test.has)], test.has) {
			t.Errorf("%s: changed to %v", name, pod.Spec.Tolerations)
		}
		before := pod.Spec.Tolerations
		if err := plugin.Mutate(t.Context(), r); err != nil || len(pod.Spec.Tolerations) != len(before) {
			t.Errorf("%s: a second time: %v, %v", name, pod.Spec.Tolerations, err)
		}
	}
}

// TestSharesNothing: pods of one template may share a list that has room behind
// its end.
func TestSharesNothing(t *testing.T) {
	plugin, err := defaulttolerations.New(defaulttolerations.Config{})
	if err != nil {
		t.Fatal(err)
	}
	shared := make([]corev1.Toleration, 1, 8)
	shared[0].Key = "gpu"
	a, ra := create(shared...)
	b, rb := create(shared...)
	for _, r := range []*admission.Request{ra, rb} {
		if err := plugin.Mutate(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	*a.Spec.Tolerations[1].TolerationSeconds = 7
	a.Spec.Tolerations[2].Key = "changed"
	if *b.Spec.Tolerations[1].TolerationSeconds != 300 || b.Spec.Tolerations[2].Key != corev1.TaintNodeUnreachable || shared[:3][2].Key != "" {
		t.Errorf("a change of another pod makes the tolerations %+v of %d seconds, want %s and 300; shared %+v, want no third key",
			b.Spec.Tolerations, *b.Spec.Tolerations[1].TolerationSeconds, corev1.TaintNodeUnreachable, shared[:3])
	}
}

func TestOthersPass(t *testing.T) {
	plugin, err := defaulttolerations.New(defaulttolerations.Config{})
	if err != nil {
		t.Fatal(err)
	}
	pod, r := create()
	r.Operation, r.Subresource = admission.Update, "status"
	if err := plugin.Mutate(t.Context(), r); err != nil || pod.Spec.Tolerations != nil {
		t.Errorf("status: %v, %v", pod.Spec.Tolerations, err)
	}
	if err := plugin.Mutate(t.Context(), &admission.Request{Operation: admission.Delete, OldObject: pod, Resource: r.Resource}); err != nil {
		t.Error(err)
	}
	r.Subresource = ""
	if err := plugin.Mutate(t.Context(), r); err != nil || len(pod.Spec.Tolerations) != 2 {
		t.Errorf("update: %v, %v", pod.Spec.Tolerations, err)
	}
}
