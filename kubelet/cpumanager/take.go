package cpumanager

import (
	"cmp"
	"fmt"
	"slices"
)

// take chooses n of the available CPUs. Like the CPU manager of Kubernetes, it prefers whole sockets
// and NUMA nodes, then whole cores, then single CPUs, and fills the groups with the fewest free CPUs
// first.
func (t Topology) take(available Set, n int) (Set, error) {
	if n <= 0 {
		return Set{}, nil
	}
	if n > available.Len() {
		return Set{}, fmt.Errorf("not enough cpus available to satisfy request: requested=%d, available=%d", n, available.Len())
	}
	k := taker{topology: t, free: available, need: n}
	outer, inner := level(socket), level(node)
	if t.count(socket) >= t.count(node) {
		outer, inner = node, socket
	}
	k.takeWhole(outer, k.order(k.free, outer))
	k.takeWhole(inner, k.order(k.free, outer, inner))
	k.takeWhole(core, k.order(k.free, outer, inner, core))
	for _, id := range k.order(k.free, outer, inner, core) {
		for _, cpu := range k.free.And(t.group(core, id)).List() {
			if k.need == 0 {
				return k.taken, nil
			}
			k.take(NewSet(cpu))
		}
	}
	return k.taken, nil
}

// taker moves CPUs from free to taken until it needs none.
type taker struct {
	topology    Topology
	free, taken Set
	need        int
}

func (k *taker) take(cpus Set) {
	k.free, k.taken, k.need = k.free.Minus(cpus), k.taken.Union(cpus), k.need-cpus.Len()
}

// takeWhole takes the groups that are completely free and not larger than the need.
func (k *taker) takeWhole(l level, groups []int) {
	for _, id := range groups {
		if all := k.topology.group(l, id); all.Len() > 0 && all.Len() <= k.need && all.Within(k.free) {
			k.take(all)
		}
	}
}

// order returns the groups of the last level that have CPUs in set. Groups with fewer such CPUs come
// first, then lower numbers; groups of outer levels stay together.
func (k *taker) order(set Set, levels ...level) []int {
	members := map[int][]int{}
	for _, cpu := range set.List() {
		id := levels[0](k.topology[cpu])
		members[id] = append(members[id], cpu)
	}
	ids := make([]int, 0, len(members))
	for id := range members {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b int) int {
		return cmp.Or(cmp.Compare(len(members[a]), len(members[b])), cmp.Compare(a, b))
	})
	if len(levels) == 1 {
		return ids
	}
	var out []int
	for _, id := range ids {
		out = append(out, k.order(NewSet(members[id]...), levels[1:]...)...)
	}
	return out
}
