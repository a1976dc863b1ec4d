package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/predicates"
	"github.com/planekit/planekit/schedule/priorities"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// rivals is a cluster with two schedulers, each of which sees it late. A pod that its node has no room for
// fails, as a kubelet would have it, and pods that fail or are preempted are created again.
type rivals struct {
	*testing.T
	names [2]string
	nodes map[string]*corev1.Node

	mu   sync.Mutex // guards the fields below
	rng  *rand.Rand
	pods map[string]*corev1.Pod
	// late are the changes that each scheduler does not know yet.
	late      [2][]rivalChange
	news      [2]chan struct{} // one signal: there are late changes
	made      int
	evicted   int // pods that were preempted
	conflicts int // binds of pods that are bound
	failed    int // pods that their nodes had no room for
}

// rivalChange is a pod that has changed, or nil if it is gone.
type rivalChange struct {
	key string
	pod *corev1.Pod
}

// TestRivals lets two schedulers schedule the same pods, and pods of their own, with preemption. No node may
// run more than it has room for, and after a while each pod must run, or have no room that it may take; by then,
// no pod is preempted any more.
func TestRivals(t *testing.T) {
	first := rand.Uint64()
	for seed := first; seed < first+8; seed++ {
		for _, names := range [][2]string{{corev1.DefaultSchedulerName, corev1.DefaultSchedulerName}, {corev1.DefaultSchedulerName, "other"}} {
			t.Run(fmt.Sprintf("seed=%d/same=%t", seed, names[0] == names[1]), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { compete(t, names, seed) })
			})
		}
	}
}

func compete(t *testing.T, names [2]string, seed uint64) {
	c := &rivals{T: t, names: names, nodes: map[string]*corev1.Node{}, rng: rand.New(rand.NewPCG(seed, 0)), pods: map[string]*corev1.Pod{}}
	for i := range c.news {
		c.news[i] = make(chan struct{}, 1)
	}
	for i := range 4 {
		c.nodes[fmt.Sprint("n", i)] = node(fmt.Sprint("n", i), "4", "4Gi", "6")
	}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for i := range names {
		c.start(ctx, &group, i)
	}
	for range 60 {
		c.mu.Lock()
		c.random()
		c.mu.Unlock()
		time.Sleep(time.Duration(c.below(400)) * time.Millisecond)
	}
	time.Sleep(time.Hour) // pods that no event helps are tried again after five minutes
	c.mu.Lock()
	before := c.evicted
	c.mu.Unlock()
	time.Sleep(time.Hour)
	cancel()
	group.Wait()
	if c.evicted != before {
		t.Errorf("%d pods were preempted although nothing has changed for an hour", c.evicted-before)
	}
	c.settled()
	if t.Failed() {
		for _, p := range c.pods {
			t.Logf("%s of %s with priority %d on %q, reserved %q, %s: %v", p.Name, p.Spec.SchedulerName, *p.Spec.Priority, p.Spec.NodeName,
				p.Status.NominatedNodeName, p.Status.Phase, p.Status.Conditions)
		}
	}
	t.Logf("%d pods made, %d preempted, %d failed, %d conflicts", c.made, c.evicted, c.failed, c.conflicts)
}

// below returns a random number.
func (c *rivals) below(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rng.IntN(n)
}

// start starts a scheduler and the goroutines that pass changes to it.
func (c *rivals) start(ctx context.Context, group *sync.WaitGroup, i int) {
	view, nodes := localcache.NewMap[*corev1.Pod](), localcache.NewMap[*corev1.Node]()
	for _, n := range c.nodes {
		nodes.Put(n)
	}
	s, err := schedule.New(schedule.Config{
		Name: c.names[i], Predicates: predicates.Default(), Priorities: priorities.Default(),
		Nodes: nodes, Pods: view, Bind: c.bind, SetCondition: c.condition, Evict: c.evict, Nominate: c.nominate, Seed: uint64(i + 1),
	})
	if err != nil {
		c.Fatal(err)
	}
	group.Go(func() {
		if err := s.Run(ctx); err != nil {
			c.Error(err)
		}
	})
	group.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-c.news[i]:
			}
			time.Sleep(time.Duration(1+c.below(100)) * time.Millisecond)
			c.mu.Lock()
			list := c.late[i]
			c.late[i] = nil
			c.mu.Unlock()
			for _, one := range list {
				if one.pod == nil {
					view.Delete(one.key)
				} else {
					view.Put(one.pod)
				}
			}
		}
	})
}

// random makes or deletes a pod.
func (c *rivals) random() {
	if c.rng.IntN(4) == 0 {
		for key := range maps.Keys(c.pods) {
			c.set(key, nil)
			return
		}
	}
	p := pod("", fmt.Sprintf("%dm", 500*(1+c.rng.IntN(5))), "")
	p.Spec.SchedulerName, p.Spec.Priority = c.names[c.rng.IntN(2)], new(int32(10*c.rng.IntN(4)))
	c.create(p)
}

// create creates a pod like p under a new name.
func (c *rivals) create(p *corev1.Pod) {
	c.made++
	name := fmt.Sprint("p", c.made)
	c.set("default/"+name, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec:       corev1.PodSpec{SchedulerName: p.Spec.SchedulerName, Priority: p.Spec.Priority, Containers: p.Spec.Containers},
	})
}

// set stores a pod, or removes it if it is nil.
func (c *rivals) set(key string, p *corev1.Pod) {
	if p == nil {
		delete(c.pods, key)
	} else {
		c.pods[key] = p
	}
	for i := range c.late {
		c.late[i] = append(c.late[i], rivalChange{key, p})
		select {
		case c.news[i] <- struct{}{}:
		default:
		}
	}
}

// update changes a pod if it still exists.
func (c *rivals) update(p *corev1.Pod, change func(*corev1.Pod) error) error {
	time.Sleep(time.Duration(c.below(20)) * time.Millisecond)
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.pods[localcache.KeyOf(p)]
	if known == nil {
		return errors.New("not found")
	}
	known = known.DeepCopy()
	if err := change(known); err != nil {
		return err
	}
	c.set(localcache.KeyOf(p), known)
	return nil
}

func (c *rivals) bind(_ context.Context, p *corev1.Pod, node string) error {
	return c.update(p, func(p *corev1.Pod) error {
		if p.Spec.NodeName != "" {
			c.conflicts++
			return errors.New("conflict")
		}
		p.Spec.NodeName, p.Status.NominatedNodeName = node, ""
		if !c.admits(node, p) {
			c.failed++
			p.Status.Phase = corev1.PodFailed
			c.create(p)
		}
		return nil
	})
}

// admits reports whether a node has room for a pod beside those that run there.
func (c *rivals) admits(node string, p *corev1.Pod) bool {
	s := schedule.NewState(predicates.Default(), nil, 1)
	s.SetNode(c.nodes[node])
	for _, other := range c.pods {
		if other.Spec.NodeName == node && other.Name != p.Name {
			s.SetPod(schedule.NewPodInfo(other))
		}
	}
	p = p.DeepCopy()
	p.Spec.NodeName = ""
	_, unfit := s.Decide(schedule.NewPodInfo(p))
	return unfit == nil
}

func (c *rivals) condition(_ context.Context, p *corev1.Pod, condition corev1.PodCondition) error {
	return c.update(p, func(p *corev1.Pod) error {
		p.Status.Conditions = []corev1.PodCondition{condition}
		return nil
	})
}

func (c *rivals) nominate(_ context.Context, p *corev1.Pod, node string) error {
	return c.update(p, func(p *corev1.Pod) error {
		p.Status.NominatedNodeName = node
		return nil
	})
}

// evict deletes a pod, which ends after a second and is created again.
func (c *rivals) evict(_ context.Context, e schedule.Eviction) error {
	if *e.Victim.Spec.Priority >= *e.Preemptor.Spec.Priority {
		c.Errorf("%s, which is no more important, preempts %s", e.Preemptor.Name, e.Victim.Name)
	}
	return c.update(e.Victim, func(p *corev1.Pod) error {
		if p.DeletionTimestamp != nil {
			return nil
		}
		c.evicted++
		p.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(time.Second)}
		time.AfterFunc(time.Second, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.pods[localcache.KeyOf(p)] != nil {
				c.set(localcache.KeyOf(p), nil)
				c.create(p)
			}
		})
		return nil
	})
}

// settled checks the end: what runs fits, and what does not run has no room that it may take.
func (c *rivals) settled() {
	s := schedule.NewState(predicates.Default(), priorities.Default(), 1)
	for _, n := range c.nodes {
		s.SetNode(n)
	}
	for _, p := range c.pods {
		if p.Spec.NodeName != "" {
			s.SetPod(schedule.NewPodInfo(p))
			if p.Status.Phase != corev1.PodFailed && !c.admits(p.Spec.NodeName, p) {
				c.Errorf("%s has no room on %s", p.Name, p.Spec.NodeName)
			}
		}
	}
	for _, p := range c.pods {
		if p.Spec.NodeName != "" {
			continue
		}
		info := schedule.NewPodInfo(p)
		node, unfit := s.Decide(info)
		if unfit == nil {
			c.Errorf("%s waits although it fits %s", p.Name, node)
		} else if best, ok := s.Preempt(info, unfit, nil); ok {
			c.Errorf("%s waits although it may preempt %s", p.Name, victimsOf(best))
		}
	}
}
