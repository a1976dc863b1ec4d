package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// check returns what is wrong with the structure of a queue.
func (q *queue) check() error {
	parked := 0
	for key, e := range q.entries {
		_, single := q.singles[e]
		switch inGroup := e.group != nil; {
		case e.where == &q.parked:
			parked++
			if single == inGroup {
				return fmt.Errorf("%s is parked, single %t and in a group %t", key, single, inGroup)
			}
		case single || inGroup:
			return fmt.Errorf("%s is not parked and single %t or in a group %t", key, single, inGroup)
		}
		if e.group != nil && (e.group.members[e.member] != e || q.groups[e.group.class] != e.group) {
			return fmt.Errorf("%s is not where its group has it", key)
		}
		if g := e.probes; g != nil && (g.probe != e || e.where == &q.parked || q.groups[g.class] != g) {
			return fmt.Errorf("%s is not the probe of its group", key)
		}
	}
	members := len(q.singles)
	for class, g := range q.groups {
		members += len(g.members)
		if g.class != class || len(g.members) == 0 && g.probe == nil {
			return fmt.Errorf("group %q has class %q and %d members", class, g.class, len(g.members))
		}
		if g.probe != nil && q.entries[g.probe.pod.Key] != g.probe {
			return fmt.Errorf("the probe of group %q is gone", class)
		}
	}
	if parked != members || parked != q.parked.Len() {
		return fmt.Errorf("%d pods are parked, %d grouped, %d in the heap", parked, members, q.parked.Len())
	}
	return nil
}

// TestGroupsModel does random things with pods of classes, and checks that all pods get their turn after an
// event that helps all, if each gets a node.
func TestGroupsModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 20 {
		q, now := newTestQueue(), time.Unix(0, 0)
		always := func(*FitError) bool { return true }
		var popped []*PodInfo
		take := func() *PodInfo {
			if len(popped) == 0 {
				return nil
			}
			i := rng.IntN(len(popped))
			p := popped[i]
			popped = slices.Delete(popped, i, i+1)
			return p
		}
		for step := range 1000 {
			p := waiting(fmt.Sprint(rng.IntN(20)), fmt.Sprint(rng.IntN(2)))
			switch rng.IntN(9) {
			case 0, 1:
				q.set(p, rng.IntN(3) == 0, now)
			case 2:
				q.remove(p.Key)
			case 3, 4:
				if a, ok := q.pop(now); ok {
					popped = append(popped, a.pod)
				}
			case 5:
				if p := take(); p != nil {
					reasons := map[string]int{fmt.Sprint(rng.IntN(2)): 1}
					q.park(p, &FitError{Reasons: reasons}, []string{"", "a", "b"}[rng.IntN(3)], nil, now)
				}
			case 6:
				if p := take(); p != nil {
					q.placed(p)
					if rng.IntN(2) == 0 {
						q.retry(p, nil, now)
					} else if q.holds(p) {
						q.remove(p.Key)
					}
				}
			case 7:
				if rng.IntN(5) == 0 {
					q.wakeIf(always, none, now)
				}
			case 8:
				if rng.IntN(5) == 0 {
					q.isolate(p)
				}
				now = now.Add(time.Duration(rng.IntN(500)) * time.Millisecond)
			}
			if err := q.check(); err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
		}
		for _, p := range popped {
			q.retry(p, nil, now)
		}
		q.wakeIf(always, none, now)
		now = now.Add(defaultMaxBackoff)
		for {
			a, ok := q.pop(now)
			if !ok {
				break
			}
			q.placed(a.pod)
			q.remove(a.pod.Key)
		}
		if len(q.entries) > 0 || len(q.groups) > 0 || len(q.singles) > 0 {
			t.Fatalf("%d pods, %d groups and %d singles are left", len(q.entries), len(q.groups), len(q.singles))
		}
	}
}
