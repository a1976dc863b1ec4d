package controllers_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/node"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (c *cluster) runPodGarbage(t *testing.T, ended int, podLag, nodeLag lag) *process {
	t.Helper()
	return launch(t, func(ctx context.Context) []controllers.Runner {
		return []controllers.Runner{must[*node.PodGarbage](t)(node.NewPodGarbage(node.PodGarbageConfig{
			Pods: follow(ctx, c.pods, podLag), Nodes: follow(ctx, c.nodes, nodeLag), NodeReader: c.nodes, Writer: c.pods, Ended: ended,
		}))}
	})
}

func (c *cluster) addPod(t *testing.T, name, node string, change func(*corev1.Pod)) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Generation: 3}, Spec: corev1.PodSpec{NodeName: node}}
	if change != nil {
		change(pod)
	}
	must[*corev1.Pod](t)(c.pods.Create(t.Context(), pod))
}

func (c *cluster) podNames() (names []string) {
	for _, pod := range c.pods.list() {
		names = append(names, pod.Name)
	}
	return names
}

// TestPodGarbage has nodes that the cache shows late: their absence from it proves nothing.
func TestPodGarbage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.addNode(t, "here")
		c.addNode(t, "gone")
		p := launch(t, func(ctx context.Context) []controllers.Runner {
			pods := follow(ctx, c.pods, lag{})
			nodes := follow(ctx, c.nodes, lag{most: time.Minute})
			return []controllers.Runner{must[*node.PodGarbage](t)(node.NewPodGarbage(node.PodGarbageConfig{
				Pods: pods, Nodes: nodes, NodeReader: c.nodes, Writer: c.pods,
			}))}
		})
		c.addNode(t, "new")
		for _, node := range []string{"here", "gone", "new", ""} {
			must[*corev1.Pod](t)(c.pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "on-" + node},
				Spec: corev1.PodSpec{NodeName: node}}))
		}
		settle()
		if got := len(c.pods.list()); got != 4 {
			t.Errorf("%d pods, want 4", got)
		}
		if err := c.nodes.Delete(t.Context(), "", "gone", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		settle()
		var left []string
		for _, pod := range c.pods.list() {
			left = append(left, pod.Name)
		}
		if !slices.Equal(left, []string{"on-", "on-here", "on-new"}) {
			t.Errorf("left are %v", left)
		}
		p.stop(t)
	})
}

func hold(p *corev1.Pod) { p.Finalizers = []string{"example.com/hold"} }

// TestPodGarbageQuarantine waits for nodes that are missing: one that shows up
// again, one that only the copy misses, and one that is gone.
func TestPodGarbageQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		p := c.runPodGarbage(t, 0, lag{}, lag{})
		c.addPod(t, "held", "gone", hold)
		c.addPod(t, "orphan", "gone", nil)
		c.addPod(t, "early", "late", nil)
		time.Sleep(39 * time.Second)
		c.addNode(t, "late")
		if got := c.podNames(); len(got) != 3 {
			t.Errorf("left in quarantine are %v", got)
		}
		time.Sleep(2 * time.Second)
		if got := c.podNames(); !slices.Equal(got, []string{"early", "held"}) {
			t.Errorf("left are %v", got)
		}
		held := c.pods.list()[1]
		if held.Status.Phase != corev1.PodFailed || len(held.Status.Conditions) != 1 || held.DeletionTimestamp == nil || *held.DeletionGracePeriodSeconds != 0 {
			t.Fatalf("pod %+v", held)
		}
		got := held.Status.Conditions[0]
		if got.Type != corev1.DisruptionTarget || got.Status != corev1.ConditionTrue || got.Reason != "DeletionByPodGC" ||
			got.Message != "PodGC: node no longer exists" || got.ObservedGeneration != held.Generation {
			t.Errorf("condition %+v", got)
		}
		writes := len(c.wrote())
		settle()
		if got := c.wrote(); len(got) != writes {
			t.Errorf("what is held is written again: %v", got[writes:])
		}
		// Gone again, it is waited for again.
		removeOutside(t, c.nodes, "", "late")
		time.Sleep(39 * time.Second)
		if got := c.podNames(); !slices.Equal(got, []string{"early", "held"}) {
			t.Errorf("left in the second quarantine are %v", got)
		}
		time.Sleep(2 * time.Second)
		if got := c.podNames(); !slices.Equal(got, []string{"held"}) {
			t.Errorf("left after the second quarantine are %v", got)
		}
		p.stop(t)
	})
}

// TestPodGarbageForced has a pod whose deletion was forced, that a finalizer holds and whose node
// is deleted: no other process would mark it as ended.
func TestPodGarbageForced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.addPod(t, "forced", "gone", hold)
		if err := c.pods.Delete(outside(), "default", "forced", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
			t.Fatal(err)
		}
		p := c.runPodGarbage(t, 0, lag{}, lag{})
		settle()
		if got := c.pods.list()[0].Status; got.Phase != corev1.PodFailed || len(got.Conditions) != 1 || got.ObservedGeneration != 1 {
			t.Errorf("status %+v", got)
		}
		p.stop(t)
	})
}

// TestPodGarbageTerminating has pods that are to go and that no kubelet ends.
func TestPodGarbageTerminating(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		p := c.runPodGarbage(t, 0, lag{most: time.Second}, lag{most: time.Second})
		for _, name := range []string{"works", "broken"} {
			c.addNode(t, name)
		}
		for _, pod := range []string{"", "works", "broken"} {
			c.addPod(t, "stays-"+pod, pod, nil)
			c.addPod(t, "goes-"+pod, pod, nil)
			if err := c.pods.Delete(t.Context(), "default", "goes-"+pod, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		settle()
		if got := c.podNames(); !slices.Equal(got, []string{"goes-broken", "goes-works", "stays-", "stays-broken", "stays-works"}) {
			t.Errorf("left are %v", got)
		}
		for _, name := range []string{"works", "broken"} {
			c.nodes.alter(t, name, func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: "node.kubernetes.io/out-of-service", Effect: corev1.TaintEffectNoExecute}}
				if name == "works" {
					n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
				}
			})
		}
		settle()
		if got := c.podNames(); !slices.Equal(got, []string{"goes-works", "stays-", "stays-broken", "stays-works"}) {
			t.Errorf("left are %v", got)
		}
		p.stop(t)
	})
}

// TestPodGarbageEnded has more pods end than may be kept, with copies that lag,
// writes that fail and restarts. Exactly as many are left as may be, and never
// fewer.
func TestPodGarbageEnded(t *testing.T) {
	for range 10 {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 0))
				c := newCluster()
				c.addNode(t, "n")
				for i := range 30 {
					c.addPod(t, fmt.Sprintf("pod-%02d", i), "n", nil)
					time.Sleep(time.Second)
				}
				c.addPod(t, "evicted", "n", nil)
				c.pods.check = func(old, new *corev1.Pod) {
					n := 0
					for _, pod := range c.pods.objects {
						if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
							n++
						}
					}
					if new == nil && (n < 10 || old.Status.Phase == "") {
						t.Errorf("%s deleted, %d are left", old.Name, n)
					}
				}
				w := &world{api: c.api}
				noFaults := w.faults(r, 30)
				slow := lag{random: r, most: 5 * time.Second, relist: 10}
				p := c.runPodGarbage(t, 10, slow, slow)
				for i := range 20 {
					time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
					c.pods.alter(t, fmt.Sprintf("default/pod-%02d", i), func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
					if i == 5 {
						c.pods.alter(t, "default/evicted", func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Evicted" })
					}
					if r.IntN(5) == 0 {
						p.stop(t)
						p = c.runPodGarbage(t, 10, slow, slow)
					}
				}
				noFaults()
				settle()
				got := c.podNames()
				if len(got) != 20 || slices.Contains(got, "evicted") || !strings.Contains(strings.Join(got, " "), "pod-10 pod-11 ") {
					t.Errorf("left are %v", got)
				}
				p.stop(t)
			})
		})
	}
}

// TestPodGarbageToldTwice reports some changes twice: that ended pods are deleted, and later that
// other pods have ended. The surplus is deleted all the same.
func TestPodGarbageToldTwice(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster()
			c.addNode(t, "n")
			ended := func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
			for i := range 10 {
				c.addPod(t, fmt.Sprint("before-", i), "n", ended)
			}
			p := c.runPodGarbage(t, 10, lag{random: rand.New(rand.NewPCG(seed, 0)), twice: 50}, lag{})
			synctest.Wait()
			for i := range 10 {
				if err := c.pods.Delete(outside(), "default", fmt.Sprint("before-", i), metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
					t.Fatal(err)
				}
			}
			for i := range 11 {
				c.addPod(t, fmt.Sprint("after-", i), "n", ended)
				time.Sleep(time.Second)
			}
			settle()
			if left := len(c.podNames()); left != 10 {
				t.Errorf("seed %d: %d pods are left, want 10", seed, left)
			}
			p.stop(t)
		})
	}
}

// TestPodGarbageModel has nodes come and go, copies that lag and miss changes,
// writes that fail, and restarts. No pod is ended whose node is there, and in
// the end none is left whose node is not.
func TestPodGarbageModel(t *testing.T) {
	for range 10 {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { modelPodGarbage(t, seed) })
		})
	}
}

func modelPodGarbage(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0))
	c := newCluster()
	orphaned := map[string]bool{} // pods that were seen without their node
	c.nodes.check = func(old, new *corev1.Node) {
		for _, pod := range c.pods.objects {
			if new == nil && pod.Spec.NodeName == old.Name {
				orphaned[pod.Name] = true
			}
		}
	}
	c.pods.check = func(old, new *corev1.Pod) {
		if old != nil && (new == nil || new.Status.Phase == corev1.PodFailed) && !orphaned[old.Name] {
			t.Errorf("%s ended though its node is there", old.Name)
		}
	}
	names := []string{"a", "b", "c"}
	for _, name := range names {
		c.addNode(t, name)
	}
	noFaults := (&world{api: c.api}).faults(r, 30)
	slow := lag{random: r, most: 20 * time.Second, relist: 10}
	p := c.runPodGarbage(t, 0, slow, slow)
	for i := range 40 {
		time.Sleep(time.Duration(r.IntN(20)) * time.Second)
		name := names[r.IntN(len(names))]
		switch r.IntN(5) {
		case 0:
			p.stop(t)
			p = c.runPodGarbage(t, 0, slow, slow)
		case 1:
			_ = c.nodes.Delete(t.Context(), "", name, metav1.DeleteOptions{}) // may be gone, may fail
		case 2:
			_, _ = c.nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		default:
			c.mu.Lock()
			_, there := c.nodes.objects[name]
			c.mu.Unlock()
			if there {
				_, _ = c.pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint(i)}, Spec: corev1.PodSpec{NodeName: name}})
			}
		}
	}
	noFaults()
	_ = c.nodes.Delete(t.Context(), "", "a", metav1.DeleteOptions{})
	settle()
	for _, pod := range c.pods.list() {
		if !slices.ContainsFunc(c.nodes.list(), func(n *corev1.Node) bool { return n.Name == pod.Spec.NodeName }) {
			t.Errorf("%s is left of %s", pod.Name, pod.Spec.NodeName)
		}
	}
	p.stop(t)
}
