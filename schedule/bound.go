package schedule

import (
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A Measurer is a [Predicate] that refuses a node while the pods on it request too much. It makes
// preemption fast: nodes on which too much is missing are not looked at closely.
//
// MeasureShortage returns a function that returns what is missing on a node: the predicate refuses the node
// until pods have left it that requested at least that much together. An amount may be too small, but not too
// large. The rules for the check of a [Compiler] apply to the function.
type Measurer interface {
	Predicate
	MeasureShortage(*PodInfo) func(*NodeInfo) Resources
}

// ladder holds the pods of a node by priority.
type ladder struct {
	// pods are all of them, the most important first.
	pods []*PodInfo
	// levels has one for each priority, the lowest first.
	levels []level
}

// level sums up the pods of one priority on a node.
type level struct {
	priority int32
	// sum holds the sums of what the pods request, and most the largest request of one pod.
	sum, most Resources
	// starts are the starts of the pods, the latest last.
	starts []time.Time
}

// byPriority returns the ladder of a node. It is kept until a pod comes or goes.
func (n *NodeInfo) byPriority() *ladder {
	if n.ladder != nil {
		return n.ladder
	}
	pods := make([]*PodInfo, 0, len(n.Pods))
	for _, p := range n.Pods {
		pods = append(pods, p)
	}
	slices.SortFunc(pods, compareImportance)
	l := &ladder{pods: pods}
	starts := make([]time.Time, len(pods))
	for to := len(pods); to > 0; {
		one := level{priority: priority(pods[to-1])}
		from := to
		for ; from > 0 && priority(pods[from-1]) == one.priority; from-- {
			one.sum.add(pods[from-1].Requests, 1)
			one.most.raise(pods[from-1].Requests)
			starts[from-1] = started(pods[from-1])
		}
		one.starts = starts[from:to]
		l.levels = append(l.levels, one)
		to = from
	}
	n.ladder = l
	return l
}

// below returns the pods of lower priorities, the most important first.
func (l *ladder) below(priority int32) []*PodInfo {
	count := 0
	for i := range l.levels {
		if l.levels[i].priority < priority {
			count += len(l.levels[i].starts)
		}
	}
	return l.pods[len(l.pods)-count:]
}

// bound returns a cost that no preemption on a node for a pod of a priority can be below, if what is short must
// become free; ok is false if all pods of lower priorities together do not have as much.
//
// Of the levels from the lowest one up, the first that is enough together with those below has the most
// important victim, or a higher one has. The victims on it, and all of them, are at least as many as the
// largest requests there allow.
func bound(levels []level, priority int32, short Resources) (c cost, ok bool) {
	var below, most Resources
	for i := range levels {
		l := &levels[i]
		if l.priority >= priority {
			return c, false
		}
		most.raise(l.most)
		if !enough(short, below, l.sum) {
			below.add(l.sum, 1)
			continue
		}
		here := max(1, atLeast(short, below, l.most))
		all := max(here, atLeast(short, Resources{}, most))
		return cost{
			highest: l.priority,
			sum:     int64(here)*weight(l.priority) + int64(all-here)*weight(levels[0].priority),
			victims: all,
			start:   l.starts[len(l.starts)-here],
		}, true
	}
	return c, false
}

// enough reports whether a and b together are at least short.
func enough(short, a, b Resources) bool {
	for name, n := range short.Extended {
		if n > a.Extended[name]+b.Extended[name] {
			return false
		}
	}
	return short.MilliCPU <= a.MilliCPU+b.MilliCPU && short.Memory <= a.Memory+b.Memory &&
		short.EphemeralStorage <= a.EphemeralStorage+b.EphemeralStorage
}

// atLeast returns how many pods with requests up to most are needed at least so that they have what is missing
// from below to short. There must be as many.
func atLeast(short, below, most Resources) int {
	pods := max(quotient(short.MilliCPU-below.MilliCPU, most.MilliCPU), quotient(short.Memory-below.Memory, most.Memory),
		quotient(short.EphemeralStorage-below.EphemeralStorage, most.EphemeralStorage))
	for name, n := range short.Extended {
		pods = max(pods, quotient(n-below.Extended[name], most.Extended[name]))
	}
	return int(pods)
}

// quotient returns a/b rounded up, or 0 if a is not positive.
func quotient(a, b int64) int64 {
	if a <= 0 || b <= 0 {
		return 0
	}
	return (a-1)/b + 1
}

// weight returns what a victim adds to the sum of a cost: more than 0, also if the priority is
// negative.
func weight(priority int32) int64 { return int64(priority) + math.MaxInt32 + 1 }

// measures returns the functions of the Measurers for a pod.
func (s *State) measures(p *PodInfo) (list []func(*NodeInfo) Resources) {
	for _, predicate := range s.profileOf(p).Predicates {
		if m, ok := predicate.(Measurer); ok {
			if measure := m.MeasureShortage(p); measure != nil {
				list = append(list, measure)
			}
		}
	}
	return list
}

// shortage returns the largest amounts that any of the functions returns.
func shortage(measures []func(*NodeInfo) Resources, n *NodeInfo) Resources {
	if len(measures) == 0 {
		return Resources{}
	}
	short := measures[0](n)
	for _, measure := range measures[1:] {
		more := measure(n)
		// The maps of both belong to the predicates.
		extended := short.Extended
		if len(more.Extended) > 0 {
			short.Extended = make(map[corev1.ResourceName]int64, len(extended)+len(more.Extended))
			short.raise(Resources{Extended: extended})
		}
		short.raise(more)
	}
	return short
}
