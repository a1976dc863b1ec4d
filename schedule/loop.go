package schedule

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

// loop is one run of a scheduler.
type loop struct {
	config Config
	work   *work
	// wakeup has room for one signal: there may be something to do.
	wakeup chan struct{}

	mu sync.Mutex // guards the fields below
	// A decision and its effects on state and queue share one critical section, so that no event
	// comes in between.
	state *State
	queue *queue
}

func newLoop(c Config) *loop {
	l := &loop{
		config: c,
		work:   newWork(c.Parallel),
		wakeup: make(chan struct{}, 1),
		state:  NewStateOf(c.Profiles, c.Seed),
		queue:  newQueue(),
	}
	l.queue.first, l.queue.most = c.FirstBackoff, c.MaxBackoff
	return l
}

func (l *loop) signal() {
	select {
	case l.wakeup <- struct{}{}:
	default:
	}
}

// onNode handles a change of a node.
func (l *loop) onNode(old, node *corev1.Node) {
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
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.signal()
	l.wake(e)
}

// wake wakes the parked pods that an event may help. It must be called with l.mu held.
func (l *loop) wake(e Event) {
	if l.queue.parked.Len() == 0 || e.trivial() {
		return
	}
	l.queue.wakeIf(func(unfit *FitError) bool { return l.state.Helps(unfit, e) }, time.Now())
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
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.signal()
	k := key(either(pod, old))
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
		l.wake(e)
	default:
		l.queue.remove(k)
		l.wake(l.state.Withdraw(k))
		l.wake(l.state.SetPod(NewPodInfo(pod)))
	}
}

// mine reports whether this scheduler must schedule a pod. It is then of one of its profiles.
func (l *loop) mine(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && indexOf(l.config.Profiles, pod.Spec.SchedulerName) >= 0 &&
		pod.DeletionTimestamp == nil && len(pod.Spec.SchedulingGates) == 0 && !ended(pod)
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
	case <-due:
	}
	return true
}

// next makes one decision and carries it out. It returns false if no pod is ready.
func (l *loop) next(ctx context.Context) bool {
	l.mu.Lock()
	pod, ok := l.queue.pop(time.Now())
	if !ok {
		l.mu.Unlock()
		return false
	}
	node, unfit := l.state.Decide(pod)
	var preemption *preemption
	if unfit != nil {
		preemption = l.preempt(pod, unfit)
		l.queue.park(pod, unfit, time.Now())
	} else {
		l.wake(l.state.Assume(pod, node))
	}
	l.mu.Unlock()
	if unfit != nil {
		l.work.do(ctx, pod.Key, func() {
			l.refuse(ctx, pod, unfit)
			l.evict(ctx, preemption)
		})
	} else {
		l.work.do(ctx, pod.Key, func() { l.bind(ctx, pod, node) })
	}
	return true
}

// bind binds a pod to the chosen node, or undoes the decision.
func (l *loop) bind(ctx context.Context, pod *PodInfo, node string) {
	err := l.state.profileOf(pod).PreBind(ctx, pod.Pod, node)
	if err == nil {
		err = l.config.Bind(ctx, pod.Pod, node)
	}
	if err == nil {
		l.config.Log.V(1).Info("pod bound", "pod", pod.Key, "node", node)
		l.mu.Lock()
		if l.queue.holds(pod) {
			l.queue.remove(pod.Key)
		}
		l.mu.Unlock()
		l.config.Event(pod.Pod.Spec.SchedulerName, pod.Pod, corev1.EventTypeNormal, "Scheduled",
			fmt.Sprintf("Successfully assigned %s to %s", pod.Key, node))
		return
	}
	if ctx.Err() != nil {
		return // the run ends, and with it the state
	}
	l.config.Log.Error(err, "bind failed", "pod", pod.Key, "node", node)
	l.mu.Lock()
	l.queue.retry(pod, time.Now())
	l.wake(l.state.Forget(pod)) // the assumed capacity is free again
	l.mu.Unlock()
	l.signal()
	l.config.Event(pod.Pod.Spec.SchedulerName, pod.Pod, corev1.EventTypeWarning, "FailedScheduling",
		fmt.Sprintf("bind %s to %s: %v", pod.Key, node, err))
}

// refuse reports why a pod fits no node.
func (l *loop) refuse(ctx context.Context, pod *PodInfo, unfit *FitError) {
	message := unfit.Error()
	l.config.Event(pod.Pod.Spec.SchedulerName, pod.Pod, corev1.EventTypeWarning, "FailedScheduling", message)
	known := slices.ContainsFunc(pod.Pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse &&
			c.Reason == corev1.PodReasonUnschedulable && c.Message == message
	})
	if known {
		return
	}
	err := l.config.SetCondition(ctx, pod.Pod, corev1.PodCondition{
		Type:    corev1.PodScheduled,
		Status:  corev1.ConditionFalse,
		Reason:  corev1.PodReasonUnschedulable,
		Message: message,
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		l.config.Log.Error(err, "condition not stored", "pod", pod.Key)
	}
}
