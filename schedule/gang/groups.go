package gang

import (
	"cmp"
	"slices"

	"github.com/planekit/planekit/schedule"
	"k8s.io/apimachinery/pkg/types"
)

// groups holds the groups of pods. It has no clock, does no IO and is used by one goroutine at a time.
type groups struct {
	byKey map[types.NamespacedName]*group
	// turn is the group that collects its pods alone; nil if none does.
	turn *group
}

// group is the pods that start together.
type group struct {
	key types.NamespacedName
	// pods holds the pods that count, by UID; minimum is the largest of their numbers, bound counts bound pods.
	pods    map[types.UID]member
	minimum int
	bound   int
	// placed are the pods that have a node and may not be bound yet. They need not be among pods.
	placed map[types.UID]*place
	// failed says that the group has let its room go and has not started since. Such groups take turns.
	failed bool
}

// member describes a pod that exists.
type member struct {
	minimum int
	bound   bool
}

// place is a pod that has a node.
type place struct {
	pod *schedule.PodInfo
	// waits says that the pod waits for other pods.
	waits bool
}

// steps holds the work of the scheduler after a change.
type steps struct {
	// allow and refuse are pods that wait.
	allow, refuse []*schedule.PodInfo
	// changes wake pods.
	changes []change
}

// change is the event that groups may go on: the one with key, because enough of its pods exist; or, if
// turn is set, all other groups that take turns, because that one has finished its own.
type change struct {
	key  types.NamespacedName
	turn bool
}

func (s *steps) add(more steps) {
	s.allow = append(s.allow, more.allow...)
	s.refuse = append(s.refuse, more.refuse...)
	s.changes = append(s.changes, more.changes...)
}

func newGroups() *groups { return &groups{byKey: make(map[types.NamespacedName]*group)} }

// get returns a group, which is new if there was none.
func (s *groups) get(key types.NamespacedName) *group {
	g := s.byKey[key]
	if g == nil {
		g = &group{key: key, minimum: 1, pods: make(map[types.UID]member), placed: make(map[types.UID]*place)}
		s.byKey[key] = g
	}
	return g
}

// drop forgets a group without pods.
func (s *groups) drop(g *group) {
	if len(g.pods) == 0 && len(g.placed) == 0 {
		delete(s.byKey, g.key)
	}
}

// update replaces what is known of a pod; a nil member means that it does not count.
func (g *group) update(uid types.UID, now *member) {
	old, known := g.pods[uid]
	if known && old.bound {
		g.bound--
	}
	delete(g.pods, uid)
	if now != nil {
		g.pods[uid] = *now
		g.minimum = max(g.minimum, now.minimum)
		if now.bound {
			g.bound++
		}
	}
	if known && old.minimum == g.minimum && (now == nil || now.minimum < old.minimum) {
		g.minimum = 1
		for _, m := range g.pods {
			g.minimum = max(g.minimum, m.minimum)
		}
	}
}

// complete reports whether enough pods exist.
func (g *group) complete() bool { return len(g.pods) >= g.minimum }

// ready reports whether enough pods have a node or are bound.
func (g *group) ready() bool {
	if g.bound+len(g.placed) < g.minimum {
		return false
	}
	n := g.bound
	for uid := range g.placed {
		if m, counts := g.pods[uid]; counts && !m.bound {
			n++
		}
	}
	return n >= g.minimum
}

// waiting returns the pods that wait, by name.
func (g *group) waiting() []*schedule.PodInfo {
	var list []*schedule.PodInfo
	for _, p := range g.placed {
		if p.waits {
			list = append(list, p.pod)
		}
	}
	slices.SortFunc(list, func(a, b *schedule.PodInfo) int { return cmp.Compare(a.Key, b.Key) })
	return list
}

// set adds or updates a pod that counts.
func (s *groups) set(key types.NamespacedName, uid types.UID, minimum int, bound bool) steps {
	g := s.get(key)
	_, known := g.pods[uid]
	before := known && g.complete() // a new pod may have been refused before it was counted here
	g.update(uid, &member{minimum, bound})
	return s.changed(g, before)
}

// remove removes a pod that does not count any more.
func (s *groups) remove(key types.NamespacedName, uid types.UID) steps {
	g := s.byKey[key]
	if g == nil {
		return steps{}
	}
	before := g.complete()
	g.update(uid, nil)
	after := s.changed(g, before)
	s.drop(g)
	return after
}

// changed returns what follows from other pods in a group, which was complete before or not.
func (s *groups) changed(g *group, before bool) steps {
	after := s.start(g)
	if !before && g.complete() {
		after.changes = append(after.changes, change{key: g.key})
	}
	return after
}

// start lets the pods of a group start that wait, if there are enough.
func (s *groups) start(g *group) steps {
	if !g.ready() {
		return steps{}
	}
	waiting := g.waiting()
	if len(waiting) == 0 {
		return steps{}
	}
	for _, p := range g.placed {
		p.waits = false
	}
	g.failed = false
	after := s.endTurn(g)
	after.allow = waiting
	return after
}

// endTurn ends the turn of a group, if it has it.
func (s *groups) endTurn(g *group) steps {
	if s.turn != g {
		return steps{}
	}
	s.turn = nil
	return steps{changes: []change{{g.key, true}}}
}

// mayTry returns how many pods of a group exist and must, and whether no other group has the turn. It is asked
// for a pod with its own minimum, which may not be counted yet.
func (s *groups) mayTry(key types.NamespacedName, uid types.UID, own int) (exist, minimum int, turn bool) {
	g := s.byKey[key]
	if g == nil {
		return 1, max(1, own), true
	}
	exist, minimum = len(g.pods), g.minimum
	if _, known := g.pods[uid]; !known {
		exist, minimum = exist+1, max(minimum, own)
	}
	return exist, minimum, !g.failed || s.turn == nil || s.turn == g
}

// place notes that a pod has a node and waits, and lets the group start if it is the last one.
func (s *groups) place(key types.NamespacedName, p *schedule.PodInfo) steps {
	g := s.get(key)
	g.placed[p.Pod.UID] = &place{p, true}
	if g.failed && s.turn == nil {
		s.turn = g
	}
	return s.start(g)
}

// leave notes that a pod has no node any more. If it has waited, the others do not wait any longer.
func (s *groups) leave(key types.NamespacedName, uid types.UID) (after steps) {
	g := s.byKey[key]
	if g == nil || g.placed[uid] == nil {
		return steps{}
	}
	waited := g.placed[uid].waits
	delete(g.placed, uid)
	if waited {
		g.failed = true
		after.refuse = g.waiting()
		if len(after.refuse) == 0 {
			after.add(s.endTurn(g))
		}
	}
	s.drop(g)
	return after
}

// bound notes that a pod is bound, also if the cache does not show it yet.
func (s *groups) bound(key types.NamespacedName, uid types.UID) {
	g := s.byKey[key]
	if g == nil {
		return
	}
	delete(g.placed, uid)
	if m, ok := g.pods[uid]; ok {
		g.update(uid, &member{m.minimum, true})
	}
	s.drop(g)
}

// failedBefore reports whether a group takes turns with others.
func (s *groups) failedBefore(key types.NamespacedName) bool {
	g := s.byKey[key]
	return g != nil && g.failed
}
