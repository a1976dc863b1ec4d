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
func (l *loop) place(ctx context.Context, a *attempt, node string) {
	if !l.extensionsOf(a.pod).askFirst() {
		l.work.do(ctx, a.pod.Key, func() { l.bind(ctx, a, node) })
		return
	}
	l.asking.Lock()
	defer l.asking.Unlock()
	o := l.reserve(a.pod, node)
	var needs []need
	if o.kind == allowed {
		needs, o = l.permit(a.pod, node)
	}
	if o.kind == refused {
		l.waiting.settle(a.pod, o)
	}
	l.waiting.wait(a.pod, needs)
}

// reserve asks the Reservers about a pod.
func (l *loop) reserve(pod *PodInfo, node string) outcome {
	began := time.Now()
	for _, r := range l.extensionsOf(pod).reservers {
		sampled := l.config.Meters.sample()
		v := r.Reserve(pod, node)
		l.config.Meters.executed(r.Name(), "Reserve", statusOfVerdict(v), sampled)
		if !v.OK() {
			l.config.Meters.extended(pod.Pod, "Reserve", statusUnschedulable, began)
			return outcome{refused, r.Name(), v.Reasons}
		}
	}
	l.config.Meters.extended(pod.Pod, "Reserve", statusSuccess, began)
	return outcome{}
}

// permit returns for which Permitters a pod must wait, or that one refuses it.
func (l *loop) permit(pod *PodInfo, node string) (needs []need, o outcome) {
	began := time.Now()
	for _, p := range l.extensionsOf(pod).permitters {
		sampled := l.config.Meters.sample()
		v, wait := p.Permit(pod, node, l.waiting)
		status := statusSuccess
		switch {
		case !v.OK():
			status = statusUnschedulable
		case wait > 0:
			status = statusWait
		}
		l.config.Meters.executed(p.Name(), "Permit", status, sampled)
		if !v.OK() {
			l.config.Meters.extended(pod.Pod, "Permit", statusUnschedulable, began)
			return nil, outcome{refused, p.Name(), v.Reasons}
		}
		if wait > 0 {
			wait = min(wait, MaxWait)
			needs = append(needs, need{p.Name(), wait, time.Now().Add(wait)})
		}
	}
	status := statusSuccess
	if len(needs) > 0 {
		status = statusWait
	}
	l.config.Meters.extended(pod.Pod, "Permit", status, began)
	return needs, outcome{}
}

// conclude binds a pod whose wait has ended, or undoes the decision.
func (l *loop) conclude(ctx context.Context, w *waitingPod) {
	pod := w.pod
	l.config.Meters.waited(w)
	if w.outcome.kind == allowed {
		if !l.work.do(ctx, pod.Key, func() { l.bind(ctx, w.attempt, w.node) }) {
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
	switch {
	case w.outcome.kind != refused:
		l.queue.retry(pod, nil, time.Now())
	case missed:
		l.queue.retry(pod, l.state.refusers(unfit), time.Now())
	default:
		l.queue.park(pod, unfit, "", l.state.refusers(unfit), time.Now())
	}
	l.mu.Unlock()
	switch {
	case !held:
	case w.outcome.kind == refused:
		l.config.Meters.attempted(w.attempt, unschedulable)
		l.work.do(ctx, pod.Key, func() { l.refuse(ctx, pod, unfit) })
	case w.outcome.kind == preempted:
		l.config.Meters.attempted(w.attempt, failed)
		l.work.do(ctx, pod.Key, func() { l.fail(ctx, pod, errors.New("waiting on permit for pod: preempted")) })
	}
}

// unfit returns the error of a pod that an extension has refused.
func (x *extensions) unfit(pod *PodInfo, o outcome) *FitError {
	err := &FitError{Pod: pod.Key, Nodes: 1, Reasons: make(map[string]int), pod: pod, afterwards: true, extension: o.by, waker: x.wakers[o.by]}
	for _, reason := range o.reasons {
		err.Reasons[reason]++
	}
	return err
}

// unreserve undoes what Reserve did.
func (l *loop) unreserve(pod *PodInfo, node string) {
	if len(l.extensionsOf(pod).reservers) == 0 {
		return
	}
	began := time.Now()
	for _, r := range slices.Backward(l.extensionsOf(pod).reservers) {
		sampled := l.config.Meters.sample()
		r.Unreserve(pod, node)
		l.config.Meters.executed(r.Name(), "Unreserve", statusSuccess, sampled)
	}
	l.config.Meters.extended(pod.Pod, "Unreserve", statusSuccess, began)
}

// bind binds a pod to the chosen node, or undoes the decision.
func (l *loop) bind(ctx context.Context, a *attempt, node string) {
	l.binding.Add(1)
	defer l.binding.Add(-1)
	pod := a.pod
	err := l.preBind(ctx, pod, node)
	if err == nil {
		err = l.bindTo(ctx, pod, node)
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
		l.config.Meters.attempted(a, scheduled)
		l.postBind(ctx, pod, node)
		return
	}
	l.unreserve(pod, node)
	if ctx.Err() != nil {
		return // the run ends, and with it the state
	}
	l.config.Log.Error(err, "bind failed", "pod", pod.Key, "node", node)
	l.config.Meters.attempted(a, failed)
	l.mu.Lock()
	held := l.queue.holds(pod)
	l.queue.retry(pod, nil, time.Now())
	l.wake(l.state.Forget(pod)) // the assumed capacity is free again
	l.mu.Unlock()
	l.signal()
	if held {
		l.fail(ctx, pod, err)
	}
}

// preBind runs the PreBinders.
func (l *loop) preBind(ctx context.Context, pod *PodInfo, node string) error {
	if len(l.extensionsOf(pod).preBinders) == 0 {
		return nil
	}
	began := time.Now()
	for _, p := range l.extensionsOf(pod).preBinders {
		sampled := l.config.Meters.sample()
		err := p.PreBind(ctx, pod.Pod, node)
		l.config.Meters.executed(p.Name(), "PreBind", statusOfError(err), sampled)
		if err != nil {
			l.config.Meters.extended(pod.Pod, "PreBind", statusError, began)
			return fmt.Errorf("running PreBind plugin %q: %w", p.Name(), err)
		}
	}
	l.config.Meters.extended(pod.Pod, "PreBind", statusSuccess, began)
	return nil
}

// bindTo binds a pod through the first Binder that takes it, or Config.Bind.
func (l *loop) bindTo(ctx context.Context, pod *PodInfo, node string) error {
	began := time.Now()
	if bound, err := l.bindByExtender(ctx, pod.Pod, node); bound {
		return err
	}
	sampled := l.config.Meters.sample()
	by, err := l.bindBy(ctx, pod, node)
	l.config.Meters.executed(by, "Bind", statusOfError(err), sampled)
	if err != nil {
		l.config.Meters.extended(pod.Pod, "Bind", statusError, began)
		return fmt.Errorf("running Bind plugin %q: %w", by, err)
	}
	l.config.Meters.extended(pod.Pod, "Bind", statusSuccess, began)
	return nil
}

// bindBy returns the name of what has bound a pod, or has failed.
func (l *loop) bindBy(ctx context.Context, pod *PodInfo, node string) (name string, err error) {
	for _, b := range l.extensionsOf(pod).binders {
		if bound, err := b.Bind(ctx, pod.Pod, node); bound || err != nil {
			return b.Name(), err
		}
	}
	return "DefaultBinder", l.config.Bind(ctx, pod.Pod, node)
}

// postBind runs the PostBinders.
func (l *loop) postBind(ctx context.Context, pod *PodInfo, node string) {
	if len(l.extensionsOf(pod).postBinders) == 0 {
		return
	}
	began := time.Now()
	for _, p := range l.extensionsOf(pod).postBinders {
		sampled := l.config.Meters.sample()
		p.PostBind(ctx, pod.Pod, node)
		l.config.Meters.executed(p.Name(), "PostBind", statusSuccess, sampled)
	}
	l.config.Meters.extended(pod.Pod, "PostBind", statusSuccess, began)
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
