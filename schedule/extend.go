package schedule

import (
	"container/heap"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// asked is about the pod for which extenders are asked. loop.mu guards it.
type asked struct {
	busy bool
	// events came meanwhile; the pod is not parked yet, and they may help it.
	events []Event
}

// maxAskedEvents bounds asked.events: when an extender hangs, further events are taken to help.
const maxAskedEvents = 1000

func (a *asked) note(e Event) {
	if a.busy && len(a.events) <= maxAskedEvents {
		a.events = append(a.events, e)
	}
}

// helps reports whether an event may help the pod after all.
func (a *asked) helps(s *State, unfit *FitError) bool {
	return len(a.events) > maxAskedEvents || slices.ContainsFunc(a.events, func(e Event) bool { return s.Helps(unfit, e) })
}

// decides reports whether the extender takes part in decisions, and does not only bind.
func (e *Extender) decides() bool { return e.Filter != nil || e.Prioritize != nil || e.Preempt != nil }

// extended reports whether an extender takes part in decisions about a pod.
func (l *loop) extended(pod *corev1.Pod) bool {
	for i := range l.config.Extenders {
		if e := &l.config.Extenders[i]; e.decides() && e.interested(pod) {
			return true
		}
	}
	return false
}

// handOver makes a popped pod wait for the extenders. It must be called with l.mu held.
func (l *loop) handOver(a *attempt) {
	e := l.queue.entries[a.pod.Key]
	e.attempt = a
	heap.Push(&l.queue.turns, e)
	select {
	case l.turn <- struct{}{}:
	default:
	}
}

// startExtenders starts a goroutine that decides about the pods in which extenders take part, until ctx is
// done. It belongs to l.work.
func (l *loop) startExtenders(ctx context.Context) {
	if !slices.ContainsFunc(l.config.Extenders, func(e Extender) bool { return e.decides() }) {
		return
	}
	l.work.group.Go(func() {
		for {
			for ctx.Err() == nil && l.nextTurn(ctx) {
			}
			select {
			case <-ctx.Done():
				return
			case <-l.turn:
			}
		}
	})
}

// consultation is one decision with extenders.
type consultation struct {
	*loop
	*attempt  // its pod is that of the entry when it was popped
	entry     *entry
	extenders []*Extender
	unfit     *FitError
	// refused are the nodes that extenders refuse.
	refused map[string]Verdict
}

// nextTurn makes one decision with extenders and carries it out. It returns false if no pod waits for them.
//
// The lock is not held while extenders are asked. Events and other decisions come in between, so that what
// was decided is checked again before it takes effect.
func (l *loop) nextTurn(ctx context.Context) bool {
	l.mu.Lock()
	if l.queue.turns.Len() == 0 {
		l.mu.Unlock()
		return false
	}
	popped := heap.Pop(&l.queue.turns).(*entry)
	pod := popped.pod
	popped.attempt.pod = pod
	c := &consultation{loop: l, attempt: popped.attempt, entry: popped, refused: make(map[string]Verdict)}
	for i := range l.config.Extenders {
		if e := &l.config.Extenders[i]; e.interested(pod.Pod) {
			c.extenders = append(c.extenders, e)
		}
	}
	l.asked = asked{busy: true}
	var list []candidate
	list, c.unfit = l.state.candidates(pod)
	l.mu.Unlock()

	list, err := c.choose(ctx, list)
	switch {
	case ctx.Err() != nil: // the run ends, and with it the state
	case err != nil:
		c.fail(ctx, err)
	case len(list) == 0:
		c.refuse(ctx)
	default:
		c.place(ctx, list)
	}
	return true
}

// errChanged means that no node that the extenders accept accepts the pod any more.
var errChanged = errors.New("the nodes have changed")

// choose returns the nodes that the extenders accept, with their scores. None means that the pod fits none.
func (c *consultation) choose(ctx context.Context, list []candidate) ([]candidate, error) {
	var nodes []*corev1.Node
	for _, one := range list {
		nodes = append(nodes, one.node)
		if !one.reserved {
			continue
		}
		// It is likely the only one that fits, and goes before better ones.
		switch accepted, err := c.filter(ctx, []*corev1.Node{one.node}); {
		case ctx.Err() != nil:
			return nil, err
		case err != nil:
			c.config.Log.Error(err, "reserved node not checked", "pod", c.pod.Key, "node", one.node.Name)
		case len(accepted) > 0:
			return []candidate{one}, nil
		}
	}
	nodes, err := c.filter(ctx, nodes)
	if err != nil || len(nodes) == 0 {
		return nil, err
	}
	c.mu.Lock()
	list = c.state.rank(c.entry.pod, nodes)
	c.mu.Unlock()
	switch len(list) {
	case 0:
		return nil, errChanged
	case 1:
		return list, nil
	}
	c.prioritize(ctx, list)
	return list, nil
}

// waits reports whether the pod still waits for this decision, and not for another one since it left the queue
// and came back. It must be called with l.mu held.
func (c *consultation) waits() bool { return c.queue.entries[c.pod.Key] == c.entry }

// filter returns the nodes that all extenders accept.
func (c *consultation) filter(ctx context.Context, nodes []*corev1.Node) ([]*corev1.Node, error) {
	for _, e := range c.extenders {
		if e.Filter == nil || len(nodes) == 0 {
			continue
		}
		names, refused, err := e.Filter(ctx, c.pod.Pod, nodes)
		if err != nil {
			if !e.Ignorable || ctx.Err() != nil {
				return nil, err
			}
			c.config.Log.Error(err, "extender ignored", "extender", e.Name, "pod", c.pod.Key)
			continue
		}
		accepted := make(map[string]bool, len(names))
		for _, name := range names {
			accepted[name] = true
		}
		var rest []*corev1.Node
		for _, n := range nodes {
			if accepted[n.Name] {
				rest = append(rest, n)
				continue
			}
			v := refused[n.Name]
			if v.OK() {
				v = Refuse("node(s) were refused by extender " + e.Name)
			}
			c.refused[n.Name] = v
		}
		nodes = rest
	}
	return nodes, nil
}

// prioritize adds the scores of all extenders, which are asked at once.
func (c *consultation) prioritize(ctx context.Context, list []candidate) {
	nodes := make([]*corev1.Node, len(list))
	for i := range list {
		nodes[i] = list[i].node
	}
	answers := make([]map[string]int64, len(c.extenders))
	var group sync.WaitGroup
	for i, e := range c.extenders {
		if e.Prioritize == nil {
			continue
		}
		group.Go(func() {
			scores, err := e.Prioritize(ctx, c.pod.Pod, slices.Clone(nodes))
			if err != nil {
				c.config.Log.V(1).Info("extender gives no scores", "extender", e.Name, "pod", c.pod.Key, "error", err.Error())
				return
			}
			answers[i] = scores
		})
	}
	group.Wait()
	for i := range list {
		for _, scores := range answers {
			list[i].score += scores[list[i].node.Name]
		}
	}
}

// place puts the pod on the best node that still accepts it.
func (c *consultation) place(ctx context.Context, list []candidate) {
	c.mu.Lock()
	c.asked = asked{}
	if !c.waits() {
		c.mu.Unlock()
		return
	}
	c.pod = c.entry.pod
	node, ok := c.state.bestOf(c.pod, list)
	if !ok {
		c.mu.Unlock()
		c.fail(ctx, errChanged)
		return
	}
	c.assume(c.attempt, node)
	c.mu.Unlock()
	c.config.Meters.decided(c.began)
	c.loop.place(ctx, c.attempt, node)
}

// fail has the pod tried again after its backoff.
func (c *consultation) fail(ctx context.Context, err error) {
	c.mu.Lock()
	c.asked = asked{}
	waits := c.waits()
	if waits {
		c.queue.retry(c.pod, nil, time.Now())
	}
	c.mu.Unlock()
	c.signal()
	switch {
	case !waits:
	case errors.Is(err, errChanged):
		c.config.Log.V(1).Info("other pods took the nodes", "pod", c.pod.Key)
	default:
		c.config.Log.Error(err, "extender failed", "pod", c.pod.Key)
		c.work.do(ctx, c.pod.Key, func() { c.report(ctx, c.pod, corev1.PodReasonSchedulerError, err.Error()) })
	}
}

// refuse parks the pod, which fits no node, and preempts others if that helps.
func (c *consultation) refuse(ctx context.Context) {
	for node, v := range c.refused {
		c.unfit.refuseExtended(node, v)
	}
	list, ok := c.preemptions(ctx)
	if ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	meanwhile := c.asked
	c.asked = asked{}
	if !c.waits() {
		c.mu.Unlock()
		return
	}
	pod := c.entry.pod
	var chosen *preemption
	if !ok {
		chosen = c.preempt(pod, c.unfit)
	} else if best, ok := bestPreemption(c.state.remaining(list)); ok {
		chosen = c.nominateFor(pod, best)
	}
	now := time.Now()
	if changed(c.pod.Pod, pod.Pod) || meanwhile.helps(c.state, c.unfit) {
		c.queue.retry(pod, nil, now)
	} else {
		c.queue.park(pod, c.unfit, c.state.classOf(c.unfit), c.state.refusers(c.unfit), now)
	}
	c.mu.Unlock()
	c.signal()
	c.config.Meters.decided(c.began)
	c.work.do(ctx, pod.Key, func() {
		c.config.Meters.attempted(c.attempt, unschedulable)
		c.loop.refuse(ctx, pod, c.unfit)
		c.evict(ctx, chosen)
	})
}
