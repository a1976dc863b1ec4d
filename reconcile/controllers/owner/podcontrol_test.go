package owner

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/internal/loop"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPodNames(t *testing.T) {
	owner := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: strings.Repeat("x", 70), UID: "uid"}}
	none := func(string) (*corev1.Pod, bool) { return nil, false }
	all, err := PodNames(owner, nil, nil, 2000, none)
	if err != nil || len(slices.Compact(slices.Sorted(slices.Values(all)))) != 2000 || len(all[0]) != 63 {
		t.Fatalf("%d names such as %s, %v", len(all), all[0], err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: all[1]}}
	got, _ := PodNames(owner, []*corev1.Pod{pod}, []string{all[5]}, 3, none)
	if want := []string{all[5], all[0], all[2]}; !slices.Equal(got, want) {
		t.Errorf("%v, want the one that was tried, and the lowest that are free: %v", got, want)
	}
	cache := func(key string) (*corev1.Pod, bool) { return pod, key == "ns/"+pod.Name }
	if got, err := PodNames(owner, nil, nil, 2, cache); err != nil || !slices.Equal(got, []string{all[0], all[2]}) {
		t.Errorf("with a stranger of that name: %v, %v", got, err)
	}
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
	if _, err := PodNames(owner, nil, nil, 2, cache); !loop.IsStale(err) {
		t.Errorf("with a pod that was not counted: %v", err)
	}
}

// noPods is an empty cache of pods.
type noPods struct{}

func (noPods) Get(string) (*corev1.Pod, bool)        { return nil, false }
func (noPods) WaitFor(context.Context, string) error { return nil }

// lossy applies nothing and says nothing of use.
type lossy struct{ names []string }

func (l *lossy) Create(_ context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	l.names = append(l.names, pod.Name)
	return nil, errors.New("connection reset")
}

func (l *lossy) Delete(context.Context, string, string, metav1.DeleteOptions) error { return nil }

// TestLostCreateIsTriedAgain has a lower name become free after a create whose
// answer was lost. Taking that would make a second pod.
func TestLostCreateIsTriedAgain(t *testing.T) {
	owner := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "uid"}}
	none := func(string) (*corev1.Pod, bool) { return nil, false }
	names, _ := PodNames(owner, nil, nil, 1, none)
	writer := &lossy{}
	p := PodControl{Writer: writer, Events: controllers.NoEvents{}, Kind: appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), Cache: noPods{}, Ledger: &Ledger{}}
	template := &corev1.PodTemplateSpec{}
	first := []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: names[0]}}}
	for _, pods := range [][]*corev1.Pod{first, nil} {
		p.Observe("ns/web", pods)
		if err := p.Create(t.Context(), owner, template, 1, pods); err == nil {
			t.Fatal("no error")
		}
	}
	if writer.names[0] == names[0] || writer.names[1] != writer.names[0] {
		t.Errorf("tried %v", writer.names)
	}
}

// limited makes as many pods as it may.
type limited struct {
	mu          sync.Mutex
	left, tries int
}

func (l *limited) Create(_ context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tries++
	if l.left--; l.left < 0 {
		return nil, errors.New("exceeded quota")
	}
	return pod, nil
}

func (l *limited) Delete(context.Context, string, string, metav1.DeleteOptions) error { return nil }

// TestSlowStart: batches double, and the one that fails is the last.
func TestSlowStart(t *testing.T) {
	owner := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "uid"}}
	for _, test := range []struct{ n, limit, tries int }{{100, 0, 1}, {100, 1, 3}, {100, 2, 3}, {100, 3, 7}, {100, 14, 15}, {100, 15, 31}, {20, 15, 20}, {20, 20, 20}} {
		writer := &limited{left: test.limit}
		p := PodControl{Writer: writer, Events: controllers.NoEvents{}, Kind: appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), Cache: noPods{}, Ledger: &Ledger{}}
		err := p.Create(t.Context(), owner, &corev1.PodTemplateSpec{}, test.n, nil)
		if writer.tries != test.tries || (err == nil) != (test.limit >= test.n) {
			t.Errorf("%d wanted and %d allowed: %d tried, %v", test.n, test.limit, writer.tries, err)
		}
	}
}
