package owner

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/internal/used"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func newSet(namespace, name, app string) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
	}
}

// TestAdopters checks that an orphan is offered to the owners in its namespace that select it, and
// that an object with a controller or a deleted object is offered to none.
func TestAdopters(t *testing.T) {
	broken := newSet("ns", "broken", "web")
	broken.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "no"}}}
	sets := []*appsv1.ReplicaSet{newSet("ns", "web", "web"), newSet("ns", "db", "db"), newSet("other", "web", "web"), broken}
	selector := func(rs *appsv1.ReplicaSet) *metav1.LabelSelector { return rs.Spec.Selector }
	kind := appsv1.SchemeGroupVersion.WithKind("ReplicaSet")
	now := metav1.Now()
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   string
	}{
		"orphan": {func(*corev1.Pod) {}, "ns/web"},
		"other":  {func(p *corev1.Pod) { p.Labels["app"] = "cache" }, ""},
		"owned": {func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(sets[1], kind)}
		}, ""},
		"deleted": {func(p *corev1.Pod) { p.DeletionTimestamp = &now }, ""},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: map[string]string{"app": "web"}}}
		test.change(pod)
		if got := strings.Join(slices.Collect(Adopters(pod, slices.Values(sets), selector)), " "); got != test.want {
			t.Errorf("%s: adopters %q, want %q", name, got, test.want)
		}
	}
}

// TestControllers checks that the controllers of the old and the new object are enqueued once each,
// if they are of the kind.
func TestControllers(t *testing.T) {
	kind := appsv1.SchemeGroupVersion.WithKind("ReplicaSet")
	of := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(newSet("ns", name, "web"), kind),
		}}}
	}
	for want, change := range map[string][2]*corev1.Pod{
		"ns/a": {nil, of("a")}, "ns/a ns/b": {of("a"), of("b")}, "ns/b": {of("b"), of("b")}, "ns/c": {of("c"), {}}, "": {{}, nil},
	} {
		if got := strings.Join(slices.Collect(Controllers[*corev1.Pod]("apps", "ReplicaSet")(change[0], change[1])), " "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := slices.Collect(Controllers[*corev1.Pod]("batch", "Job")(nil, of("a"))); len(got) > 0 {
		t.Errorf("a controller of another kind is enqueued: %v", got)
	}
}

// TestCostOfLongSelectors: 1,000 orphans beside an owner with a selector of 20,000 requirements take little time, also
// where each read of the cache makes another copy of the owner.
func TestCostOfLongSelectors(t *testing.T) {
	same, absent := map[string]string{}, newSet("ns", "absent", "web")
	for i := range 20_000 {
		same[fmt.Sprint("key", i)] = "v"
		absent.Spec.Selector.MatchExpressions = append(absent.Spec.Selector.MatchExpressions,
			metav1.LabelSelectorRequirement{Key: fmt.Sprint("key", i), Operator: metav1.LabelSelectorOpDoesNotExist})
	}
	before := used.Processor()
	for range 1000 {
		made := newSet("ns", "made", "")
		made.Spec.Selector.MatchLabels = same
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: map[string]string{"app": "web"}}}
		got := slices.Collect(Adopters(pod, slices.Values([]*appsv1.ReplicaSet{made, absent}), func(rs *appsv1.ReplicaSet) *metav1.LabelSelector { return rs.Spec.Selector }))
		if len(got) != 1 || got[0] != "ns/absent" {
			t.Fatalf("Adopters() = %v, want ns/absent", got)
		}
	}
	took := used.Processor() - before
	t.Logf("1,000 orphans take %v", took)
	if took > 5*time.Second {
		t.Errorf("Adopters() 1,000 times takes %v, want less than 5s", took)
	}
}
