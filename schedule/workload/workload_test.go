package workload_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/planekit/planekit/internal/used"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/schedule/workload"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "default", Name: name}
}

func services(list ...*corev1.Service) localcache.Index[string, *corev1.Service] {
	return localcache.Scan(localcache.NewMap(list...), func(s *corev1.Service) []string { return []string{s.Namespace} })
}

func service(name string, selector map[string]string) *corev1.Service {
	return &corev1.Service{ObjectMeta: named(name), Spec: corev1.ServiceSpec{Selector: selector}}
}

func Example() {
	set := &appsv1.ReplicaSet{ObjectMeta: named("web-1"), Spec: appsv1.ReplicaSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web", "version": "1"}},
	}}
	together, err := workload.New(workload.Config{
		ServicesByNamespace: services(service("web", map[string]string{"app": "web"})),
		ReplicaSets:         localcache.NewMap(set),
	})
	if err != nil {
		panic(err)
	}
	pod := &corev1.Pod{ObjectMeta: named("web-1-x")}
	pod.Labels = map[string]string{"app": "web", "version": "1"}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-1", Controller: new(true)}}
	fmt.Println(together.Selector(pod))
	// Output: app=web,app=web,version=1
}

// TestSelector checks whose selectors count: those of services of the pod's namespace that select it, and
// that of its controller, if there is a cache of its kind.
func TestSelector(t *testing.T) {
	elsewhere := service("other", map[string]string{"app": "web"})
	elsewhere.Namespace = "other"
	config := workload.Config{
		ServicesByNamespace: services(
			service("web", map[string]string{"app": "web"}), service("front", map[string]string{"tier": "front"}),
			service("db", map[string]string{"app": "db"}), service("none", nil), elsewhere),
		ReplicationControllers: localcache.NewMap(&corev1.ReplicationController{ObjectMeta: named("rc"),
			Spec: corev1.ReplicationControllerSpec{Selector: map[string]string{"rc": "1"}}}),
		ReplicaSets: localcache.NewMap(
			&appsv1.ReplicaSet{ObjectMeta: named("rs"), Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "rs", Operator: metav1.LabelSelectorOpExists}}}}},
			&appsv1.ReplicaSet{ObjectMeta: named("bad"), Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "rs", Operator: "Like"}}}}}),
		StatefulSets: localcache.NewMap(&appsv1.StatefulSet{ObjectMeta: named("ss"),
			Spec: appsv1.StatefulSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"ss": "1"}}}}),
	}
	bare := config
	bare.ReplicationControllers, bare.ReplicaSets, bare.StatefulSets = nil, nil, nil
	for _, test := range []struct {
		labels              map[string]string
		owner, kind, group  string
		noController        bool
		want, wantWithNoSet string
	}{
		{},
		{labels: map[string]string{"app": "web"}, want: "app=web", wantWithNoSet: "app=web"},
		{labels: map[string]string{"app": "web", "tier": "front"}, want: "app=web,tier=front", wantWithNoSet: "app=web,tier=front"},
		{owner: "rc", kind: "ReplicationController", group: "v1", want: "rc=1"},
		{owner: "rs", kind: "ReplicaSet", group: "apps/v1", want: "rs"},
		{owner: "ss", kind: "StatefulSet", group: "apps/v1", want: "ss=1"},
		{owner: "rs", kind: "ReplicaSet", group: "apps/v1", noController: true},
		{owner: "gone", kind: "ReplicaSet", group: "apps/v1"},
		{owner: "bad", kind: "ReplicaSet", group: "apps/v1"},
		{owner: "rs", kind: "ReplicaSet", group: "example.com/v1"},
		{labels: map[string]string{"app": "db"}, owner: "ss", kind: "StatefulSet", group: "apps/v1", want: "app=db,ss=1", wantWithNoSet: "app=db"},
	} {
		pod := &corev1.Pod{ObjectMeta: named("pod")}
		pod.Labels = test.labels
		if test.owner != "" {
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: test.group, Kind: test.kind, Name: test.owner, Controller: new(!test.noController)}}
		}
		for want, c := range map[*string]workload.Config{&test.want: config, &test.wantWithNoSet: bare} {
			together, err := workload.New(c)
			if err != nil {
				t.Fatal(err)
			}
			if got := together.Selector(pod).String(); got != *want {
				t.Errorf("%+v: %q, want %q", test, got, *want)
			}
		}
	}
	if _, err := workload.New(workload.Config{}); err == nil || err.Error() != "workload: ServicesByNamespace must be set" {
		t.Error(err)
	}
}

// TestCostOfLongSelectors: the pods of a ReplicaSet with a selector of 20,000 requirements cost little each, also if a
// service selects them.
func TestCostOfLongSelectors(t *testing.T) {
	set := &appsv1.ReplicaSet{ObjectMeta: named("rs"), Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{}}}
	for i := range 20_000 {
		set.Spec.Selector.MatchExpressions = append(set.Spec.Selector.MatchExpressions,
			metav1.LabelSelectorRequirement{Key: fmt.Sprint("key", i), Operator: metav1.LabelSelectorOpDoesNotExist})
	}
	together, err := workload.New(workload.Config{
		ServicesByNamespace: services(service("web", map[string]string{"app": "web"})), ReplicaSets: localcache.NewMap(set),
	})
	if err != nil {
		t.Fatal(err)
	}
	before := used.Processor()
	for i := range 500 {
		pod := &corev1.Pod{ObjectMeta: named(fmt.Sprint("rs-", i))}
		pod.Labels = map[string]string{"app": "web"}
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "rs", Controller: new(true)}}
		s := together.Selector(pod)
		if !s.Matches(labels.Set(pod.Labels)) || s.Matches(labels.Set{"app": "web", "key3": ""}) || s.Matches(labels.Set{"app": "db"}) || len(s.String()) < 100_000 {
			t.Fatalf("Selector() = %.100s, want one that matches %v", s, pod.Labels)
		}
	}
	took := used.Processor() - before
	t.Logf("500 pods take %v", took)
	if took > 5*time.Second {
		t.Errorf("Selector() 500 times takes %v, want less than 5s", took)
	}
}
