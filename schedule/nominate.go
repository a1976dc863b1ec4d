package schedule

import (
	"cmp"
	"slices"
)

// Nominate reserves room on a node for a pod that waits until its victims there have ended: for decisions
// about pods of the same or a lower priority, it counts as on the node. Pods of lower priority that the node
// is reserved for should lose that: see [State.Outranked].
func (s *State) Nominate(p *PodInfo, node string) {
	s.Withdraw(p.Key)
	if s.guests[node] == nil {
		s.guests[node] = make(map[string]*PodInfo)
	}
	s.guests[node][p.Key], s.nominees[p.Key] = p, node
	if n := s.nodes[node]; n != nil {
		s.touch(n)
	}
}

// Outranked returns the pods with a lower priority than p that a node is reserved for, by name.
func (s *State) Outranked(p *PodInfo, node string) []*PodInfo {
	var lower []*PodInfo
	for _, guest := range s.guests[node] {
		if priority(guest) < priority(p) {
			lower = append(lower, guest)
		}
	}
	slices.SortFunc(lower, func(a, b *PodInfo) int { return cmp.Compare(a.Key, b.Key) })
	return lower
}

// Withdraw ends the reservation of a pod, if it has one.
func (s *State) Withdraw(key string) Event {
	node, ok := s.nominees[key]
	if !ok {
		return none
	}
	p := s.guests[node][key]
	delete(s.nominees, key)
	if delete(s.guests[node], key); len(s.guests[node]) == 0 {
		delete(s.guests, node)
	}
	if n := s.nodes[node]; n != nil {
		s.touch(n)
		return change(p, nil, n)
	}
	return none
}

// renewGuest keeps what is known of a pod that a node is reserved for, and ends the reservation of an
// earlier pod of that name.
func (s *State) renewGuest(p *PodInfo) {
	node, ok := s.nominees[p.Key]
	switch {
	case !ok:
	case s.guests[node][p.Key].Pod.UID == p.Pod.UID:
		s.guests[node][p.Key] = p
		if n := s.nodes[node]; n != nil {
			s.touch(n)
		}
	default:
		s.Withdraw(p.Key)
	}
}

// Evict notes that a pod was evicted, or with false that this has failed, before the pod itself says
// so.
func (s *State) Evict(key string, evicted bool) {
	if one, ok := s.pods[key]; ok {
		one.evicted = evicted
		s.pods[key] = one
	}
}

// guestsBefore returns the pods that a node is reserved for and that p may not displace.
func (s *State) guestsBefore(p *PodInfo, n *NodeInfo) (guests []*PodInfo) {
	for key, guest := range s.guests[n.Node.Name] {
		if key != p.Key && priority(guest) >= priority(p) {
			guests = append(guests, guest)
		}
	}
	return guests
}

// judge returns the verdict of the first predicate that refuses a node, and its index. The node must have
// room for the pod together with those that it is reserved for, and also without them: a pod may need
// another one that is not there yet.
func (s *State) judge(f *filters, n *NodeInfo) (v Verdict, predicate int) {
	guests := s.guestsBefore(f.pod, n)
	if len(guests) == 0 {
		return f.judge(n)
	}
	leave := s.host(n, guests)
	with := filters{state: s, pod: f.pod, local: f.locals(), isCompiled: true}
	v, predicate = with.judge(n)
	if leave(); !v.OK() {
		return v, predicate
	}
	return f.judge(n)
}

// host puts guests on a node until the function that it returns is called.
func (s *State) host(n *NodeInfo, guests []*PodInfo) (leave func()) {
	done := s.try()
	for _, guest := range guests {
		s.put(place{pod: guest, node: n.Node.Name, assumed: true})
	}
	return func() {
		for _, guest := range guests {
			s.take(guest.Key)
		}
		done()
	}
}

// try says that pods are put on nodes and taken from them only to look at the effect, until the function
// that it returns is called.
func (s *State) try() (done func()) {
	before := s.trying
	s.trying = true
	return func() { s.trying = before }
}

// nominated returns the node that is reserved for a pod, if the pod fits it.
func (s *State) nominated(f *filters) *NodeInfo {
	n := s.nodes[s.nominees[f.pod.Key]]
	if n == nil || n.Node == nil {
		return nil
	}
	if v, _ := s.judge(f, n); !v.OK() {
		return nil
	}
	return n
}
