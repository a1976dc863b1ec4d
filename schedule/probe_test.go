package schedule_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/internal/randomcluster"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestOneProbe checks that of many pods that are alike, one is tried for all.
func TestOneProbe(t *testing.T) {
	const many = 200
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.nodes.Put(node("n", "1", "1Gi", "1"))
		c.pods.Put(on(pod("old", "", ""), "n"))
		for i := range many {
			c.pods.Put(pod(fmt.Sprint("p", i), "", ""))
		}
		tries := func() int {
			time.Sleep(20 * time.Second)
			synctest.Wait()
			c.mu.Lock()
			defer c.mu.Unlock()
			n := c.tries
			c.tries, c.log = 0, nil
			return n
		}
		c.run(func() {
			if n := tries(); n != many {
				t.Errorf("%d tries at first", n)
			}
			c.pods.Delete("default/old") // room for one
			if n := tries(); n > 5 {
				t.Errorf("%d tries for one room", n)
			}
			c.nodes.Put(node("m", "1", "1Gi", "50")) // room for 50
			if n := tries(); n > 3*50 {
				t.Errorf("%d tries for 50 rooms", n)
			}
			bound := 0
			for p := range c.pods.All() {
				if p.Spec.NodeName != "" {
					bound++
				}
			}
			if bound != 51 {
				t.Errorf("%d pods are bound", bound)
			}
			// What nothing fits for another reason gets a message of its own.
			cordoned := node("n", "1", "1Gi", "1")
			cordoned.Spec.Unschedulable = true
			c.nodes.Put(cordoned)
			c.nodes.Put(node("small", "1", "1Gi", "0"))
			time.Sleep(20 * time.Second)
			synctest.Wait()
			for p := range c.pods.All() {
				if p.Spec.NodeName == "" && !strings.Contains(p.Status.Conditions[0].Message, "1 node(s) were unschedulable") {
					t.Fatalf("the pod %s has the message %q, want one with: 1 node(s) were unschedulable",
						p.Name, p.Status.Conditions[0].Message)
				}
			}
		})
	})
}

// TestProbesDoNotWait checks that the next pod is tried as soon as one that is alike has a node, also while
// that is being bound.
func TestProbesDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.nodes.Put(node("n", "1", "1Gi", "0"))
		for i := range 10 {
			c.pods.Put(pod(fmt.Sprint("p", i), "", ""))
		}
		c.change = func(config *schedule.Config) {
			config.Parallel = 10
			config.Bind = func(ctx context.Context, p *corev1.Pod, node string) error {
				time.Sleep(time.Minute)
				return c.bind(ctx, p, node)
			}
		}
		c.run(func() {
			time.Sleep(10 * time.Second)
			c.nodes.Put(node("n", "1", "1Gi", "10"))
			time.Sleep(time.Minute)
			synctest.Wait()
			for p := range c.pods.All() {
				if p.Spec.NodeName == "" {
					t.Errorf("%s is not bound", p.Name)
				}
			}
		})
	})
}

// named refuses a pod on nodes, unless the node's label has a letter of the pod's name. It is no
// schedule.ClassPredicate.
var named = schedule.PredicateFunc("Named", func(p *schedule.PodInfo, n *schedule.NodeInfo) schedule.Verdict {
	if strings.Contains(p.Pod.Name, n.Node.Labels["letter"]) {
		return schedule.Fits
	}
	return schedule.Refuse("node(s) had another letter")
})

// TestNoneForgotten changes a cluster at random while a scheduler runs. Whenever it rests, no pod that waits
// fits a node.
func TestNoneForgotten(t *testing.T) {
	first := rand.Uint64()
	for seed := first; seed < first+6; seed++ {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { noneForgotten(t, seed) })
		})
	}
}

func noneForgotten(t *testing.T, seed uint64) {
	random, rng := randomcluster.New(seed), rand.New(rand.NewPCG(seed, 1))
	c := newCluster(t)
	if seed%2 == 0 {
		c.predicates = append([]schedule.Predicate{named}, c.predicates...)
	}
	c.change = func(config *schedule.Config) {
		config.InitialBackoff, config.MaxBackoff = time.Second, time.Second
	}
	var templates []*corev1.Pod
	for range 4 {
		p := random.Pod()
		p.Spec.SchedulerName, p.Spec.NodeName, p.Status = "default-scheduler", "", corev1.PodStatus{}
		templates = append(templates, p)
	}
	nodes := []string{"n0", "n1", "n2", "n3"}
	change := func(step int) string {
		name := nodes[rng.IntN(len(nodes))]
		switch rng.IntN(6) {
		case 0, 1:
			n := random.Node(name)
			n.Labels["letter"] = []string{"", "a", "b"}[rng.IntN(3)]
			c.nodes.Put(n)
			return "set " + name
		case 2:
			if rng.IntN(3) == 0 {
				c.nodes.Delete(name)
				return "delete " + name
			}
			fallthrough
		case 3:
			for p := range c.pods.All() {
				if rng.IntN(4) == 0 {
					c.pods.Delete(localcache.KeyOf(p))
				}
			}
			return "delete pods"
		}
		for i := range rng.IntN(5) {
			p := templates[rng.IntN(len(templates))].DeepCopy()
			p.Name = fmt.Sprintf("%s-%d-%d", []string{"a", "b"}[rng.IntN(2)], step, i)
			p.UID = types.UID(p.Name)
			c.pods.Put(p)
		}
		return "add pods"
	}
	c.run(func() {
		for step := range 60 {
			what := change(step)
			time.Sleep(3 * time.Second) // longer than the backoff of a probe and of those after it
			synctest.Wait()
			state := schedule.NewState(c.predicates, nil, 1)
			for n := range c.nodes.All() {
				state.SetNode(n)
			}
			for p := range c.pods.All() {
				state.SetPod(schedule.NewPodInfo(p))
			}
			for p := range c.pods.All() {
				if p.Spec.NodeName != "" {
					continue
				}
				if n, err := state.Decide(schedule.NewPodInfo(p)); err == nil {
					t.Fatalf("step %d, %s: %s fits %s and waits", step, what, p.Name, n)
				}
			}
		}
	})
}
