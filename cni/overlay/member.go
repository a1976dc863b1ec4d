//go:build linux

package overlay

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
)

// A Member is one host of the overlay, as its source describes it. The overlay checks members before
// it uses them.
type Member struct {
	// Name identifies the member.
	Name string
	// Address is the member's IPv4 address in the underlay, Address6 its IPv6 address. Either may be
	// missing. VXLAN and UDP use the IPv4 address if the local member has one, host-gw one for each
	// family of subnets.
	Address, Address6 netip.Addr
	// Subnets are the ranges of the member's pods, of both families. A range has no host bits.
	Subnets []netip.Prefix
	// Backend is the backend that the member runs. Empty means that it has not published one, which
	// only host-gw accepts.
	Backend string
	// Data holds what the member's backend has published.
	Data Data
	// Invalid, if set, says why the source cannot describe the member. The overlay refuses it for this
	// reason, and ignores all but its name.
	Invalid error
}

// underlay returns the member's address of a family.
func (m *Member) underlay(v6 bool) netip.Addr {
	if v6 {
		return m.Address6
	}
	return m.Address
}

func (m *Member) clone() Member {
	c := *m
	c.Subnets = slices.Clone(m.Subnets)
	return c
}

// A Source knows the members of the overlay.
type Source interface {
	// Follow calls set with all members, which may include the local one, and again after every
	// change, until ctx is done. It returns nil then. Calls do not overlap, and the slice belongs to
	// the overlay. The order is that of precedence: of two members that claim the same range, the
	// first keeps it. Before the first call, the overlay removes nothing. After
	// an error the overlay keeps the members it knows and calls Follow again.
	Follow(ctx context.Context, set func([]Member)) error
}

// SourceFunc is a function that is a Source.
type SourceFunc func(ctx context.Context, set func([]Member)) error

// Follow calls f.
func (f SourceFunc) Follow(ctx context.Context, set func([]Member)) error { return f(ctx, set) }

// A Set is a Source whose members the program sets. The zero Set has none and reports none until
// [Set.Replace] is called. Its methods are safe for concurrent use, also by several overlays.
type Set struct {
	mu      sync.Mutex
	members []Member
	known   bool
	changed chan struct{} // closed at the next change
}

// NewSet returns a set of the members.
func NewSet(members ...Member) *Set {
	s := new(Set)
	s.Replace(members...)
	return s
}

// Replace sets all members. The set keeps a copy.
func (s *Set) Replace(members ...Member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members, s.known = cloned(members), true
	s.notify()
}

// Put adds a member, or replaces the member of its name. It can be a Publish of [Config].
func (s *Set) Put(_ context.Context, m Member) error {
	if m.Name == "" {
		return fmt.Errorf("member without a name")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = true
	defer s.notify()
	for i := range s.members {
		if s.members[i].Name == m.Name {
			s.members[i] = m.clone()
			return nil
		}
	}
	s.members = append(s.members, m.clone())
	return nil
}

// Delete removes the member of a name, if there is one.
func (s *Set) Delete(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members = slices.DeleteFunc(s.members, func(m Member) bool { return m.Name == name })
	s.notify()
}

// notify wakes followers. The caller holds the lock.
func (s *Set) notify() {
	if s.changed != nil {
		close(s.changed)
	}
	s.changed = make(chan struct{})
}

func (s *Set) snapshot() ([]Member, bool, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return cloned(s.members), s.known, s.changed
}

// Follow reports the members until ctx is done.
func (s *Set) Follow(ctx context.Context, set func([]Member)) error {
	for {
		members, known, changed := s.snapshot()
		if known {
			set(members)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

func cloned(members []Member) []Member {
	out := make([]Member, len(members))
	for i := range members {
		out[i] = members[i].clone()
	}
	return out
}
