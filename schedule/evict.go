package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
)

// preemption is a decision that others must end for a pod, or without a node, that none is reserved for it.
type preemption struct {
	Preemption
	pod *PodInfo
	// evict are the victims that do not end yet.
	evict []*PodInfo
	// losers are pods of lower priority that the node was reserved for.
	losers []*PodInfo
}

// preempt decides which pods must end for a pod that fits no node, and reserves the node for it. If no
// preemption helps, it gives up a node that was reserved for the pod before. It returns nil if nothing is to be
// done. It must be called with l.mu held.
func (l *loop) preempt(pod *PodInfo, unfit *FitError) *preemption {
	if l.config.Evict == nil || l.state.profileOf(pod).NoPreemption {
		return nil
	}
	began := time.Now()
	choice, ok := l.state.Preempt(pod, unfit, l.budgets())
	l.config.Meters.preempting(pod, len(choice.Victims), began)
	if ok {
		return l.nominateFor(pod, choice)
	}
	if _, reserved := l.state.nominees[pod.Key]; !reserved || l.state.mayNotPreempt(pod) != "" {
		return nil
	}
	l.wake(l.state.Withdraw(pod.Key))
	return &preemption{pod: pod}
}

func (l *loop) budgets() []*policyv1.PodDisruptionBudget {
	if l.config.Budgets == nil {
		return nil
	}
	return slices.Collect(l.config.Budgets.All())
}

// nominateFor reserves a node for a pod once others have ended. It must be called with l.mu held.
func (l *loop) nominateFor(pod *PodInfo, choice Preemption) *preemption {
	var evict []*PodInfo
	for _, victim := range choice.Victims {
		if !l.state.ends(victim) {
			evict = append(evict, victim)
			l.state.Evict(victim.Key, true)
		}
	}
	losers := l.state.Outranked(pod, choice.Node)
	for _, loser := range losers {
		l.wake(l.state.Withdraw(loser.Key))
		l.queue.wakeNow(loser, time.Now())
	}
	l.state.Nominate(pod, choice.Node)
	return &preemption{choice, pod, evict, losers}
}

// evict carries out a preemption, which may be nil. If a victim cannot be evicted, the pod is tried again,
// and another node may be chosen.
func (l *loop) evict(ctx context.Context, p *preemption) {
	if p == nil {
		return
	}
	for _, loser := range p.losers {
		l.nominate(ctx, loser, "")
	}
	l.nominate(ctx, p.pod, p.Node)
	scheduler := p.pod.Pod.Spec.SchedulerName
	var failed error
	for _, victim := range p.evict {
		var err error
		// A victim that is not bound need not end.
		if !l.waiting.settle(victim, outcome{kind: preempted}) {
			err = l.config.Evict(ctx, Eviction{Victim: victim.Pod, Preemptor: p.pod.Pod, Node: p.Node, Scheduler: scheduler})
		}
		if err == nil {
			l.config.Log.V(1).Info("pod preempted", "pod", victim.Key, "for", p.pod.Key, "node", p.Node)
			l.config.Event(scheduler, victim.Pod, corev1.EventTypeNormal, "Preempted", fmt.Sprintf("Preempted by pod %s on node %s", p.pod.Pod.UID, p.Node))
			continue
		}
		failed = errors.Join(failed, fmt.Errorf("preempt %s: %w", victim.Key, err))
		l.mu.Lock()
		l.state.Evict(victim.Key, false)
		l.mu.Unlock()
	}
	if failed == nil || ctx.Err() != nil {
		return
	}
	l.config.Log.Error(failed, "preemption failed", "pod", p.pod.Key, "node", p.Node)
	l.mu.Lock()
	l.wake(l.state.Withdraw(p.pod.Key))
	l.queue.wakeNow(p.pod, time.Now())
	l.mu.Unlock()
	l.signal()
	l.nominate(ctx, p.pod, "")
}

func (l *loop) nominate(ctx context.Context, pod *PodInfo, node string) {
	if err := l.config.Nominate(ctx, pod.Pod, node); err != nil && ctx.Err() == nil {
		l.config.Log.Error(err, "nomination not stored", "pod", pod.Key, "node", node)
	}
}

// followNomination reserves the node that the status of a pod names, as after a restart, and ends the
// reservation if the status does not name one any more. It must be called with l.mu held.
func (l *loop) followNomination(old *corev1.Pod, pod *PodInfo) Event {
	node := pod.Pod.Status.NominatedNodeName
	before := ""
	if old != nil {
		before = old.Status.NominatedNodeName
	}
	switch {
	case node == before:
		return none
	case node == "":
		if _, reserved := l.state.nominees[pod.Key]; reserved {
			l.queue.wakeNow(pod, time.Now()) // another scheduler has taken the node for a pod of a higher priority
		}
		return l.state.Withdraw(pod.Key)
	}
	if _, placed := l.state.Placed(pod.Key); !placed {
		l.state.Nominate(pod, node)
	}
	return none
}
