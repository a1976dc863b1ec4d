package node

import (
	"cmp"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// EvictionLimits is how fast nodes that are not ready are given the taint that
// drives pods off them. If most of a zone is not ready, it is more likely that
// the zone cannot be seen than that it is gone. Zero is what Kubernetes has; for a
// zero itself give a negative number.
type EvictionLimits struct {
	// Rate is the number of nodes in one zone that are tainted per second. Zero means 0.1; a
	// negative number means none.
	Rate float64
	// SlowRate is the rate in a zone that is unhealthy and large; in one that is
	// unhealthy and small it is none. Zero is 0.01, negative is none.
	SlowRate float64
	// Unhealthy is the share of nodes not ready which makes a zone unhealthy, if
	// they are three or more. Zero is 0.55.
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
	// All are guarded by mu: the nodes that are counted, the zones they make, and
	// how many of the nodes are ready.
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
	// last is when a node was tainted.
	last time.Time
}

// zoneOf names the zone of a node. Those without a label make one zone.
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

// standingOf tells what of a node counts; nothing of a nil node and of one that
// is excluded.
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

// set counts node, nil if it is gone, and reports what that changed: whether
// everything is lost now, and was before, and whether the rate of its zone is
// another.
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

// count is called with mu held.
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

// lost tells that no node is ready. It is called with mu held.
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

// take asks to taint a node. If that is not allowed, wait tells when to ask
// again; zero if only a change of the zone can help.
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

// giveBack undoes a take whose taint was not written for certain.
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
