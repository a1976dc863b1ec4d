package runtimeclass_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/runtimeclass"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// classes holds the runtime classes of a cluster by name.
type classes map[string]*nodev1.RuntimeClass

func (c classes) Get(name string) (*nodev1.RuntimeClass, bool) { v, ok := c[name]; return v, ok }

func (c classes) lookup(_ context.Context, name string) (*nodev1.RuntimeClass, error) {
	if class, ok := c[name]; ok {
		return class, nil
	}
	return nil, apierrors.NewNotFound(nodev1.Resource("runtimeclasses"), name)
}

func memory(text string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(text)}
}

// some has a class with everything, and one with a handler alone.
func some() classes {
	return classes{
		"sandboxed": {
			ObjectMeta: metav1.ObjectMeta{Name: "sandboxed"}, Handler: "kata",
			Overhead: &nodev1.Overhead{PodFixed: memory("120Mi")},
			Scheduling: &nodev1.Scheduling{
				NodeSelector: map[string]string{"kata": "yes"},
				Tolerations:  []corev1.Toleration{{Key: "kata", Operator: corev1.TolerationOpExists}},
			},
		},
		"plain": {ObjectMeta: metav1.ObjectMeta{Name: "plain"}, Handler: "runc"},
	}
}

func create(spec corev1.PodSpec) (*corev1.Pod, *admission.Request) {
	pod := &corev1.Pod{Spec: spec}
	return pod, &admission.Request{Operation: admission.Create, Namespace: "shop", Name: "web", Object: pod,
		Resource: admission.GroupVersionResource{Version: "v1", Resource: "pods"}}
}

func Example() {
	stored := some()
	plugin, err := runtimeclass.New(runtimeclass.Config{Classes: stored, Lookup: stored.lookup})
	if err != nil {
		fmt.Println(err)
		return
	}
	chain := admission.Chain{Mutators: []admission.Mutator{plugin}, Validators: []admission.Validator{plugin}}
	for _, name := range []string{"sandboxed", "plain", "gvisor"} {
		pod, r := create(corev1.PodSpec{RuntimeClassName: &name})
		if err := chain.Mutate(context.Background(), r); err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(pod.Spec.Overhead.Memory(), pod.Spec.NodeSelector, len(pod.Spec.Tolerations), chain.Validate(context.Background(), r))
	}
	// Output:
	// 120Mi map[kata:yes] 1 <nil>
	// 0 map[] 0 <nil>
	// pods "web" is forbidden: pod rejected: RuntimeClass "gvisor" not found
}

func newPlugin(t *testing.T, cached, stored classes) *runtimeclass.Plugin {
	t.Helper()
	p, err := runtimeclass.New(runtimeclass.Config{Classes: cached, Lookup: stored.lookup})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestNewPods(t *testing.T) {
	name := func(s string) *string { return &s }
	const differs = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
	const without = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
	for what, test := range map[string]struct {
		cached, stored classes
		spec           corev1.PodSpec
		overhead       string
		selector       map[string]string
		refused        string
	}{
		"no class":                      {},
		"a class":                       {cached: some(), spec: corev1.PodSpec{RuntimeClassName: name("sandboxed")}, overhead: "120Mi", selector: map[string]string{"kata": "yes"}},
		"a class that the cache lacks":  {stored: some(), spec: corev1.PodSpec{RuntimeClassName: name("sandboxed")}, overhead: "120Mi", selector: map[string]string{"kata": "yes"}},
		"no such class":                 {cached: some(), spec: corev1.PodSpec{RuntimeClassName: name("")}, refused: `pod rejected: RuntimeClass "" not found`},
		"the same overhead":             {cached: some(), spec: corev1.PodSpec{RuntimeClassName: name("sandboxed"), Overhead: memory("122880Ki")}, overhead: "120Mi", selector: map[string]string{"kata": "yes"}},
		"an empty overhead":             {cached: some(), spec: corev1.PodSpec{RuntimeClassName: name("sandboxed"), Overhead: corev1.ResourceList{}}, overhead: "120Mi", selector: map[string]string{"kata": "yes"}},
		"another overhead":              {cached: some(), spec: corev1.PodSpec{RuntimeClassName: name("sandboxed"), Overhead: memory("1Mi")}, refused: differs},
		"overhead without a class":      {cached: some(), spec: corev1.PodSpec{Overhead: memory("1Mi")}, refused: without},
		"overhead of a class with none": {cached: some(), spec: corev1.PodSpec{RuntimeClassName: name("plain"), Overhead: memory("1Mi")}, refused: without},
		"a selector of its own": {cached: some(), spec: corev1.PodSpec{RuntimeClassName: name("sandboxed"), NodeSelector: map[string]string{"disk": "ssd", "kata": "yes"}},
			overhead: "120Mi", selector: map[string]string{"disk": "ssd", "kata": "yes"}},
		"a selector that contradicts": {cached: some(), spec: corev1.PodSpec{RuntimeClassName: name("sandboxed"), NodeSelector: map[string]string{"kata": "no"}},
			refused: "conflict: runtimeClass.scheduling.nodeSelector[kata] = yes; pod.spec.nodeSelector[kata] = no"},
	} {
		pod, r := create(test.spec)
		p := newPlugin(t, test.cached, test.stored)
		err := p.Mutate(t.Context(), r)
		if err == nil {
			err = p.Validate(t.Context(), r)
		}
		if test.refused != "" {
			if err == nil || err.Error() != `pods "web" is forbidden: `+test.refused {
				t.Errorf("%s: Mutate and Validate = %v, want %s", what, err, `pods "web" is forbidden: `+test.refused)
			}
			continue
		}
		var want corev1.ResourceList
		if test.overhead != "" {
			want = memory(test.overhead)
		}
		if err != nil || !equality.Semantic.DeepEqual(pod.Spec.Overhead, want) || !equality.Semantic.DeepEqual(pod.Spec.NodeSelector, test.selector) {
			t.Errorf("%s: %v: overhead %v, selector %v", what, err, pod.Spec.Overhead, pod.Spec.NodeSelector)
		}
		if !equality.Semantic.DeepEqual(test.cached, classes(nil)) && !equality.Semantic.DeepEqual(test.cached, some()) {
			t.Errorf("%s: the class in the cache was changed", what)
		}
	}
}

// TestSharesNothing checks that a change of an admitted pod does not reach the cache.
func TestSharesNothing(t *testing.T) {
	cached, name := some(), "sandboxed"
	pod, r := create(corev1.PodSpec{RuntimeClassName: &name})
	if err := newPlugin(t, cached, nil).Mutate(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	pod.Spec.NodeSelector["kata"] = "no"
	pod.Spec.Overhead[corev1.ResourceCPU] = resource.MustParse("1")
	pod.Spec.Tolerations[0].Key = "other"
	if !equality.Semantic.DeepEqual(cached, some()) {
		t.Errorf("a change of the pod makes the cached class %v, want %v", cached[name], some()[name])
	}
}

// TestValidateAfterOthers checks the overhead that a later mutator has changed.
func TestValidateAfterOthers(t *testing.T) {
	name := "sandboxed"
	pod, r := create(corev1.PodSpec{RuntimeClassName: &name})
	p := newPlugin(t, some(), nil)
	if err := p.Mutate(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	pod.Spec.Overhead = nil
	if err := p.Validate(t.Context(), r); err == nil || !strings.Contains(err.Error(), "Overhead doesn't match") {
		t.Errorf("Validate(a pod that lost its overhead) = %v, want an error with %q", err, "Overhead doesn't match")
	}
}

func TestOtherRequests(t *testing.T) {
	p, name := newPlugin(t, nil, nil), "missing"
	for what, change := range map[string]func(*admission.Request){
		"update":           func(r *admission.Request) { r.Operation = admission.Update },
		"a subresource":    func(r *admission.Request) { r.Subresource = "binding" },
		"another resource": func(r *admission.Request) { r.Resource.Resource = "replicasets" },
		"another type":     func(r *admission.Request) { r.Object = &corev1.Binding{} },
	} {
		_, r := create(corev1.PodSpec{RuntimeClassName: &name, Overhead: memory("1Mi")})
		change(r)
		if err := errors.Join(p.Mutate(t.Context(), r), p.Validate(t.Context(), r)); err != nil {
			t.Errorf("%s: Mutate and Validate = %v, want nil", what, err)
		}
	}
}

func TestLookupFails(t *testing.T) {
	broken := errors.New("no leader")
	p, err := runtimeclass.New(runtimeclass.Config{Classes: classes{},
		Lookup: func(context.Context, string) (*nodev1.RuntimeClass, error) { return nil, broken }})
	if err != nil {
		t.Fatal(err)
	}
	name := "sandboxed"
	_, r := create(corev1.PodSpec{RuntimeClassName: &name})
	if err := p.Mutate(t.Context(), r); !errors.Is(err, broken) || strings.Contains(err.Error(), "forbidden") {
		t.Errorf("Mutate with a Lookup that fails = %v, want %v and not forbidden", err, broken)
	}
}

func TestNewRequires(t *testing.T) {
	if _, err := runtimeclass.New(runtimeclass.Config{Classes: classes{}}); err == nil {
		t.Error("no Lookup")
	}
	if _, err := runtimeclass.New(runtimeclass.Config{Lookup: classes{}.lookup}); err == nil {
		t.Error("no Classes")
	}
}

// TestTolerations checks the cases in which one toleration covers another.
func TestTolerations(t *testing.T) {
	short, long := int64(10), int64(60)
	equal := func(key, value string, effect corev1.TaintEffect) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpEqual, Value: value, Effect: effect}
	}
	exists := func(key string, effect corev1.TaintEffect, seconds *int64) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect, TolerationSeconds: seconds}
	}
	type list = []corev1.Toleration
	for what, test := range map[string]struct{ pod, class, want list }{
		"none":                      {},
		"different":                 {list{equal("a", "1", "")}, list{equal("b", "1", "")}, list{equal("a", "1", ""), equal("b", "1", "")}},
		"equal":                     {list{equal("a", "1", "")}, list{equal("a", "1", "")}, list{equal("a", "1", "")}},
		"another value":             {list{equal("a", "1", "")}, list{equal("a", "2", "")}, list{equal("a", "1", ""), equal("a", "2", "")}},
		"exists covers equal":       {list{equal("a", "1", "")}, list{exists("a", "", nil)}, list{exists("a", "", nil)}},
		"everything covers a key":   {list{exists("", "", nil)}, list{exists("a", corev1.TaintEffectNoSchedule, nil)}, list{exists("", "", nil)}},
		"all effects cover one":     {list{equal("a", "1", corev1.TaintEffectNoSchedule)}, list{equal("a", "1", "")}, list{equal("a", "1", "")}},
		"one effect covers not all": {list{exists("a", "", nil)}, list{exists("a", corev1.TaintEffectNoSchedule, nil)}, list{exists("a", "", nil)}},
		"longer covers shorter": {list{exists("a", corev1.TaintEffectNoExecute, &short)}, list{exists("a", corev1.TaintEffectNoExecute, &long)},
			list{exists("a", corev1.TaintEffectNoExecute, &long)}},
		"for good covers a time": {list{exists("a", corev1.TaintEffectNoExecute, nil)}, list{exists("a", corev1.TaintEffectNoExecute, &long)},
			list{exists("a", corev1.TaintEffectNoExecute, nil)}},
		"an unknown operator covers itself": {list{{Key: "a", Operator: "Gt", Value: "1"}}, list{{Key: "a", Operator: "Gt", Value: "1"}},
			list{{Key: "a", Operator: "Gt", Value: "1"}}},
		"an unknown operator covers nothing": {list{{Key: "a", Operator: "Gt", Value: "1"}}, list{equal("a", "1", "")},
			list{{Key: "a", Operator: "Gt", Value: "1"}, equal("a", "1", "")}},
	} {
		if got := mergedBy(t, test.pod, test.class); !equality.Semantic.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v merged with %+v = %+v, want %+v", what, test.pod, test.class, got, test.want)
		}
	}
}

// mergedBy returns the tolerations of a pod of a class.
func mergedBy(t *testing.T, own, class []corev1.Toleration) []corev1.Toleration {
	name := "c"
	cached := classes{name: {ObjectMeta: metav1.ObjectMeta{Name: name}, Scheduling: &nodev1.Scheduling{Tolerations: class}}}
	pod, r := create(corev1.PodSpec{RuntimeClassName: &name, Tolerations: own})
	if err := newPlugin(t, cached, nil).Mutate(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	return pod.Spec.Tolerations
}

// TestMergedTolerateAsMany compares what random lists tolerate before and after they are merged.
func TestMergedTolerateAsMany(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	one := func(from ...string) string { return from[random.IntN(len(from))] }
	list := func() (l []corev1.Toleration) {
		for range random.IntN(4) {
			x := corev1.Toleration{Key: one("a", "b"), Operator: corev1.TolerationOpEqual, Value: one("1", "2"),
				Effect: corev1.TaintEffect(one("", "NoSchedule", "NoExecute"))}
			if random.IntN(3) == 0 {
				x.Operator, x.Value, x.Key = corev1.TolerationOpExists, "", one("", "a", "b")
			}
			l = append(l, x)
		}
		return l
	}
	tolerates := func(l []corev1.Toleration, key, value, effect string) bool {
		for _, x := range l {
			if (x.Key == key || x.Key == "") && (x.Effect == "" || string(x.Effect) == effect) && (x.Operator == corev1.TolerationOpExists || x.Value == value) {
				return true
			}
		}
		return false
	}
	for range 2000 {
		first, second := list(), list()
		merged := mergedBy(t, first, second)
		if len(merged) > len(first)+len(second) {
			t.Fatalf("%v and %v: %v", first, second, merged)
		}
		for _, key := range []string{"a", "b", "c"} {
			for _, value := range []string{"1", "2"} {
				for _, effect := range []string{"NoSchedule", "NoExecute"} {
					want := tolerates(first, key, value, effect) || tolerates(second, key, value, effect)
					if got := tolerates(merged, key, value, effect); got != want {
						t.Fatalf("%v and %v: %v tolerates %s=%s:%s: %v", first, second, merged, key, value, effect, got)
					}
				}
			}
		}
	}
}
