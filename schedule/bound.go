package schedule

import (
	"math"

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

// bound returns a cost that no preemption on a node for a pod of a priority can be below, if what is short must
// become free; ok is false if all pods of lower priorities together do not have as much.
//
// Of the levels from the lowest one up, the first that is enough together with those below has the most
// important victim, or a higher one has. The victims on it, and all of them, are at least as many as the
// largest requests there allow.
func (l *ladder) bound(priority int32, short Resources) (c cost, ok bool) {
	var below, most Resources
	from := len(l.pods) // the first pod of the levels below
	for i := range l.levels {
		one := &l.levels[i]
		if one.priority >= priority {
			return c, false
		}
		most.raise(one.most)
		if !enough(short, below, one.sum) {
			below.add(one.sum, 1)
			from -= one.count
			continue
		}
		here := max(1, atLeast(short, below, one.most))
		all := max(here, atLeast(short, Resources{}, most))
		return cost{
			highest: one.priority,
			sum:     int64(here)*weight(one.priority) + int64(all-here)*weight(l.levels[0].priority),
			victims: int32(all),
			start:   l.starts[from-here],
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
