package node

import (
	"cmp"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// EvictionLimits bounds how fast nodes that are not ready get the taint that evicts pods. If most
// of a zone is not ready, it is more likely that this process cannot reach the zone than that its
// nodes are lost. Zero means the value of Kubernetes, a negative number zero.
type EvictionLimits struct {
	// Rate is the number of nodes in one zone that are tainted per second. Zero means 0.1; a
	// negative number means none.
	Rate float64
	// SlowRate is the rate in a large unhealthy zone. In a small unhealthy zone the rate is zero.
	// Zero means 0.01; a negative number means none.
	SlowRate float64
	// Unhealthy is the share of nodes, and at least three nodes, that are not ready in an unhealthy
	// zone. Zero means 0.55.
	Unhealthy float64
	// Large is the maximum number of nodes of a small zone. Zero means 50.
	Large int
}

func (l EvictionLimits) filled() EvictionLimits {
	return EvictionLimits{
		Rate: max(0, cmp.Or(l.Rate, 0.1)), SlowRate: max(0, cmp.Or(l.SlowRate, 0.01)),
		Unhealthy: max(0, cmp.Or(l.Unhealthy, 0.55)), Large: max(0, cmp.Or(l.Large, 50)),
	}
}

// excludeFromDisruption is a label of nodes that are not counted.
const excludeFromDisruption = "node.kubernetes.io/exclude-disruption"

// zones counts nodes. If no node anywhere is ready, nothing is tainted: this process is more likely
// cut off than all nodes lost.
type zones struct {
	limits EvictionLimits
	mu     sync.Mutex
	// mu guards the counted nodes, their zones, and the number of ready nodes.
	nodes  map[string]nodeStanding
	byName map[string]*zone
	ready  int
}

type nodeStanding struct {
	zone  string
	ready bool
}

type zone struct {
	size, ready int
	// last is when a node was last tainted.
	last time.Time
}

// zoneOf returns the name of the zone of a node. Nodes without a label form one zone.
func zoneOf(node *corev1.Node) string {
	label := func(names ...string) string {
		for _, name := range names {
			if v, ok := node.Labels[name]; ok {
				return v
			}
		}
		return ""
	}
	return label(corev1.LabelFailureDomainBetaRegion, corev1.LabelTopologyRegion) + "\x00" +
		label(corev1.LabelFailureDomainBetaZone, corev1.LabelTopologyZone)
}

// standingOf returns what counts of a node; the zero value for a nil node and for an excluded one.
func standingOf(node *corev1.Node) (s nodeStanding, counts bool) {
	if node == nil {
		return s, false
	}
	if _, excluded := node.Labels[excludeFromDisruption]; excluded {
		return s, false
	}
	c := nodeReady(node)
	return nodeStanding{zoneOf(node), c != nil && c.Status == corev1.ConditionTrue}, true
}

// set counts node, which is nil if it was deleted. It reports whether all nodes are lost now,
// whether they were before, and whether the rate of the zone has changed.
func (z *zones) set(name string, node *corev1.Node) (lost, wasLost, rate bool) {
	z.mu.Lock()
	defer z.mu.Unlock()
	now, counts := standingOf(node)
	before, counted := z.nodes[name]
	wasLost = z.lost()
	rateOf := func() float64 { return z.rate(z.byName[now.zone]) }
	if !counts {
		now.zone = before.zone
	}
	rateBefore := rateOf()
	if counted {
		z.count(before, -1)
		delete(z.nodes, name)
	}
	if counts {
		if z.nodes == nil {
			z.nodes, z.byName = make(map[string]nodeStanding), make(map[string]*zone)
		}
		z.count(now, 1)
		z.nodes[name] = now
	}
	return z.lost(), wasLost, rateOf() != rateBefore
}

// count updates the counts. mu is held.
func (z *zones) count(s nodeStanding, by int) {
	at := z.byName[s.zone]
	if at == nil {
		at = &zone{}
		z.byName[s.zone] = at
	}
	at.size += by
	if s.ready {
		at.ready += by
		z.ready += by
	}
	if at.size == 0 {
		delete(z.byName, s.zone)
	}
}

// lost reports whether no node is ready. It is called with mu held.
func (z *zones) lost() bool { return len(z.nodes) > 0 && z.ready == 0 }

// rate returns how many nodes of a zone may be tainted per second. The caller holds mu.
func (z *zones) rate(at *zone) float64 {
	if at == nil {
		return z.limits.Rate
	}
	unready := at.size - at.ready
	switch {
	case at.ready == 0, unready <= 2, float64(unready)/float64(at.size) < z.limits.Unhealthy:
		return z.limits.Rate
	case at.size > z.limits.Large:
		return z.limits.SlowRate
	}
	return 0
}

// take asks to taint a node. If the rate does not allow it, wait is the time until it may; zero if
// only a change of the zone can help.
func (z *zones) take(node *corev1.Node, now time.Time) (allowed bool, wait time.Duration) {
	z.mu.Lock()
	defer z.mu.Unlock()
	at := z.byName[zoneOf(node)]
	if at == nil {
		return z.limits.Rate > 0 && !z.lost(), 0 // nodes that do not count have no zone to spare
	}
	rate := z.rate(at)
	if z.lost() || rate <= 0 {
		return false, 0
	}
	if !at.last.IsZero() {
		wait = at.last.Add(time.Duration(float64(time.Second) / rate)).Sub(now)
	}
	if wait > 0 {
		return false, wait
	}
	at.last = now
	return true, 0
}

// giveBack undoes a take whose taint certainly was not written.
func (z *zones) giveBack(node *corev1.Node, taken time.Time) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if at := z.byName[zoneOf(node)]; at != nil && at.last.Equal(taken) {
		at.last = time.Time{}
	}
}

func (z *zones) allLost() bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.lost()
}
