package schedule

import "maps"

// A trial removes pods from a node to see whether another one then fits.
type trial interface {
	// judge returns the verdict about the node as it is in the trial.
	judge() Verdict
	// clear removes the pods of lower priorities, the least important ones of the node. It is called first.
	clear(lower []*PodInfo)
	// restore puts a pod back if the other one still fits beside it.
	restore(*PodInfo) bool
	// end restores all pods.
	end()
}

// nodeTrial is the trial for a pod whose checks need only the node.
type nodeTrial struct {
	checks   []filter
	measures []func(*NodeInfo) Resources
	node     *NodeInfo
	// alone is a copy of the node, made before the first change. shared is one on which the pods are too that
	// the node is reserved for; it is used if there are any.
	alone, shared      NodeInfo
	isCopied, isShared bool
}

// reset begins a trial on a node that is reserved for guests.
func (t *nodeTrial) reset(n *NodeInfo, guests []*PodInfo) {
	t.node, t.isCopied = n, false
	if t.isShared = len(guests) > 0; !t.isShared {
		return
	}
	t.shared.copy(n)
	for _, guest := range guests {
		t.shared.add(guest)
	}
}

func (t *nodeTrial) judge() Verdict {
	if t.isShared {
		if v, _ := firstRefusal(t.checks, &t.shared); !v.OK() {
			return v
		}
	}
	n := t.node
	if t.isCopied {
		n = &t.alone
	}
	v, _ := firstRefusal(t.checks, n)
	return v
}

func (t *nodeTrial) clear(lower []*PodInfo) {
	t.isCopied = true
	t.alone.copyWithout(t.node, lower)
	if t.isShared {
		for _, one := range lower {
			t.shared.remove(one)
		}
	}
}

func (t *nodeTrial) restore(p *PodInfo) bool {
	t.alone.take(p)
	if len(t.measures) > 0 && shortage(t.measures, &t.alone).any() {
		t.alone.free(p) // a predicate would refuse the node
		return false
	}
	t.alone.Pods[p.Key] = p
	if t.isShared {
		t.shared.add(p)
	}
	if t.judge().OK() {
		return true
	}
	t.alone.remove(p)
	if t.isShared {
		t.shared.remove(p)
	}
	return false
}

func (t *nodeTrial) end() {}

// stateTrial is the trial for any pod.
type stateTrial struct {
	state *State
	node  *NodeInfo
	f     filters
	gone  map[string]place
}

func newStateTrial(s *State, p *PodInfo, n *NodeInfo, local []filter) *stateTrial {
	return &stateTrial{s, n, filters{state: s, pod: p, local: local, isCompiled: true}, make(map[string]place)}
}

func (t *stateTrial) judge() Verdict {
	f := t.f
	v, _ := t.state.judge(&f, t.node)
	return v
}

func (t *stateTrial) clear(lower []*PodInfo) {
	for _, one := range lower {
		t.remove(one)
	}
}

func (t *stateTrial) remove(p *PodInfo) {
	t.gone[p.Key] = t.state.pods[p.Key]
	t.state.take(p.Key)
}

func (t *stateTrial) restore(p *PodInfo) bool {
	t.state.put(t.gone[p.Key])
	delete(t.gone, p.Key)
	if t.judge().OK() {
		return true
	}
	t.remove(p)
	return false
}

func (t *stateTrial) end() {
	for _, one := range t.gone {
		t.state.put(one)
	}
	clear(t.gone)
}

// copy makes n a copy of other, to which pods can be added and from which they can be removed.
func (n *NodeInfo) copy(other *NodeInfo) {
	n.copyAll(other)
	maps.Copy(n.Pods, other.Pods)
}

// copyWithout is copy without the least important pods, which are mostly nearly all.
func (n *NodeInfo) copyWithout(other *NodeInfo, lower []*PodInfo) {
	n.copyAll(other)
	kept := other.ladder.pods
	for _, one := range kept[:len(kept)-len(lower)] {
		n.Pods[one.Key] = one
	}
	for _, one := range lower {
		n.free(one)
	}
}

// copyAll copies all of a node but its pods.
func (n *NodeInfo) copyAll(other *NodeInfo) {
	pods, ports := n.Pods, n.Ports
	*n = *other
	n.Requested, n.NonZero = other.Requested.clone(), other.NonZero.clone()
	n.ladder = nil
	n.Ports = append(ports[:0], other.Ports...)
	if n.Pods = pods; pods == nil {
		n.Pods = make(map[string]*PodInfo)
	}
	clear(n.Pods)
}
