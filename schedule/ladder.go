package schedule

import (
	"cmp"
	"slices"
	"sort"
)

// ladder holds the pods of a node by priority. It is kept up to date when a pod comes or goes, so that the first
// preemption after many changes is no slower than others.
type ladder struct {
	// pods are all of them, the most important first, and starts when each has started.
	pods   []*PodInfo
	starts []int64
	// levels has one for each priority, the lowest first.
	levels []level
}

// level sums up the pods of one priority on a node.
type level struct {
	priority int32
	count    int
	// sum holds the sums of what the pods request, and most the largest request of one pod.
	sum, most Resources
}

// add adds a pod that is not there.
func (l *ladder) add(p *PodInfo) {
	i, from, to := l.level(priority(p))
	if from == to {
		l.levels = slices.Insert(l.levels, i, level{priority: priority(p)})
	}
	at := l.find(p, from, to)
	l.pods, l.starts = slices.Insert(l.pods, at, p), slices.Insert(l.starts, at, started(p))
	one := &l.levels[i]
	one.count++
	one.sum.add(p.Requests, 1)
	one.most.raise(p.Requests)
}

// remove removes a pod that is there.
func (l *ladder) remove(p *PodInfo) {
	i, from, to := l.level(priority(p))
	at := l.find(p, from, to)
	l.pods, l.starts = slices.Delete(l.pods, at, at+1), slices.Delete(l.starts, at, at+1)
	one := &l.levels[i]
	if one.count--; one.count == 0 {
		l.levels = slices.Delete(l.levels, i, i+1)
		return
	}
	one.sum.add(p.Requests, -1)
	if !one.most.reaches(p.Requests) {
		return
	}
	one.most = Resources{}
	for _, other := range l.pods[from : to-1] {
		one.most.raise(other.Requests)
	}
}

// level returns the index of a priority among the levels, where it is or belongs, and the range of its pods.
func (l *ladder) level(priority int32) (i, from, to int) {
	to = len(l.pods)
	for ; i < len(l.levels) && l.levels[i].priority <= priority; i++ {
		if from = to - l.levels[i].count; l.levels[i].priority == priority {
			return i, from, to
		}
		to = from
	}
	return i, to, to
}

// find returns the index of a pod in the range of its priority, where it is or belongs.
func (l *ladder) find(p *PodInfo, from, to int) int {
	start := started(p)
	return from + sort.Search(to-from, func(i int) bool {
		return cmp.Or(cmp.Compare(l.starts[from+i], start), cmp.Compare(l.pods[from+i].Key, p.Key)) >= 0
	})
}

// below returns a copy of the pods of lower priorities, the most important first.
func (l *ladder) below(priority int32) []*PodInfo {
	from := len(l.pods)
	for i := 0; i < len(l.levels) && l.levels[i].priority < priority; i++ {
		from -= l.levels[i].count
	}
	return slices.Clone(l.pods[from:])
}

// reaches reports whether b has as much as a of any resource.
func (a Resources) reaches(b Resources) bool {
	for name, n := range b.Extended {
		if n > 0 && n >= a.Extended[name] {
			return true
		}
	}
	return b.MilliCPU > 0 && b.MilliCPU >= a.MilliCPU || b.Memory > 0 && b.Memory >= a.Memory ||
		b.EphemeralStorage > 0 && b.EphemeralStorage >= a.EphemeralStorage
}
