package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// moody is an extension that refuses, delays and fails at random while it is in a bad mood, and checks how it
// is called.
type moody struct {
	t *testing.T

	mu      sync.Mutex
	rng     *rand.Rand
	good    bool
	waiting *schedule.Waiting
	// reserved has the node of each pod between Reserve and Unreserve or PostBind.
	reserved map[types.UID]string
	// seen counts the calls.
	seen map[string]int
}

func (*moody) Name() string { return "Moody" }

// yes returns false once in n times, in a bad mood. It must be called with m.mu held.
func (m *moody) yes(n int) bool { return m.good || m.rng.IntN(n) > 0 }

func (m *moody) Reserve(p *schedule.PodInfo, node string) schedule.Verdict {
	m.mu.Lock()
	defer m.mu.Unlock()
	if on, ok := m.reserved[p.Pod.UID]; ok {
		m.t.Errorf("%s is reserved on %s already", p.Key, on)
	}
	m.reserved[p.Pod.UID] = node
	m.seen["reserve"]++
	if !m.yes(10) {
		return schedule.Refuse("no")
	}
	return schedule.Fits
}

func (m *moody) Unreserve(p *schedule.PodInfo, node string) { m.leave("unreserve", p.Pod, node) }

func (m *moody) leave(step string, pod *corev1.Pod, node string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reserved[pod.UID] != node {
		m.t.Errorf("%s of %s on %s, which is reserved on %q", step, pod.Name, node, m.reserved[pod.UID])
	}
	delete(m.reserved, pod.UID)
	m.seen[step]++
}

func (m *moody) Permit(p *schedule.PodInfo, node string, w *schedule.Waiting) (schedule.Verdict, time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting = w
	if m.reserved[p.Pod.UID] != node {
		m.t.Errorf("permit of %s on %s, which is reserved on %q", p.Key, node, m.reserved[p.Pod.UID])
	}
	if !m.yes(10) {
		return schedule.Refuse("no"), 0
	}
	if !m.yes(2) {
		return schedule.Fits, time.Duration(m.rng.IntN(10)) * time.Second
	}
	return schedule.Fits, 0
}

func (m *moody) PreBind(context.Context, *corev1.Pod, string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.yes(10) {
		return errors.New("no")
	}
	return nil
}

func (m *moody) PostBind(_ context.Context, pod *corev1.Pod, node string) {
	m.leave("postbind", pod, node)
}

// TestExtensionModel deletes and adds pods while an extension refuses, delays and fails at random. No node may
// have too many pods, each reservation ends once, and once the extension is content, all pods are bound.
func TestExtensionModel(t *testing.T) {
	first := rand.Uint64()
	for seed := first; seed < first+10; seed++ {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { extensionModel(t, seed) })
		})
	}
}

func extensionModel(t *testing.T, seed uint64) {
	const nodes, room, names = 3, 3, 9
	c, rng := newCluster(t), rand.New(rand.NewPCG(seed, 0))
	m := &moody{t: t, rng: rand.New(rand.NewPCG(seed, 1)), reserved: map[types.UID]string{}, seen: map[string]int{}}
	for i := range nodes {
		c.nodes.Put(node(fmt.Sprint("n", i), "1", "1Gi", fmt.Sprint(room)))
	}
	c.change = func(config *schedule.Config) {
		config.Extensions, config.Parallel = []schedule.Extension{m}, 4
		config.Bind = func(_ context.Context, p *corev1.Pod, node string) error {
			known, ok := c.pods.Get(localcache.KeyOf(p))
			if !ok || known.UID != p.UID {
				return errors.New("gone")
			}
			c.pods.Put(on(p, node))
			return nil
		}
	}
	check := func() {
		count := map[string]int{}
		for p := range c.pods.All() {
			if count[p.Spec.NodeName]++; p.Spec.NodeName != "" && count[p.Spec.NodeName] > room {
				t.Fatalf("too many pods on %s", p.Spec.NodeName)
			}
		}
	}
	c.run(func() {
		for step := range 300 {
			name := fmt.Sprint("p", rng.IntN(names))
			switch rng.IntN(4) {
			case 0:
				c.pods.Delete("default/" + name)
			case 1, 2:
				if _, ok := c.pods.Get("default/" + name); !ok {
					p := pod(name, "", "")
					p.UID = types.UID(fmt.Sprint(step))
					c.pods.Put(p)
				}
			case 3:
				m.mu.Lock()
				waiting := m.waiting
				m.mu.Unlock()
				if waiting == nil {
					break
				}
				for one := range waiting.All() {
					if rng.IntN(2) == 0 {
						waiting.Allow(one.Pod, "Moody")
					} else {
						waiting.Refuse(one.Pod, "Moody", "no")
					}
				}
			}
			time.Sleep(time.Duration(rng.IntN(3)) * time.Second)
			check()
		}
		m.mu.Lock()
		m.good = true
		m.mu.Unlock()
		time.Sleep(6 * time.Minute) // pods that were refused have their time
		synctest.Wait()
		check()
		for p := range c.pods.All() {
			if p.Spec.NodeName == "" {
				t.Errorf("%s was forgotten", p.Name)
			}
		}
	})
	if len(m.reserved) > 0 || m.seen["unreserve"] == 0 || m.seen["postbind"] == 0 || m.seen["reserve"] != m.seen["unreserve"]+m.seen["postbind"] {
		t.Errorf("calls %v, left %v", m.seen, m.reserved)
	}
}
