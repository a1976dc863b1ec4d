package main

import (
	"fmt"
	"runtime"
	"time"

	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/predicates"
	"github.com/planekit/planekit/schedule/priorities"
	corev1 "k8s.io/api/core/v1"
)

// figures holds the cost of one run of a workload.
type figures struct {
	// placed pods got a node in took.
	placed int
	took   time.Duration
	// decisions holds the time of each decision.
	decisions []time.Duration
	// cpu is the processor time of the process.
	cpu time.Duration
	// nodeHeap and podHeap are the bytes of heap that the scheduler keeps for a node and for a pod that it
	// placed, without the objects themselves. podHeap is 0 if pods leave meanwhile.
	nodeHeap, podHeap float64
}

// ownCore is the decision core of planekit's scheduler.
type ownCore struct{ state *schedule.State }

func newOwnCore() *ownCore {
	return &ownCore{schedule.NewState(predicates.Default(), priorities.Default(), 1)}
}

func (c *ownCore) setNode(n *corev1.Node)  { c.state.SetNode(n) }
func (c *ownCore) setPod(p *corev1.Pod)    { c.state.SetPod(schedule.NewPodInfo(p)) }
func (c *ownCore) removePod(p *corev1.Pod) { c.state.RemovePod(p.Namespace + "/" + p.Name) }

// place decides about a pod and charges it to its node. If it fits none, it preempts others, which end
// at once, and decides again.
func (c *ownCore) place(p *corev1.Pod) error {
	info := schedule.NewPodInfo(p)
	node, unfit := c.state.Decide(info)
	if unfit != nil {
		best, ok := c.state.Preempt(info, unfit, nil)
		if !ok {
			return unfit
		}
		c.state.Nominate(info, best.Node)
		for _, v := range best.Victims {
			c.state.Evict(v.Key, true)
			c.state.RemovePod(v.Key)
		}
		if node, unfit = c.state.Decide(info); unfit != nil {
			return unfit
		}
	}
	c.state.Assume(info, node)
	return nil
}

// runCore fills a core with a world and places its pods, until all are placed or limit has passed; zero
// means no limit.
func runCore(c *ownCore, w *world, limit time.Duration) (f figures, err error) {
	empty := heap()
	for _, n := range w.nodes {
		c.setNode(n)
	}
	f.nodeHeap = perOne(heap()-empty, len(w.nodes))
	c.fill(w)
	full, cpu, began := heap(), cpuTime(), time.Now()
	if f.decisions, err = c.placeAll(w, limit); err != nil {
		return f, err
	}
	f.took, f.cpu, f.placed = time.Since(began), cpuTime()-cpu, len(f.decisions)
	if !w.leave {
		f.podHeap = perOne(heap()-full, f.placed)
	}
	runtime.KeepAlive(c)
	runtime.KeepAlive(w)
	return f, nil
}

// fill adds the nodes of a world and the pods on them.
func (c *ownCore) fill(w *world) {
	for _, n := range w.nodes {
		c.setNode(n)
	}
	for _, p := range w.placed {
		c.setPod(p)
	}
}

// placeAll returns the time of each decision.
func (c *ownCore) placeAll(w *world, limit time.Duration) ([]time.Duration, error) {
	decisions := make([]time.Duration, 0, len(w.pending))
	began := time.Now()
	for i, p := range w.pending {
		if limit > 0 && time.Since(began) > limit {
			break
		}
		if w.before != nil {
			for _, change := range w.before(i) {
				c.apply(change)
			}
		}
		start := time.Now()
		if err := c.place(p); err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		decisions = append(decisions, time.Since(start))
	}
	return decisions, nil
}

func (c *ownCore) apply(ch change) {
	if ch.node != nil {
		c.setNode(ch.node)
	}
	if ch.gone != nil {
		c.removePod(ch.gone)
	}
}

func perOne(bytes int64, count int) float64 { return float64(bytes) / float64(max(1, count)) }
