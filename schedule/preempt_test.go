package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// preempting is a cluster whose scheduler preempts. Victims take a second to end.
func preempting(t *testing.T) *cluster {
	c := newCluster(t)
	c.change = func(config *schedule.Config) {
		config.Evict = func(_ context.Context, e schedule.Eviction) error {
			if err := c.nextFailure(e.Victim.Name); err != nil {
				return err
			}
			c.mu.Lock()
			c.note("%s ends for %s on %s", e.Victim.Name, e.Preemptor.Name, e.Node)
			c.mu.Unlock()
			ending := e.Victim.DeepCopy()
			ending.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(time.Second)}
			c.pods.Put(ending)
			time.AfterFunc(time.Second, func() { c.pods.Delete(localcache.KeyOf(ending)) })
			return nil
		}
		config.Nominate = func(_ context.Context, p *corev1.Pod, node string) error {
			c.mu.Lock()
			c.note("%s nominated %q", p.Name, node)
			c.mu.Unlock()
			if known, ok := c.pods.Get(localcache.KeyOf(p)); ok {
				known = known.DeepCopy()
				known.Status.NominatedNodeName = node
				c.pods.Put(known)
			}
			return nil
		}
	}
	return c
}

// nextFailure returns the next error of a pod.
func (c *cluster) nextFailure(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	errs := c.fail[name]
	if len(errs) == 0 {
		return nil
	}
	c.fail[name] = errs[1:]
	c.note("%s not ended", name)
	return errs[0]
}

// prior returns a pod with a priority.
func prior(name, cpu string, priority int32) *corev1.Pod {
	p := pod(name, cpu, "")
	p.Spec.Priority = &priority
	return p
}

// TestPreempts checks that the least important pod ends, that no other pod takes its room, and that the pod with
// the higher priority gets it.
func TestPreempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := preempting(t)
		c.nodes.Put(node("a", "1", "1Gi", "10"))
		c.nodes.Put(node("b", "1", "1Gi", "10"))
		c.pods.Put(on(prior("web", "1", 5), "a"))
		c.pods.Put(on(prior("batch", "1", 0), "b"))
		c.run(func() {
			c.pods.Put(prior("urgent", "600m", 10))
			c.expect(0,
				"0s urgent PodScheduled Unschedulable: 0/2 nodes are available: 2 Insufficient cpu.",
				`0s urgent nominated "b"`, "0s batch ends for urgent on b")
			c.expect(900 * time.Millisecond)
			c.pods.Put(prior("late", "600m", 10)) // has no room beside urgent
			c.expect(50*time.Millisecond,
				"0.9s late PodScheduled Unschedulable: 0/2 nodes are available: 2 Insufficient cpu.",
				`0.9s late nominated "a"`, "0.9s web ends for late on a")
			c.pods.Put(prior("small", "400m", 10)) // has, when batch has ended
			c.expect(5*time.Second,
				"0.95s small PodScheduled Unschedulable: 0/2 nodes are available: 2 Insufficient cpu.",
				`0.95s small nominated "b"`,
				"1s urgent on b", "1.9s late on a", "1.95s small on b")
		})
	})
}

// TestDoesNotPreempt checks when a pod must not preempt, and what is said of it.
func TestDoesNotPreempt(t *testing.T) {
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"never": {func() *corev1.Pod {
			p := prior("p", "1", 10)
			p.Spec.PreemptionPolicy = new(corev1.PreemptNever)
			return p
		}(), "preemption: not eligible due to preemptionPolicy=Never."},
		"below some":  {prior("p", "1", 1), "preemption: 0/1 nodes are available: 1 Insufficient cpu."},
		"never fits":  {prior("p", "2", 10), "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."},
		"no priority": {pod("p", "1", ""), "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := preempting(t)
				c.nodes.Put(node("a", "1", "1Gi", "10"))
				c.pods.Put(on(prior("web", "800m", 5), "a"))
				c.pods.Put(on(prior("batch", "200m", 0), "a"))
				c.run(func() {
					c.pods.Put(test.pod)
					c.expect(time.Minute, "0s p PodScheduled Unschedulable: 0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "+test.want)
				})
			})
		})
	}
}

// TestPreemptionFails checks that a pod whose victim cannot be ended is tried again.
func TestPreemptionFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := preempting(t)
		c.nodes.Put(node("a", "1", "1Gi", "10"))
		c.pods.Put(on(prior("batch", "1", 0), "a"))
		c.fail["batch"] = []error{errors.New("no")}
		c.run(func() {
			c.pods.Put(prior("urgent", "1", 10))
			c.expect(5*time.Second,
				"0s urgent PodScheduled Unschedulable: 0/1 nodes are available: 1 Insufficient cpu.",
				`0s urgent nominated "a"`, "0s batch not ended", `0s urgent nominated ""`,
				`1s urgent nominated "a"`, "1s batch ends for urgent on a", "3s urgent on a")
		})
	})
}

// TestPreemptionSpares checks that a pod whose budget is spent stays where another one can end.
func TestPreemptionSpares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := preempting(t)
		budgets := localcache.NewMap(&policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}},
		})
		change := c.change
		c.change = func(config *schedule.Config) {
			change(config)
			config.Budgets = budgets
		}
		for i, labels := range []map[string]string{{"app": "db"}, {"app": "web"}} {
			at := fmt.Sprint("n", i)
			c.nodes.Put(node(at, "1", "1Gi", "10"))
			p := prior("p"+fmt.Sprint(i), "1", int32(i))
			p.Labels = labels
			c.pods.Put(on(p, at))
		}
		c.run(func() {
			c.pods.Put(prior("urgent", "1", 10))
			c.expect(3*time.Second, // p1 has the higher priority, but no budget
				"0s urgent PodScheduled Unschedulable: 0/2 nodes are available: 2 Insufficient cpu.",
				`0s urgent nominated "n1"`, "0s p1 ends for urgent on n1", "1s urgent on n1")
		})
	})
}

// TestReservedAfterRestart checks that a node that the status of a pod names stays reserved for it: a pod
// of lower priority does not take the room that is free already.
func TestReservedAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := preempting(t)
		c.nodes.Put(node("a", "2", "1Gi", "10"))
		ends := on(prior("ends", "1", 0), "a")
		ends.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(2 * time.Second)}
		c.pods.Put(ends)
		waits := prior("waits", "2", 20)
		waits.Status.NominatedNodeName = "a"
		c.pods.Put(waits)
		c.pods.Put(prior("late", "1", 10))
		c.run(func() {
			const unfit = " PodScheduled Unschedulable: 0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: "
			c.expect(time.Second,
				"0s waits"+unfit+"not eligible due to a terminating pod on the nominated node.",
				"0s late"+unfit+"0/1 nodes are available: 1 Insufficient cpu.")
			c.pods.Delete("default/ends")
			c.expect(10*time.Second, "1s waits on a")
		})
	})
}

// TestGivesUpReservation checks that a pod that fits nowhere, also not by preemption, does not keep the room of
// the node that was reserved for it.
func TestGivesUpReservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := preempting(t)
		c.nodes.Put(node("a", "1", "1Gi", "10"))
		c.pods.Put(on(prior("web", "500m", 20), "a"))
		c.pods.Put(on(prior("ends", "500m", 0), "a"))
		waits := prior("waits", "800m", 10)
		waits.Status.NominatedNodeName = "a"
		c.pods.Put(waits)
		c.run(func() {
			c.expect(0, "0s waits PodScheduled Unschedulable: 0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "+
				"preemption: 0/1 nodes are available: 1 Insufficient cpu.", `0s waits nominated ""`)
			c.pods.Delete("default/ends")
			c.pods.Put(prior("small", "400m", 5))
			c.expect(0, "0s small on a")
		})
	})
}

// TestReservedByAnotherScheduler checks that the room that another scheduler has reserved for a pod is taken only
// for a pod of a higher priority.
func TestReservedByAnotherScheduler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := preempting(t)
		c.nodes.Put(node("a", "1", "1Gi", "10"))
		other := prior("other", "800m", 10)
		other.Spec.SchedulerName, other.Status.NominatedNodeName = "another", "a"
		c.pods.Put(other)
		c.run(func() {
			c.pods.Put(prior("same", "500m", 10))
			c.expect(0, "0s same PodScheduled Unschedulable: 0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "+
				"preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.")
			c.pods.Put(prior("higher", "500m", 20))
			c.expect(0, "0s higher on a")
			c.pods.Delete("default/other")
			c.expect(time.Second, "1s same on a")
		})
	})
}
