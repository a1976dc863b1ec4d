package priority_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/priority"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// classes holds the priority classes of a cluster by name.
type classes map[string]*schedulingv1.PriorityClass

func (c classes) Get(name string) (*schedulingv1.PriorityClass, bool) { v, ok := c[name]; return v, ok }

func (c classes) All() iter.Seq[*schedulingv1.PriorityClass] { return maps.Values(c) }

func (c classes) lookup(_ context.Context, name string) (*schedulingv1.PriorityClass, error) {
	if class, ok := c[name]; ok {
		return class, nil
	}
	return nil, apierrors.NewNotFound(schedulingv1.Resource("priorityclasses"), name)
}

func class(name string, value int32, globalDefault bool, policy corev1.PreemptionPolicy) *schedulingv1.PriorityClass {
	c := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, GlobalDefault: globalDefault}
	if policy != "" {
		c.PreemptionPolicy = &policy
	}
	return c
}

func create(spec corev1.PodSpec) (*corev1.Pod, *admission.Request) {
	pod := &corev1.Pod{Spec: spec}
	return pod, &admission.Request{Operation: admission.Create, Namespace: "shop", Name: "web", Object: pod,
		Resource: admission.GroupVersionResource{Version: "v1", Resource: "pods"}}
}

func Example() {
	stored := classes{
		"high":                 class("high", 1000, false, corev1.PreemptNever),
		"system-node-critical": class("system-node-critical", 2_000_001_000, false, corev1.PreemptLowerPriority),
	}
	plugin, err := priority.New(priority.Config{Classes: stored, Lookup: stored.lookup})
	if err != nil {
		fmt.Println(err)
		return
	}
	chain := admission.Chain{Mutators: []admission.Mutator{plugin}, Validators: []admission.Validator{plugin}}
	for _, name := range []string{"", "high", "system-node-critical", "hihg"} {
		pod, r := create(corev1.PodSpec{PriorityClassName: name})
		if err := chain.Mutate(context.Background(), r); err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(*pod.Spec.Priority, *pod.Spec.PreemptionPolicy)
	}
	// Output:
	// 0 PreemptLowerPriority
	// 1000 Never
	// 2000001000 PreemptLowerPriority
	// pods "web" is forbidden: no PriorityClass with name hihg was found
}

func newPlugin(t *testing.T, cached, stored classes) *priority.Plugin {
	t.Helper()
	p, err := priority.New(priority.Config{Classes: cached, Lookup: stored.lookup})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestNewPods(t *testing.T) {
	low, high, never := int32(7), int32(1000), corev1.PreemptNever
	some := classes{"high": class("high", 1000, false, corev1.PreemptLowerPriority), "bare": class("bare", 5, false, "")}
	withDefault := classes{"usual": class("usual", 50, true, corev1.PreemptNever), "other": class("other", 60, true, "")}
	for name, test := range map[string]struct {
		cached, stored classes
		spec           corev1.PodSpec
		want           string // class, value, policy
		refused        string
	}{
		"no class":                    {spec: corev1.PodSpec{}, want: " 0 PreemptLowerPriority"},
		"the default":                 {cached: withDefault, want: "usual 50 Never"},
		"a class":                     {cached: some, spec: corev1.PodSpec{PriorityClassName: "high"}, want: "high 1000 PreemptLowerPriority"},
		"a class the copy lacks":      {stored: some, spec: corev1.PodSpec{PriorityClassName: "high"}, want: "high 1000 PreemptLowerPriority"},
		"a class without policy":      {cached: some, spec: corev1.PodSpec{PriorityClassName: "bare", PreemptionPolicy: &never}, want: "bare 5 Never"},
		"the right number":            {cached: some, spec: corev1.PodSpec{PriorityClassName: "high", Priority: &high}, want: "high 1000 PreemptLowerPriority"},
		"no such class":               {cached: some, spec: corev1.PodSpec{PriorityClassName: "hgih"}, refused: `no PriorityClass with name hgih was found`},
		"a system class not there":    {spec: corev1.PodSpec{PriorityClassName: "system-node-critical"}, refused: "no PriorityClass with name system-node-critical was found"},
		"a number without class":      {spec: corev1.PodSpec{Priority: &low}, refused: "the integer value of priority (7) must not be provided in pod spec; priority admission controller computed 0 from the given PriorityClass name"},
		"another number":              {cached: some, spec: corev1.PodSpec{PriorityClassName: "high", Priority: &low}, refused: "the integer value of priority (7) must not be provided in pod spec; priority admission controller computed 1000 from the given PriorityClass name"},
		"another policy":              {cached: some, spec: corev1.PodSpec{PriorityClassName: "high", PreemptionPolicy: &never}, refused: "the string value of PreemptionPolicy (Never) must not be provided in pod spec; priority admission controller computed PreemptLowerPriority from the given PriorityClass name"},
		"a policy of its own, no one": {spec: corev1.PodSpec{PreemptionPolicy: &never}, refused: "the string value of PreemptionPolicy (Never) must not be provided in pod spec; priority admission controller computed PreemptLowerPriority from the given PriorityClass name"},
	} {
		pod, r := create(test.spec)
		err := newPlugin(t, test.cached, test.stored).Mutate(t.Context(), r)
		if test.refused != "" {
			if err == nil || err.Error() != `pods "web" is forbidden: `+test.refused {
				t.Errorf("%s: Mutate(request) = %v, want %s", name, err, `pods "web" is forbidden: `+test.refused)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: Mutate(request) = %v, want nil", name, err)
			continue
		}
		if got := fmt.Sprint(pod.Spec.PriorityClassName, " ", *pod.Spec.Priority, " ", *pod.Spec.PreemptionPolicy); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// TestPodsOwnTheirNumbers: what a pod points to is not part of a class.
func TestPodsOwnTheirNumbers(t *testing.T) {
	cached := classes{"high": class("high", 1000, false, corev1.PreemptNever)}
	for _, name := range []string{"high", ""} {
		p := newPlugin(t, cached, nil)
		first, r := create(corev1.PodSpec{PriorityClassName: name})
		if err := p.Mutate(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		want := *first.Spec.PreemptionPolicy
		*first.Spec.Priority, *first.Spec.PreemptionPolicy = 1, "changed"
		second, r := create(corev1.PodSpec{PriorityClassName: name})
		if err := p.Mutate(t.Context(), r); err != nil || *second.Spec.PreemptionPolicy != want || *second.Spec.Priority == 1 {
			t.Errorf("Mutate(the second pod of class %q) = %v with %v, want nil, the policy %s and a priority that is not 1",
				name, err, &second.Spec, want)
		}
	}
}

func TestUpdates(t *testing.T) {
	value, other, policy := int32(9), int32(10), corev1.PreemptNever
	p := newPlugin(t, nil, nil)
	pod, r := create(corev1.PodSpec{})
	r.Operation, r.OldObject = admission.Update, &corev1.Pod{Spec: corev1.PodSpec{Priority: &value, PreemptionPolicy: &policy}}
	if err := p.Mutate(t.Context(), r); err != nil || *pod.Spec.Priority != 9 || *pod.Spec.PreemptionPolicy != corev1.PreemptNever {
		t.Errorf("Mutate(update) = %v with %v, want nil, the priority 9 and the policy Never", err, &pod.Spec)
	}
	if pod.Spec.Priority == &value || pod.Spec.PreemptionPolicy == &policy {
		t.Error("shared with the pod as it is stored")
	}
	pod.Spec.Priority = &other
	if err := p.Mutate(t.Context(), r); err != nil || *pod.Spec.Priority != 10 {
		t.Errorf("what an update says was hidden from validation: %v, %v", *pod.Spec.Priority, err)
	}
	r.OldObject = &corev1.Pod{}
	pod.Spec = corev1.PodSpec{PriorityClassName: "no-such"}
	if err := p.Mutate(t.Context(), r); err != nil || pod.Spec.Priority != nil {
		t.Errorf("a pod from before the plugin: %v, %v", pod.Spec, err)
	}
	pod, r = create(corev1.PodSpec{PriorityClassName: "no-such"})
	r.Subresource = "status"
	if err := p.Mutate(t.Context(), r); err != nil || pod.Spec.Priority != nil {
		t.Errorf("status: %v", err)
	}
}

func TestOneDefault(t *testing.T) {
	cached := classes{"usual": class("usual", 50, true, ""), "high": class("high", 1000, false, "")}
	for name, test := range map[string]struct {
		op      admission.Operation
		class   *schedulingv1.PriorityClass
		cached  classes
		refused bool
	}{
		"the first":                  {admission.Create, class("new", 1, true, ""), nil, false},
		"a second":                   {admission.Create, class("new", 1, true, ""), cached, true},
		"no default":                 {admission.Create, class("new", 1, false, ""), cached, false},
		"made one":                   {admission.Update, class("high", 1000, true, ""), cached, true},
		"the one that is":            {admission.Update, class("usual", 50, true, ""), cached, false},
		"created again":              {admission.Create, class("usual", 50, true, ""), cached, true},
		"the default is one no more": {admission.Update, class("usual", 50, false, ""), cached, false},
	} {
		r := &admission.Request{Operation: test.op, Name: test.class.Name, Object: test.class,
			Resource: admission.GroupVersionResource{Group: "scheduling.k8s.io", Version: "v1", Resource: "priorityclasses"}}
		err := newPlugin(t, test.cached, nil).Validate(t.Context(), r)
		if (err != nil) != test.refused {
			t.Errorf("%s: Validate(request) = %v, want an error: %t", name, err, test.refused)
		}
		want := fmt.Sprintf("priorityclasses.scheduling.k8s.io %q is forbidden: PriorityClass usual is already marked as default. Only one default can exist", test.class.Name)
		if err != nil && err.Error() != want {
			t.Errorf("%s: Validate(request) = %v, want %s", name, err, want)
		}
	}
}

func TestLookupFails(t *testing.T) {
	broken := errors.New("storage is down")
	p, err := priority.New(priority.Config{Classes: classes{},
		Lookup: func(context.Context, string) (*schedulingv1.PriorityClass, error) { return nil, broken }})
	if err != nil {
		t.Fatal(err)
	}
	_, r := create(corev1.PodSpec{PriorityClassName: "high"})
	if err := p.Mutate(t.Context(), r); !errors.Is(err, broken) {
		t.Error(err)
	}
	if _, err := priority.New(priority.Config{}); err == nil {
		t.Error("an empty config is accepted")
	}
}
