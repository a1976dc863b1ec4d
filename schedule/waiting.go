package schedule

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Waiting holds the pods of a scheduler that have a node and wait until extensions permit their binding. It
// is safe for concurrent use, also by extensions while they are called.
type Waiting struct {
	// settled has room for one signal: the scheduler has to look after a pod.
	settled chan struct{}

	mu sync.Mutex // guards the fields below
	// pods contains each pod from its decision until the scheduler has taken it back, by its identity.
	pods map[identity]*waitingPod
	// done are the pods that are allowed or refused, in that order.
	done []*waitingPod
	// soonest is a time before which no wait ends; zero if no pod waits for an extension.
	soonest time.Time
}

// identity differs between pods that have the same name one after the other.
type identity struct {
	key string
	uid types.UID
}

func identityOf(p *PodInfo) identity { return identity{p.Key, p.Pod.UID} }

// waitingPod is a pod that waits. It is open until it is allowed or refused.
type waitingPod struct {
	*attempt
	node  string
	since time.Time
	// waited says that the pod had to wait for an extension.
	waited bool
	// asked says that all extensions were asked. It is not allowed before.
	asked bool
	// needs are the extensions that must allow the pod; granted are those that have.
	needs   []need
	granted []string
	settled bool
	outcome outcome
	// events is the number of events before the extensions were asked.
	events uint64
}

// need is an extension that a pod waits for.
type need struct {
	extension string
	wait      time.Duration
	end       time.Time
}

// outcome says how the wait of a pod ended. The zero outcome means that it is allowed.
type outcome struct {
	kind outcomeKind
	// by is the name of the extension that refused the pod, for reasons.
	by      string
	reasons []string
}

type outcomeKind int

const (
	allowed   outcomeKind = iota
	refused               // the pod is unschedulable
	preempted             // the pod is tried again after its backoff
	gone                  // the pod needs no node any more
)

// A WaitingPod is a pod that waits.
type WaitingPod struct {
	Pod  *PodInfo
	Node string
	// Since is the time of the decision.
	Since time.Time
	// For are the names of the extensions that the pod waits for.
	For []string
}

func newWaiting() *Waiting {
	return &Waiting{settled: make(chan struct{}, 1), pods: make(map[identity]*waitingPod)}
}

// All yields the pods that wait at the time of the call, those first that have waited longest. A pod that is
// in a call of Permit is not among them yet.
func (w *Waiting) All() iter.Seq[WaitingPod] {
	w.mu.Lock()
	var list []WaitingPod
	for _, p := range w.pods {
		if p.asked && !p.settled {
			one := WaitingPod{Pod: p.pod, Node: p.node, Since: p.since}
			for _, n := range p.needs {
				one.For = append(one.For, n.extension)
			}
			list = append(list, one)
		}
	}
	w.mu.Unlock()
	slices.SortFunc(list, func(a, b WaitingPod) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Pod.Key, b.Pod.Key))
	})
	return slices.Values(list)
}

// Allow lets a pod no longer wait for the extension of that name. It reports whether the pod was waiting. It
// may be called before Permit returns for the pod.
func (w *Waiting) Allow(p *PodInfo, extension string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	one := w.pods[identityOf(p)]
	if one == nil || one.settled {
		return false
	}
	one.granted = append(one.granted, extension)
	w.check(one)
	return true
}

// Refuse ends the wait of a pod, which then is unschedulable. extension is the name of the extension that
// does it, and reason follows a number of nodes in the message. It reports whether the pod was waiting.
func (w *Waiting) Refuse(p *PodInfo, extension, reason string) bool {
	return w.settle(p, outcome{refused, extension, []string{reason}})
}

// isEmpty reports whether there is no pod between its decision and the end of its wait.
func (w *Waiting) isEmpty() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.pods) == 0
}

// begin adds a pod before its extensions are asked.
func (w *Waiting) begin(a *attempt, node string, events uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pods[identityOf(a.pod)] = &waitingPod{attempt: a, node: node, since: time.Now(), events: events}
}

// wait lets a pod wait for extensions that have not allowed it meanwhile.
func (w *Waiting) wait(p *PodInfo, needs []need) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one := w.pods[identityOf(p)]
	one.asked, one.needs, one.waited = true, needs, len(needs) > 0
	if !one.settled {
		w.check(one)
	}
	if n, ok := one.first(); ok {
		w.soonest = earlier(w.soonest, n.end)
	}
}

// earlier returns the earlier time that is not zero.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// check allows a pod that need not wait any more. It must be called with w.mu held.
func (w *Waiting) check(p *waitingPod) {
	p.needs = slices.DeleteFunc(p.needs, func(n need) bool { return slices.Contains(p.granted, n.extension) })
	if p.asked && len(p.needs) == 0 {
		w.end(p, outcome{})
	}
}

// settle ends the wait of a pod, and reports whether it was waiting.
func (w *Waiting) settle(p *PodInfo, o outcome) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	one := w.pods[identityOf(p)]
	if one == nil || one.settled {
		return false
	}
	w.end(one, o)
	return true
}

// end must be called with w.mu held.
func (w *Waiting) end(p *waitingPod, o outcome) {
	p.settled, p.outcome = true, o
	w.done = append(w.done, p)
	select {
	case w.settled <- struct{}{}:
	default:
	}
}

// next takes a pod back whose wait has ended.
func (w *Waiting) next(now time.Time) (*waitingPod, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.done) == 0 {
		w.expire(now)
	}
	// A pod that was refused while its extensions are asked is taken back after that.
	i := slices.IndexFunc(w.done, func(p *waitingPod) bool { return p.asked })
	if i < 0 {
		return nil, false
	}
	p := w.done[i]
	w.done = slices.Delete(w.done, i, i+1)
	if id := identityOf(p.pod); w.pods[id] == p {
		delete(w.pods, id)
	}
	return p, true
}

// expire refuses the pods that have waited long enough. It must be called with w.mu held.
func (w *Waiting) expire(now time.Time) {
	if w.soonest.IsZero() || w.soonest.After(now) {
		return
	}
	w.soonest = time.Time{}
	var late []*waitingPod
	for _, p := range w.pods {
		n, open := p.first()
		switch {
		case !open:
		case n.end.After(now):
			w.soonest = earlier(w.soonest, n.end)
		default:
			late = append(late, p)
		}
	}
	slices.SortFunc(late, func(a, b *waitingPod) int {
		return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.pod.Key, b.pod.Key))
	})
	for _, p := range late {
		n, _ := p.first()
		reason := fmt.Sprintf("rejected due to timeout after waiting %v at plugin %v", n.wait, n.extension)
		w.end(p, outcome{refused, n.extension, []string{reason}})
	}
}

// first returns what an open pod waits for that ends first.
func (p *waitingPod) first() (need, bool) {
	if p.settled || len(p.needs) == 0 {
		return need{}, false
	}
	return slices.MinFunc(p.needs, func(a, b need) int { return a.end.Compare(b.end) }), true
}

// due returns a time before which no wait ends.
func (w *Waiting) due() (at time.Time, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.soonest, !w.soonest.IsZero()
}

// drain takes back all pods, those that were placed last first.
func (w *Waiting) drain() []*waitingPod {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []*waitingPod
	for _, p := range w.pods {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b *waitingPod) int {
		return cmp.Or(b.since.Compare(a.since), cmp.Compare(b.pod.Key, a.pod.Key))
	})
	clear(w.pods)
	w.done, w.soonest = nil, time.Time{}
	return list
}
