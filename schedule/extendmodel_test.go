package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/predicates"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// likes reports whether the extender of TestExtendedModel accepts a node for a pod.
func likes(pod, node string) bool {
	h := fnv.New32a()
	_, _ = io.WriteString(h, pod+" "+node)
	return h.Sum32()>>8%3 > 0
}

func isExtended(p *corev1.Pod) bool { return strings.HasPrefix(p.Name, "extended") }

// TestExtendedModel changes a cluster at random while a slow extender is asked, which fails now and then. When
// all is quiet, no node has too many pods, each pod is where the extender accepts it, and no pod waits that
// has room somewhere.
func TestExtendedModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	for n := range uint64(10) {
		t.Run(fmt.Sprint("seed=", seed+n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { walkExtended(t, seed+n) })
		})
	}
}

func walkExtended(t *testing.T, seed uint64) {
	r, moods := rand.New(rand.NewPCG(seed, 2)), rand.New(rand.NewPCG(seed, 3))
	c := newCluster(t)
	quiet := false
	takes := func(ctx context.Context) error {
		c.mu.Lock()
		pause, fails := time.Duration(moods.IntN(3000))*time.Millisecond, moods.IntN(8) == 0 && !quiet
		c.mu.Unlock()
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
		if fails {
			return errors.New("broken")
		}
		return nil
	}
	c.change = func(config *schedule.Config) {
		config.Parallel = 0
		config.Bind = func(ctx context.Context, p *corev1.Pod, node string) error {
			if known, ok := c.pods.Get(localcache.KeyOf(p)); !ok || known.UID != p.UID {
				return errors.New("the pod is gone")
			}
			return c.bind(ctx, p, node)
		}
		config.Extenders = []schedule.Extender{{
			Name: "slow", Interested: isExtended,
			Filter: func(ctx context.Context, p *corev1.Pod, nodes []*corev1.Node) (accepted []string, _ map[string]schedule.Verdict, err error) {
				for _, n := range nodes {
					if likes(p.Name, n.Name) {
						accepted = append(accepted, n.Name)
					}
				}
				return accepted, nil, takes(ctx)
			},
			Prioritize: func(ctx context.Context, _ *corev1.Pod, nodes []*corev1.Node) (map[string]int64, error) {
				return map[string]int64{nodes[0].Name: 1000}, takes(ctx)
			},
		}}
	}
	c.run(func() {
		for step := range 120 {
			c.randomChange(r, step)
			time.Sleep(time.Duration(r.IntN(700)) * time.Millisecond) // of the bubble's clock
		}
		c.mu.Lock()
		quiet = true
		c.mu.Unlock()
		time.Sleep(3 * time.Minute) // of the bubble's clock; less than the time after which all pods are tried
		synctest.Wait()
	})
	c.checkExtended()
}

// randomChange adds, changes or removes a node or a pod.
func (c *cluster) randomChange(r *rand.Rand, step int) {
	at := fmt.Sprint("n", r.IntN(4))
	switch r.IntN(8) {
	case 0:
		if !c.takes(at) { // pods without a node are another matter
			c.nodes.Delete(at)
		}
	case 1, 2:
		if _, known := c.nodes.Get(at); !known {
			c.nodes.Put(node(at, fmt.Sprint(1+r.IntN(3)), "1Gi", "10"))
		}
	case 3, 4:
		for p := range c.pods.All() {
			c.pods.Delete(localcache.KeyOf(p))
			break
		}
	default:
		name := fmt.Sprint([]string{"extended", "plain"}[r.IntN(2)], r.IntN(12))
		if _, known := c.pods.Get("default/" + name); !known {
			p := prior(name, "1", int32(r.IntN(3)))
			p.UID = types.UID(fmt.Sprint(name, "-", step))
			c.pods.Put(p)
		}
	}
}

// takes reports whether a pod is on a node.
func (c *cluster) takes(node string) bool {
	for p := range c.pods.All() {
		if p.Spec.NodeName == node {
			return true
		}
	}
	return false
}

// checkExtended checks a cluster in which nothing happens any more.
func (c *cluster) checkExtended() {
	c.Helper()
	liked := schedule.PredicateFunc("Liked", func(p *schedule.PodInfo, n *schedule.NodeInfo) schedule.Verdict {
		if isExtended(p.Pod) && !likes(p.Pod.Name, n.Node.Name) {
			return schedule.Refuse("not liked")
		}
		return schedule.Fits
	})
	s := schedule.NewState(append(predicates.Default(), liked), nil, 1)
	used := map[string]int64{}
	for n := range c.nodes.All() {
		s.SetNode(n)
	}
	for p := range c.pods.All() {
		s.SetPod(schedule.NewPodInfo(p))
		if at := p.Spec.NodeName; at != "" {
			used[at]++
			if isExtended(p) && !likes(p.Name, at) {
				c.Errorf("%s is on %s", p.Name, at)
			}
		}
	}
	for n := range c.nodes.All() {
		if used[n.Name] > n.Status.Allocatable.Cpu().Value() {
			c.Errorf("%s has %d pods of a core, and %v cores", n.Name, used[n.Name], n.Status.Allocatable.Cpu())
		}
	}
	for p := range c.pods.All() {
		if p.Spec.NodeName != "" {
			continue
		}
		if node, err := s.Decide(schedule.NewPodInfo(p)); err == nil {
			c.Errorf("%s waits and fits %s", p.Name, node)
		}
	}
}
