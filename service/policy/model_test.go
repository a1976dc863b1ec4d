package policy_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/planekit/planekit/service/policy"
	"github.com/planekit/planekit/service/ruleset"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The fragments of random policies and pods make a table in which every rule refers only to chains and
// sets that there are, and a change of one pod elsewhere changes elements alone.
func TestFragments(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 6))
		w := policy.World{Node: "node", Policies: random(r), Namespaces: map[string]*corev1.Namespace{}}
		for _, n := range []string{"a", "b"} {
			w.Namespaces[n] = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n, Labels: map[string]string{"team": n}}}
		}
		for i := range 6 {
			w.Pods = append(w.Pods, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: []string{"a", "b"}[i%2], Name: fmt.Sprint("pod", i), Labels: map[string]string{"app": fmt.Sprint("app", i/2)}},
				Spec:       corev1.PodSpec{NodeName: []string{"node", "other"}[i/4]},
				Status:     corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: fmt.Sprint("10.65.1.", i+2)}}},
			})
		}
		model := ruleset.NewModel()
		put := func(w policy.World) *ruleset.Change {
			c := &ruleset.Change{}
			for owner, f := range w.Fragments() {
				if conflicts := model.Put(owner, "", f, c); len(conflicts) > 0 {
					t.Fatalf("seed %d: conflicts %v", seed, conflicts)
				}
			}
			return c
		}
		put(w)
		before := len(model.Table().Chains)
		for place := range model.Table().Elements {
			if _, ok := model.Table().Sets[place.Set]; !ok {
				t.Fatalf("seed %d: an element of %q, which there is not", seed, place.Set)
			}
		}
		if again := put(w); !again.Empty() {
			t.Fatalf("seed %d: the same world changes %d parts", seed, again.Size())
		}
		moved := w.Pods[5].DeepCopy()
		moved.Status.PodIPs = []corev1.PodIP{{IP: "10.65.7.7"}}
		w.Pods[5] = moved
		put(w)
		if len(model.Table().Chains) != before {
			t.Fatalf("seed %d: the change of a pod elsewhere changed chains", seed)
		}
	}
}

func TestConfig(t *testing.T) {
	if _, err := policy.New(policy.Config{Node: "node"}); err == nil {
		t.Error("no error about a configuration without caches")
	}
}
