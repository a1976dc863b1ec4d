package plugins

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/plugins"
	"github.com/planekit/planekit/apiserver/kube"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	stock "k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/kubeapiserver/options"
)

// namespace is the namespace of the pods.
const namespace = "shop"

// TestOrder: names, order and defaults are kube-apiserver's; names that it has removed are off.
func TestOrder(t *testing.T) {
	gone := []string{"SecurityContextDeny", "InitialResources", "Initializers"}
	ours := slices.DeleteFunc(plugins.Order(), func(name string) bool { return slices.Contains(gone, name) })
	if !slices.Equal(ours, options.AllOrderedPlugins) {
		t.Errorf("%v\nwant %v", ours, options.AllOrderedPlugins)
	}
	off := options.DefaultOffAdmissionPlugins()
	for _, name := range plugins.Order() {
		want := !off.Has(name) && !slices.Contains(gone, name)
		if slices.Contains(plugins.DefaultOn(), name) != want {
			t.Errorf("%s is on by default: %v, want %v", name, !want, want)
		}
	}
}

// TestPluginsAgree: both sides' plugins change random pods in the same way, at creation and update,
// or refuse them with the same text.
func TestPluginsAgree(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	never := corev1.PreemptNever
	classes := append(kube.PriorityClasses(),
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "usual"}, Value: 50, GlobalDefault: true, PreemptionPolicy: &never},
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "low"}, Value: -7})
	theirs, err := newStock(t.Context(), classes)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := newOwn(t.Context(), classes)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for i := range 20_000 {
		pod, old := randomPod(random), (*corev1.Pod)(nil)
		if random.IntN(2) == 0 {
			old = randomPod(random)
		}
		before, both := pod.DeepCopy(), random.IntN(3) > 0 // or the validators alone
		a, errA := throughPlanekit(t.Context(), ours, pod.DeepCopy(), old, both)
		b, errB := throughStock(t.Context(), theirs, pod, old, both)
		if said(errA) != said(errB) {
			t.Fatalf("case %d (seed %d): planekit: %v\nkube-apiserver: %v\n%+v", i, seed, errA, errB, before.Spec)
		}
		if errA != nil {
			refused++
			continue
		}
		if !equality.Semantic.DeepEqual(a.Spec, b.Spec) {
			t.Fatalf("case %d (seed %d): planekit\n%+v\nkube-apiserver\n%+v\nof\n%+v", i, seed, a.Spec, b.Spec, before.Spec)
		}
	}
	if refused < 1000 || refused > 19_000 {
		t.Errorf("%d of 20000 were refused: this tries too little", refused)
	}
}

// said returns the normalized text of an error. kube-apiserver repeats what is forbidden for each
// of several problems.
func said(err error) string {
	var many utilerrors.Aggregate
	var one *admission.ForbiddenError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &one) && errors.As(one.Err, &many):
		var all []string
		for _, e := range many.Errors() {
			all = append(all, said(admission.Forbidden(&admission.Request{Resource: admission.GroupVersionResource{Resource: one.Resource}, Name: one.Name}, e)))
		}
		return strings.Join(all, "; ")
	case errors.As(err, &many):
		var all []string
		for _, e := range many.Errors() {
			all = append(all, e.Error())
		}
		return strings.Join(all, "; ")
	case errors.As(err, &one):
		return apierrors.NewForbidden(schema.GroupResource{Group: one.Group, Resource: one.Resource}, one.Name, one.Err).Error()
	}
	return err.Error()
}

func throughPlanekit(ctx context.Context, chain admission.Chain, pod, old *corev1.Pod, mutate bool) (*corev1.Pod, error) {
	r := &admission.Request{
		Operation: admission.Create, Namespace: namespace, Name: "web", Object: pod,
		Resource: admission.GroupVersionResource{Version: "v1", Resource: "pods"},
		Kind:     admission.GroupVersionKind{Version: "v1", Kind: "Pod"},
	}
	if old != nil {
		r.Operation, r.OldObject = admission.Update, old.DeepCopy()
	}
	if mutate {
		if err := chain.Mutate(ctx, r); err != nil {
			return nil, err
		}
	}
	return pod, chain.Validate(ctx, r)
}

func throughStock(ctx context.Context, chain stock.Interface, pod, old *corev1.Pod, mutate bool) (*corev1.Pod, error) {
	in, before := &core.Pod{}, &core.Pod{}
	if err := legacyscheme.Scheme.Convert(pod, in, nil); err != nil {
		return nil, err
	}
	op := stock.Create
	kind, pods := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	a := stock.NewAttributesRecord(in, nil, kind, namespace, "web", pods, "", op, nil, false, nil)
	if old != nil {
		if err := legacyscheme.Scheme.Convert(old, before, nil); err != nil {
			return nil, err
		}
		a = stock.NewAttributesRecord(in, before, kind, namespace, "web", pods, "", stock.Update, nil, false, nil)
	}
	if mutate {
		if err := chain.(stock.MutationInterface).Admit(ctx, a, nil); err != nil {
			return nil, err
		}
	}
	if err := chain.(stock.ValidationInterface).Validate(ctx, a, nil); err != nil {
		return nil, err
	}
	out := &corev1.Pod{}
	return out, legacyscheme.Scheme.Convert(in, out, nil)
}

// randomPod returns a pod with random values in all fields that the plugins read.
func randomPod(random *rand.Rand) *corev1.Pod {
	maybe := func(n int) bool { return random.IntN(n) == 0 }
	policies := []corev1.PullPolicy{"", corev1.PullAlways, corev1.PullNever, corev1.PullIfNotPresent}
	container := func() corev1.Container {
		return corev1.Container{Name: "c", Image: fmt.Sprint("image-", random.IntN(3)), ImagePullPolicy: policies[random.IntN(len(policies))]}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: namespace}}
	spec := &pod.Spec
	spec.SecurityContext = &corev1.PodSecurityContext{} // kube-apiserver's own type requires one
	spec.PriorityClassName = []string{"", "usual", "low", "system-node-critical", "none"}[random.IntN(5)]
	if maybe(4) {
		value := []int32{0, 50, -7, 2_000_001_000}[random.IntN(4)]
		spec.Priority = &value
	}
	if maybe(4) {
		policy := []corev1.PreemptionPolicy{corev1.PreemptNever, corev1.PreemptLowerPriority}[random.IntN(2)]
		spec.PreemptionPolicy = &policy
	}
	for range random.IntN(3) {
		spec.Containers = append(spec.Containers, container())
	}
	for range random.IntN(2) {
		spec.InitContainers = append(spec.InitContainers, container())
	}
	for range random.IntN(2) {
		spec.EphemeralContainers = append(spec.EphemeralContainers, corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon(container())})
	}
	if maybe(3) {
		source := &corev1.ImageVolumeSource{Reference: "image-0", PullPolicy: policies[random.IntN(len(policies))]}
		spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Image: source}}}
	}
	if maybe(2) {
		name := []string{"plain", "heavy", "placed", "heavy", "placed", "none"}[random.IntN(6)]
		spec.RuntimeClassName = &name
	}
	if maybe(6) {
		spec.Overhead = []corev1.ResourceList{{}, {"memory": resource.MustParse("65536Ki")}, {"memory": resource.MustParse("1Mi")}}[random.IntN(3)]
	}
	if maybe(4) {
		spec.NodeSelector = map[string]string{"disk": []string{"ssd", "hdd"}[random.IntN(2)]}
	}
	for range random.IntN(3) {
		spec.Tolerations = append(spec.Tolerations, corev1.Toleration{
			Key: []string{"gpu", "fpga"}[random.IntN(2)], Operator: []corev1.TolerationOperator{"", corev1.TolerationOpEqual}[random.IntN(2)],
			Value: []string{"a", "b"}[random.IntN(2)], Effect: []corev1.TaintEffect{"", corev1.TaintEffectNoSchedule}[random.IntN(2)],
		})
	}
	for range random.IntN(4) {
		spec.Tolerations = append(spec.Tolerations, corev1.Toleration{
			Key:      []string{"", "gpu", corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable}[random.IntN(4)],
			Operator: corev1.TolerationOpExists,
			Effect:   []corev1.TaintEffect{"", corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule}[random.IntN(3)],
		})
	}
	return pod
}
