package gate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/planekit/planekit/kubelet/admission"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// newPod returns a pod that requests cpus, created at a second.
func newPod(name string, cpus, second int, critical bool) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.Unix(int64(second), 0)}}
	pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewQuantity(int64(cpus), resource.DecimalSI),
	}}}}
	if critical {
		pod.Spec.Priority = new(int32(2_000_000_000))
	}
	return pod
}

func nodeOf(cpus int) *corev1.Node {
	return &corev1.Node{Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewQuantity(int64(cpus), resource.DecimalSI), corev1.ResourcePods: resource.MustParse("100"),
	}}}
}

func newGate(t *testing.T, node *corev1.Node) *Gate {
	handlers, err := admission.Handlers(admission.Host{})
	if err != nil {
		t.Fatal(err)
	}
	return New(func(context.Context, bool) *corev1.Node { return node }, func() []admission.Handler { return handlers })
}

// TestOrder: pods that have started before come first, then the oldest ones, whichever worker asks
// first.
func TestOrder(t *testing.T) {
	for seed := range 50 {
		g := newGate(t, nodeOf(3))
		g.Restore(newPod("started", 1, 9, false))
		pods := []*corev1.Pod{newPod("c", 1, 3, false), newPod("a", 1, 1, false), newPod("b", 1, 2, false)}
		g.Enqueue(pods...)
		rand.New(rand.NewPCG(uint64(seed), 0)).Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
		for _, p := range pods {
			want := ""
			if p.Name == "c" {
				want = "OutOfcpu"
			}
			if got := g.Decide(t.Context(), p); got.Reason != want {
				t.Errorf("seed %d: %s: %+v", seed, p.Name, got)
			}
		}
	}
}

// TestFreshLabels: a pod that does not match the labels of the Node is refused only after the Node was
// read again.
func TestFreshLabels(t *testing.T) {
	handlers, err := admission.Handlers(admission.Host{})
	if err != nil {
		t.Fatal(err)
	}
	now := nodeOf(1)
	now.Labels = map[string]string{"zone": "a"}
	reads := 0
	g := New(func(_ context.Context, fresh bool) *corev1.Node {
		switch {
		case !fresh:
			return nodeOf(1)
		case reads > 1:
			return nil // the API does not answer
		}
		reads++
		return now
	}, func() []admission.Handler { return handlers })
	for i, test := range []struct{ zone, want string }{{"a", ""}, {"b", "NodeAffinity"}, {"a", "NodeAffinity"}} {
		pod := newPod(fmt.Sprint("p", i), 0, i, false)
		pod.Spec.NodeSelector = map[string]string{"zone": test.zone}
		if got := g.Decide(t.Context(), pod); got.Reason != test.want {
			t.Errorf("%d: Decide on a pod for the zone %s = %+v, want the reason %q", i, test.zone, got, test.want)
		}
	}
}

// TestCanceledWorker: a worker whose context ends does not spoil the decision about the pod of another
// one.
func TestCanceledWorker(t *testing.T) {
	handlers, err := admission.Handlers(admission.Host{})
	if err != nil {
		t.Fatal(err)
	}
	g := New(func(ctx context.Context, fresh bool) *corev1.Node {
		node := nodeOf(1)
		if fresh && ctx.Err() == nil {
			node.Labels = map[string]string{"zone": "a"}
		}
		return node
	}, func() []admission.Handler { return handlers })
	first, second := newPod("first", 0, 0, false), newPod("second", 0, 1, false)
	first.Spec.NodeSelector = map[string]string{"zone": "a"}
	g.Enqueue(first, second)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g.Decide(ctx, second)
	if got := g.Decide(t.Context(), first); !got.Admits() {
		t.Errorf("Decide on the first pod after a canceled worker = %+v, want it admitted", got)
	}
}

func TestNodeIsUnknown(t *testing.T) {
	g := New(func(context.Context, bool) *corev1.Node { return nil }, func() []admission.Handler { return nil })
	if got := g.Decide(t.Context(), newPod("p", 0, 0, false)); got.Reason != "InvalidNodeInfo" || got.Message != "Kubelet cannot get node info." {
		t.Errorf("Decide without a node = %+v, want InvalidNodeInfo, \"Kubelet cannot get node info.\"", got)
	}
}

// TestPreemption: a critical pod, and every pod that is admitted meanwhile, waits for the pods that end
// for it. What these held is free at once for decisions, and not taken twice.
func TestPreemption(t *testing.T) {
	g := newGate(t, nodeOf(4))
	for _, name := range []string{"a", "b"} {
		if got := g.Decide(t.Context(), newPod(name, 2, 0, false)); !got.Admits() {
			t.Fatal(got)
		}
	}
	first := g.Decide(t.Context(), newPod("first", 2, 1, true))
	if len(first.Victims) != 1 || len(first.After) != 1 || first.After[0].Pod != first.Victims[0] {
		t.Fatalf("Decide on the first critical pod = %+v, want one victim, and that alone in After", first)
	}
	if got := g.Decide(t.Context(), newPod("late", 1, 2, false)); got.Reason != "OutOfcpu" {
		t.Errorf("late: %+v", got)
	}
	small := g.Decide(t.Context(), newPod("small", 0, 3, false))
	if !small.Admits() || len(small.After) != 1 {
		t.Errorf("small: %+v", small)
	}
	victim := first.Victims[0]
	if !g.Ending(victim.UID) || g.Ending("first") || g.Ending("nothing") {
		t.Error("the victim does not end")
	}
	g.Restore(victim) // its worker starts late
	second := g.Decide(t.Context(), newPod("second", 2, 4, true))
	if len(second.Victims) != 1 || second.Victims[0] == victim || len(second.After) != 2 {
		t.Fatalf("second: %+v", second)
	}
	if !g.Leave(victim.UID) || g.Leave(victim.UID) || g.Leave("nothing") {
		t.Error("leaving is reported wrongly")
	}
	<-first.After[0].Left
	third := g.Decide(t.Context(), newPod("third", 0, 5, false))
	if len(third.After) != 1 || !g.Forget(second.Victims[0].UID) {
		t.Errorf("third: %+v", third)
	}
}

// TestGateModel: pods come, are asked about by workers in any order and at once, and go. At no time do
// the pods that were admitted and have not left hold more than the node has, and what is refused did
// not fit.
func TestGateModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for i := range 200 {
		random := rand.New(rand.NewPCG(seed+uint64(i), 0))
		g := newGate(t, nodeOf(8))
		var all []*corev1.Pod
		for n := range 30 {
			pod := newPod(fmt.Sprint("p", n), random.IntN(5), random.IntN(4), random.IntN(6) == 0)
			all = append(all, pod)
			g.Enqueue(pod)
			if random.IntN(3) > 0 {
				continue
			}
			var group sync.WaitGroup
			for _, p := range all {
				group.Go(func() {
					if first, again := g.Decide(t.Context(), p), g.Decide(t.Context(), p); first.Reason != again.Reason {
						t.Errorf("seed %d: %s is decided twice", seed+uint64(i), p.Name)
					}
				})
			}
			if random.IntN(2) == 0 {
				p := all[random.IntN(len(all))]
				group.Go(func() { g.Leave(p.UID) })
			}
			group.Wait()
			holding := g.Pods()
			used := int64(0)
			for _, p := range holding {
				used += admission.Requests(p)[corev1.ResourceCPU]
			}
			if used > 8000 {
				t.Fatalf("seed %d: %d of 8000 are held", seed+uint64(i), used)
			}
			if len(g.queue) > 0 || slices.ContainsFunc(holding, func(p *corev1.Pod) bool { return g.pods[p.UID].hasLeft() }) {
				t.Fatalf("seed %d: a pod waits, or holds after it left", seed+uint64(i))
			}
		}
		for _, p := range all {
			g.Forget(p.UID)
		}
		if len(g.pods)+len(g.Pods()) > 0 {
			t.Fatalf("seed %d: something is left", seed+uint64(i))
		}
	}
}
