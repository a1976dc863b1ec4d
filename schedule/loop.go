package schedule

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

// loop is one run of a scheduler.
type loop struct {
	config  Config
	waiting *Waiting
	work    *work
	// wakeup has room for one signal: there may be something to do.
	wakeup chan struct{}
	// turn has room for one signal: a pod may wait for the extenders.
	turn chan struct{}

	// asking is held while Reservers and Permitters are asked, because extenders decide in a goroutine of their
	// own.
	asking sync.Mutex

	// binding counts the calls of bind.
	binding atomic.Int32

	mu sync.Mutex // guards the fields below
	// A decision and its effects on state and queue share one critical section, so that no event
	// comes in between.
	state *State
	queue *queue
	// gated holds the profiles of this scheduler's pods with scheduling gates by their keys.
	gated map[string]string
	// events counts the events that may help pods.
	events uint64
	asked  asked
}

func newLoop(c Config, w *Waiting) *loop {
	state := NewStateOf(c.Profiles, c.Seed)
	return &loop{
		config: c, waiting: w,
		work:   newWork(c.Parallel),
		wakeup: make(chan struct{}, 1),
		turn:   make(chan struct{}, 1),
		state:  state,
		queue:  newQueue(&c, rules{state.alike, state.errorFor}),
		gated:  make(map[string]string),
	}
}

func (l *loop) signal() {
	select {
	case l.wakeup <- struct{}{}:
	default:
	}
}

// onNode handles a change of a node.
func (l *loop) onNode(old, node *corev1.Node) {
	defer l.config.Meters.handled(change(old, node).label(), time.Now())
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.signal()
	if node == nil {
		l.wake(l.state.RemoveNode(old.Name))
	} else {
		l.wake(l.state.SetNode(node))
	}
}

// onNamespace handles a change of a namespace.
func (l *loop) onNamespace(old, namespace *corev1.Namespace) {
	defer l.config.Meters.handled(change(old, namespace).label(), time.Now())
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.signal()
	if namespace == nil {
		l.wake(l.state.RemoveNamespace(old.Name))
	} else {
		l.wake(l.state.SetNamespace(namespace))
	}
}

// onSource handles an event of Config.Sources.
func (l *loop) onSource(e Event) {
	defer l.config.Meters.handled(e.label(), time.Now())
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.signal()
	l.wake(e)
}

// wake wakes the parked pods that an event may help. It must be called with l.mu held.
func (l *loop) wake(e Event) {
	if l.queue.parked.Len() == 0 && l.waiting.isEmpty() && !l.asked.busy || e.trivial() {
		return
	}
	l.events++
	l.asked.note(e)
	l.queue.wakeIf(func(unfit *FitError) bool { return l.state.Helps(unfit, e) }, e, time.Now())
}

// either returns a, or b if a is nil.
func either[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}

// onPod handles a change of a pod.
func (l *loop) onPod(old, pod *corev1.Pod) {
	defer l.config.Meters.handled(podLabel(old, pod), time.Now())
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.signal()
	k := key(either(pod, old))
	if old != nil && (pod == nil || pod.UID != old.UID || !l.mine(pod)) {
		l.waiting.settle(&PodInfo{Key: k, Pod: old}, outcome{kind: gone})
	}
	if pod != nil && l.candidate(pod) && len(pod.Spec.SchedulingGates) > 0 {
		l.gated[k] = pod.Spec.SchedulerName
	} else {
		delete(l.gated, k)
	}
	switch {
	case pod == nil:
		l.queue.remove(k)
		l.wake(l.state.Withdraw(k))
		l.wake(l.state.RemovePod(k))
	case l.mine(pod):
		info := NewPodInfo(pod)
		e := l.state.SetPod(info)
		l.wake(l.followNomination(old, info))
		// An assumed pod is either being bound, and then still in the queue, or bound already.
		if _, assumed := l.state.Placed(k); !assumed || l.queue.holds(info) {
			l.queue.set(info, old == nil || changed(old, pod), time.Now())
		}
		if _, nominated := l.state.nominees[k]; nominated {
			l.queue.isolate(info)
		}
		l.wake(e)
	case pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && !ended(pod):
		// Another scheduler may have reserved a node for it. To take that room would be to fight over it.
		l.queue.remove(k)
		info := NewPodInfo(pod)
		l.wake(l.state.SetPod(info))
		l.wake(l.followNomination(old, info))
	default:
		l.queue.remove(k)
		l.wake(l.state.Withdraw(k))
		l.wake(l.state.SetPod(NewPodInfo(pod)))
	}
}

// mine reports whether this scheduler must schedule a pod. It is then of one of its profiles.
func (l *loop) mine(pod *corev1.Pod) bool {
	return l.candidate(pod) && len(pod.Spec.SchedulingGates) == 0
}

// candidate reports whether this scheduler must schedule a pod once it has no scheduling gates.
func (l *loop) candidate(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && indexOf(l.config.Profiles, pod.Spec.SchedulerName) >= 0 && pod.DeletionTimestamp == nil && !ended(pod)
}

// changed reports whether anything but the status of a pod has changed.
func changed(old, pod *corev1.Pod) bool {
	return !maps.Equal(old.Labels, pod.Labels) || !maps.Equal(old.Annotations, pod.Annotations) ||
		!apiequality.Semantic.DeepEqual(old.Spec, pod.Spec)
}

// wait waits until there may be something to do. It returns false if ctx is done.
func (l *loop) wait(ctx context.Context) bool {
	l.mu.Lock()
	at, ok := l.queue.next()
	l.mu.Unlock()
	if end, waits := l.waiting.due(); waits && (!ok || end.Before(at)) {
		at, ok = end, true
	}
	var due <-chan time.Time
	if ok {
		timer := time.NewTimer(time.Until(at))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-l.wakeup:
	case <-l.waiting.settled:
	case <-due:
	}
	return true
}

// next carries out the end of one pod's wait, or makes one decision and carries it out. It returns false if
// there is nothing to do.
func (l *loop) next(ctx context.Context) bool {
	if waited, ok := l.waiting.next(time.Now()); ok {
		l.conclude(ctx, waited)
		return true
	}
	l.mu.Lock()
	a, ok := l.queue.pop(time.Now())
	if !ok {
		l.mu.Unlock()
		return false
	}
	pod := a.pod
	if l.extended(pod.Pod) {
		l.handOver(a)
		l.mu.Unlock()
		return true
	}
	defer l.explain(pod)()
	measured := l.config.Meters.measure(l.state, pod)
	node, unfit := l.state.Decide(pod)
	measured()
	if unfit != nil {
		preemption := l.preempt(pod, unfit)
		l.queue.park(pod, unfit, l.state.classOf(unfit), l.state.refusers(unfit), time.Now())
		l.mu.Unlock()
		l.config.Meters.decided(a.began)
		l.work.do(ctx, pod.Key, func() {
			l.config.Meters.attempted(a, unschedulable)
			l.refuse(ctx, pod, unfit)
			l.evict(ctx, preemption)
		})
		return true
	}
	l.assume(a, node)
	l.mu.Unlock()
	l.config.Meters.decided(a.began)
	l.place(ctx, a, node)
	return true
}

// assume puts the pod of an attempt on a node. It must be called with l.mu held.
func (l *loop) assume(a *attempt, node string) {
	l.wake(l.state.Assume(a.pod, node))
	l.queue.placed(a.pod)
	if l.extensionsOf(a.pod).askFirst() {
		l.waiting.begin(a, node, l.events)
	}
}
