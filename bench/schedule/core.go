package main

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A core is the decision core of a scheduler. The methods that change it fail only if the caller confuses
// objects.
type core interface {
	// setNode adds or updates a node.
	setNode(n *corev1.Node) error
	// addPod adds a pod that is on a node, and removePod removes it.
	addPod(p *corev1.Pod) error
	removePod(p *corev1.Pod) error
	// place decides about a pod and charges it to its node, which it returns. If it fits none, it preempts
	// others, which end at once, and decides again.
	place(p *corev1.Pod) (node string, err error)
	// close ends what runs in the background.
	close()
}

// errUnplaced means that a pod fits no node, also not by preemption.
var errUnplaced = errors.New("no node")

// figures holds the cost of one run of a workload.
type figures struct {
	// placed pods got a node in took.
	placed int
	took   time.Duration
	// decisions holds the time of each decision; it is nil if that was not measured.
	decisions []time.Duration
	// cpu is the processor time of the process.
	cpu time.Duration
	// nodeHeap and podHeap are the bytes of heap that the scheduler keeps for a node and for a pod that it
	// placed, without the objects themselves. They are 0 if pods leave meanwhile, or were not measured.
	nodeHeap, podHeap float64
}

// runCore fills a core with a world and places its pods, until all are placed or limit has passed; zero
// means no limit.
func runCore(c core, w *world, limit time.Duration) (f figures, err error) {
	empty := heap()
	if err := fillNodes(c, w); err != nil {
		return f, err
	}
	f.nodeHeap = perOne(heap()-empty, len(w.nodes))
	if err := fillPods(c, w); err != nil {
		return f, err
	}
	full, cpu, began := heap(), cpuTime(), time.Now()
	if f.decisions, err = placeAll(c, w, limit); err != nil {
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

func fillNodes(c core, w *world) error {
	for _, n := range w.nodes {
		if err := c.setNode(n); err != nil {
			return fmt.Errorf("%s: %w", n.Name, err)
		}
	}
	return nil
}

func fillPods(c core, w *world) error {
	for _, p := range w.placed {
		if err := c.addPod(p); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	return nil
}

// placeAll returns the time of each decision.
func placeAll(c core, w *world, limit time.Duration) ([]time.Duration, error) {
	decisions := make([]time.Duration, 0, len(w.pending))
	began := time.Now()
	for i, p := range w.pending {
		if limit > 0 && time.Since(began) > limit {
			break
		}
		if w.before != nil {
			for _, change := range w.before(i) {
				if err := apply(c, change); err != nil {
					return nil, fmt.Errorf("before %s: %w", p.Name, err)
				}
			}
		}
		start := time.Now()
		if _, err := c.place(p); err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		decisions = append(decisions, time.Since(start))
	}
	return decisions, nil
}

func apply(c core, ch change) error {
	if ch.node != nil {
		return c.setNode(ch.node)
	}
	return c.removePod(ch.gone)
}

func perOne(bytes int64, count int) float64 { return float64(bytes) / float64(max(1, count)) }
