package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// extensionsOf returns the extensions of a pod's profile.
func (l *loop) extensionsOf(pod *PodInfo) *extensions { return l.state.profileOf(pod).extensions }

// place asks the extensions about a pod that has a node. If there are none to be asked, it binds the pod.
func (l *loop) place(ctx context.Context, pod *PodInfo, node string) {
	if !l.extensionsOf(pod).askFirst() {
		l.work.do(ctx, pod.Key, func() { l.bind(ctx, pod, node) })
		return
	}
	needs, o := l.ask(pod, node)
	if o.kind == refused {
		l.waiting.settle(pod, o)
	}
	l.waiting.wait(pod, needs)
}

// ask returns for which extensions a pod must wait, or that one refuses it.
func (l *loop) ask(pod *PodInfo, node string) (needs []need, o outcome) {
	x := l.extensionsOf(pod)
	for _, r := range x.reservers {
		if v := r.Reserve(pod, node); !v.OK() {
			return nil, outcome{refused, r.Name(), v.Reasons}
		}
	}
	for _, p := range x.permitters {
		v, wait := p.Permit(pod, node, l.waiting)
		if !v.OK() {
			return nil, outcome{refused, p.Name(), v.Reasons}
		}
		if wait > 0 {
			wait = min(wait, MaxWait)
			needs = append(needs, need{p.Name(), wait, time.Now().Add(wait)})
		}
	}
	return needs, outcome{}
}

// conclude binds a pod whose wait has ended, or undoes the decision.
func (l *loop) conclude(ctx context.Context, w *waitingPod) {
	pod := w.pod
	if w.outcome.kind == allowed {
		if !l.work.do(ctx, pod.Key, func() { l.bind(ctx, pod, w.node) }) {
			l.unreserve(pod, w.node)
		}
		return
	}
	l.unreserve(pod, w.node)
	unfit := l.extensionsOf(pod).unfit(pod, w.outcome)
	l.mu.Lock()
	missed := l.events != w.events // events that would have helped a parked pod
	l.wake(l.state.Forget(pod))
	held := l.queue.holds(pod)
	if w.outcome.kind == refused && !missed {
		l.queue.park(pod, unfit, time.Now())
	} else {
		l.queue.retry(pod, time.Now())
	}
	l.mu.Unlock()
	switch {
	case !held:
	case w.outcome.kind == refused:
		l.work.do(ctx, pod.Key, func() { l.refuse(ctx, pod, unfit) })
	case w.outcome.kind == preempted:
		l.work.do(ctx, pod.Key, func() { l.fail(ctx, pod, errors.New("waiting on permit for pod: preempted")) })
	}
}

// unfit returns the error of a pod that an extension has refused.
func (x *extensions) unfit(pod *PodInfo, o outcome) *FitError {
	err := &FitError{Pod: pod.Key, Nodes: 1, Reasons: make(map[string]int), pod: pod, afterwards: true, waker: x.wakers[o.by]}
	for _, reason := range o.reasons {
		err.Reasons[reason]++
	}
	return err
}

// unreserve undoes what Reserve did.
func (l *loop) unreserve(pod *PodInfo, node string) {
	for _, r := range slices.Backward(l.extensionsOf(pod).reservers) {
		r.Unreserve(pod, node)
	}
}

// bind binds a pod to the chosen node, or undoes the decision.
func (l *loop) bind(ctx context.Context, pod *PodInfo, node string) {
	x := l.extensionsOf(pod)
	err := l.prepareAndBind(ctx, x, pod.Pod, node)
	if err == nil {
		l.config.Log.V(1).Info("pod bound", "pod", pod.Key, "node", node)
		l.mu.Lock()
		if l.queue.holds(pod) {
			l.queue.remove(pod.Key)
		}
		l.mu.Unlock()
		l.config.Event(pod.Pod.Spec.SchedulerName, pod.Pod, corev1.EventTypeNormal, "Scheduled",
			fmt.Sprintf("Successfully assigned %s to %s", pod.Key, node))
		for _, p := range x.postBinders {
			p.PostBind(ctx, pod.Pod, node)
		}
		return
	}
	l.unreserve(pod, node)
	if ctx.Err() != nil {
		return // the run ends, and with it the state
	}
	l.config.Log.Error(err, "bind failed", "pod", pod.Key, "node", node)
	l.mu.Lock()
	held := l.queue.holds(pod)
	l.queue.retry(pod, time.Now())
	l.wake(l.state.Forget(pod)) // the assumed capacity is free again
	l.mu.Unlock()
	l.signal()
	if held {
		l.fail(ctx, pod, err)
	}
}

// prepareAndBind runs the steps of a binding.
func (l *loop) prepareAndBind(ctx context.Context, x *extensions, pod *corev1.Pod, node string) error {
	for _, p := range x.preBinders {
		if err := p.PreBind(ctx, pod, node); err != nil {
			return fmt.Errorf("running PreBind plugin %q: %w", p.Name(), err)
		}
	}
	for _, b := range x.binders {
		bound, err := b.Bind(ctx, pod, node)
		if err != nil {
			return fmt.Errorf("running Bind plugin %q: %w", b.Name(), err)
		}
		if bound {
			return nil
		}
	}
	if err := l.config.Bind(ctx, pod, node); err != nil {
		return fmt.Errorf("running Bind plugin %q: %w", "DefaultBinder", err)
	}
	return nil
}

// close ends a run: the pods that wait lose their room, and the work that has begun is awaited.
func (l *loop) close() {
	for _, w := range l.waiting.drain() {
		l.unreserve(w.pod, w.node)
	}
	l.work.wait()
}

// fail reports an error that is not about the pod.
func (l *loop) fail(ctx context.Context, pod *PodInfo, err error) {
	l.report(ctx, pod, corev1.PodReasonSchedulerError, err.Error())
}

// refuse reports why a pod fits no node.
func (l *loop) refuse(ctx context.Context, pod *PodInfo, unfit *FitError) {
	l.report(ctx, pod, corev1.PodReasonUnschedulable, unfit.Error())
}

// report records an event about a pod that was not scheduled, and its condition, unless that is known.
func (l *loop) report(ctx context.Context, pod *PodInfo, reason, message string) {
	l.config.Event(pod.Pod.Spec.SchedulerName, pod.Pod, corev1.EventTypeWarning, "FailedScheduling", message)
	known := slices.ContainsFunc(pod.Pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == reason && c.Message == message
	})
	if known {
		return
	}
	err := l.config.SetCondition(ctx, pod.Pod, corev1.PodCondition{
		Type:    corev1.PodScheduled,
		Status:  corev1.ConditionFalse,
		Reason:  reason,
		Message: message,
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		l.config.Log.Error(err, "condition not stored", "pod", pod.Key)
	}
}
