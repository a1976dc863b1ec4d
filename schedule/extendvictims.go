package schedule

import (
	"context"
	"fmt"
	"slices"
)

// preemptions returns what the extenders make of the preemptions that help. ok is false if no extender has
// an opinion about them.
func (c *consultation) preemptions(ctx context.Context) (list []Preemption, ok bool) {
	asks := slices.DeleteFunc(slices.Clone(c.extenders), func(e *Extender) bool { return e.Preempt == nil })
	if c.config.Evict == nil || len(asks) == 0 {
		return nil, false
	}
	c.mu.Lock()
	for _, one := range c.state.plansThatHelp(c.pod, c.unfit, c.budgets()) {
		list = append(list, one.Preemption)
	}
	c.mu.Unlock()
	if len(list) == 0 {
		return nil, true
	}
	for _, e := range asks {
		answer, err := e.Preempt(ctx, c.pod.Pod, slices.Clone(list))
		if ctx.Err() != nil {
			return nil, true
		}
		var found []Preemption
		if err == nil {
			c.mu.Lock()
			found, err = c.state.resolve(c.pod, e, answer)
			c.mu.Unlock()
		}
		switch {
		case err == nil:
			list = found
		case e.Ignorable:
			c.config.Log.Error(err, "extender ignored", "extender", e.Name, "pod", c.pod.Key)
		default:
			c.config.Log.Error(err, "extender failed to preempt", "pod", c.pod.Key)
			c.unfit.Preemption, c.unfit.PreemptionFailed = "preemption: "+err.Error(), true
			return nil, true
		}
		if len(list) == 0 {
			c.unfit.Preemption = "preemption: no candidate node for preemption"
			return nil, true
		}
	}
	return list, true
}

// resolve returns the preemptions of an answer, whose victims are given by UID.
func (s *State) resolve(p *PodInfo, e *Extender, answer map[string]VictimUIDs) ([]Preemption, error) {
	var list []Preemption
	for name, v := range answer {
		n := s.nodes[name]
		if n == nil || n.Node == nil {
			return nil, fmt.Errorf("nodeinfo not found for node name %q", name)
		}
		found := Preemption{Node: name, Violations: v.Violations}
		for _, uid := range v.UIDs {
			victim := n.byUID(string(uid))
			switch {
			case victim == nil:
				return nil, fmt.Errorf("extender: %s claims to preempt pod (UID: %s) on node: %s, but the pod is not found on that node", e.Name, uid, name)
			case priority(victim) >= priority(p):
				return nil, fmt.Errorf("extender: %s claims to preempt pod (UID: %s) on node: %s, but its priority is not lower", e.Name, uid, name)
			case !slices.Contains(found.Victims, victim):
				found.Victims = append(found.Victims, victim)
			}
		}
		if len(found.Victims) == 0 {
			if e.Ignorable {
				continue
			}
			return nil, fmt.Errorf("expected at least one victim pod on node %q", name)
		}
		slices.SortFunc(found.Victims, compareImportance)
		list = append(list, found)
	}
	return list, nil
}

func (n *NodeInfo) byUID(uid string) *PodInfo {
	for _, p := range n.Pods {
		if string(p.Pod.UID) == uid {
			return p
		}
	}
	return nil
}

// bestPreemption returns the best of preemptions; ok is false if there is none.
func bestPreemption(list []Preemption) (best Preemption, ok bool) {
	if len(list) == 0 {
		return best, false
	}
	return slices.MinFunc(list, func(a, b Preemption) int {
		x, y := newPlan(a), newPlan(b)
		return comparePlans(&x, &y)
	}), true
}

// remaining returns the preemptions without victims that have left since, and without nodes that have none
// left.
func (s *State) remaining(list []Preemption) (rest []Preemption) {
	for _, p := range list {
		victims := slices.DeleteFunc(slices.Clone(p.Victims), func(v *PodInfo) bool {
			at, ok := s.pods[v.Key]
			return !ok || at.node != p.Node || at.pod.Pod.UID != v.Pod.UID
		})
		if n := s.nodes[p.Node]; len(victims) > 0 && n != nil && n.Node != nil {
			rest = append(rest, Preemption{p.Node, victims, p.Violations})
		}
	}
	return rest
}
