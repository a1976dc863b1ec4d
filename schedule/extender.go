package schedule

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// An Extender takes part in decisions about pods by functions that may do IO: package extender asks other
// programs over HTTP. Prefer a [Predicate] or a [Priority], which need no network.
//
// A function that is nil takes no part. The functions are called without a lock. Those for decisions are
// called for one pod at a time, Prioritize by several extenders at once; Bind is called for several pods at
// once. They must return soon after their context is done, and must not change their arguments.
type Extender struct {
	// Name says in logs and errors which extender it is.
	Name string
	// Interested reports whether the extender takes part in decisions about a pod; nil means in all. It
	// must not block.
	Interested func(pod *corev1.Pod) bool
	// Ignorable means that the scheduler goes on without the extender if a function fails. Otherwise the
	// pod is tried again later. Extenders that are ignorable are called after the others.
	Ignorable bool
	// Filter returns the nodes that accept a pod, and why the others refuse it. nodes are those that the
	// predicates and the extenders before this one accept.
	Filter func(ctx context.Context, pod *corev1.Pod, nodes []*corev1.Node) (accepted []string, refused map[string]Verdict, err error)
	// Prioritize returns what to add to the scores of nodes, by their names. It is called if there is more
	// than one node. If it fails, the extender gives no scores.
	Prioritize func(ctx context.Context, pod *corev1.Pod, nodes []*corev1.Node) (map[string]int64, error)
	// Preempt returns which pods should end so that a pod fits a node, by the names of nodes. found is
	// what the scheduler and the extenders before this one found; the answer replaces it. Each victim
	// must be on the node and have a lower priority than the pod, and each node must have one.
	Preempt func(ctx context.Context, pod *corev1.Pod, found []Preemption) (map[string]VictimUIDs, error)
	// Bind binds a pod instead of Config.Bind. One extender at most may have it.
	Bind func(ctx context.Context, pod *corev1.Pod, node string) error
}

// VictimUIDs are pods on a node that should end.
type VictimUIDs struct {
	UIDs []types.UID
	// Violations counts those whose disruption budgets allow no further disruption.
	Violations int
}

// interested reports whether the extender takes part in decisions about a pod.
func (e *Extender) interested(pod *corev1.Pod) bool {
	return e.Interested == nil || e.Interested(pod)
}

// orderExtenders returns the extenders with those that are ignorable last.
func orderExtenders(list []Extender) ([]Extender, error) {
	binders := 0
	for _, e := range list {
		if e.Bind != nil {
			binders++
		}
	}
	if binders > 1 {
		return nil, errors.New("schedule: more than one extender binds pods")
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b Extender) int {
		switch {
		case a.Ignorable == b.Ignorable:
			return 0
		case b.Ignorable:
			return -1
		}
		return 1
	})
	return list, nil
}

// bindByExtender binds a pod through the extender that binds it; bound is false if there is none, or if it has
// failed and is ignorable.
func (l *loop) bindByExtender(ctx context.Context, pod *corev1.Pod, node string) (bound bool, err error) {
	for i := range l.config.Extenders {
		e := &l.config.Extenders[i]
		if e.Bind == nil || !e.interested(pod) {
			continue
		}
		if err = e.Bind(ctx, pod, node); err == nil || !e.Ignorable || ctx.Err() != nil {
			return true, err
		}
		l.config.Log.Error(err, "extender ignored", "extender", e.Name, "pod", key(pod))
	}
	return false, nil
}
