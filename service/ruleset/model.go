package ruleset

import (
	"maps"
	"slices"
	"strings"
)

// A Model is a table as the sum of the fragments of its owners. If several owners have the same
// element with different verdicts, the one with the lowest rank wins. It is not safe for concurrent
// use.
type Model struct {
	table  Table
	owners map[string]owned
	// claims has the places that more than one owner has.
	claims map[Place][]claim
	holder map[Place]string
}

type owned struct {
	rank     string
	fragment Fragment
}

type claim struct {
	rank, owner string
	verdict     Verdict
}

// NewModel returns an empty model.
func NewModel() *Model {
	return &Model{
		table:  Table{Chains: map[string]Chain{}, Sets: map[string]Set{}, Elements: map[Place]Verdict{}},
		owners: map[string]owned{}, claims: map[Place][]claim{}, holder: map[Place]string{},
	}
}

// Table returns the whole table. It is the model's own: the caller must not change it, and it is
// valid until the next Put.
func (m *Model) Table() Table { return m.table }

// A Conflict says that an owner does not get an element because another one has it.
type Conflict struct {
	Place         Place
	Owner, Winner string
}

// Put replaces the fragment of an owner, whose places are given by rank and then by name, adds what
// changes to c, and returns the elements that this owner does not get. The fragment must not be changed
// after. An empty fragment removes the owner.
func (m *Model) Put(owner, rank string, f Fragment, c *Change) []Conflict {
	old := m.owners[owner]
	m.putChains(old.fragment, f, c)
	var conflicts []Conflict
	for place := range old.fragment.Elements {
		if _, keeps := f.Elements[place]; !keeps {
			m.release(place, owner, c)
		}
	}
	for place, verdict := range f.Elements {
		if winner := m.claim(place, claim{rank, owner, verdict}, c); winner.owner != owner && winner.verdict != verdict {
			conflicts = append(conflicts, Conflict{place, owner, winner.owner})
		}
	}
	if len(f.Chains)+len(f.Sets)+len(f.Elements) == 0 {
		delete(m.owners, owner)
	} else {
		m.owners[owner] = owned{rank, f}
	}
	slices.SortFunc(conflicts, func(a, b Conflict) int {
		return strings.Compare(a.Place.Set+string(a.Place.Key), b.Place.Set+string(b.Place.Key))
	})
	return conflicts
}

func (m *Model) putChains(old, f Fragment, c *Change) {
	for name := range old.Sets {
		if _, keeps := f.Sets[name]; !keeps {
			c.set(name, m.table.Sets, nil)
			delete(m.table.Sets, name)
		}
	}
	for name, s := range f.Sets {
		if have, ok := m.table.Sets[name]; !ok || !have.equal(s) {
			c.set(name, m.table.Sets, &s)
			m.table.Sets[name] = s
		}
	}
	for name := range old.Chains {
		if _, keeps := f.Chains[name]; !keeps {
			c.chain(name, m.table.Chains, nil)
			delete(m.table.Chains, name)
		}
	}
	for name, chain := range f.Chains {
		if have, ok := m.table.Chains[name]; !ok || !sameRules(have, chain) {
			c.chain(name, m.table.Chains, &chain)
			m.table.Chains[name] = chain
		}
	}
}

// claim records that an owner wants an element and returns the claim that has it now.
func (m *Model) claim(place Place, want claim, c *Change) claim {
	holder, held := m.holder[place]
	if !held || holder == want.owner && len(m.claims[place]) == 0 {
		m.holder[place] = want.owner
		m.write(place, want.verdict, c)
		return want
	}
	all := m.claims[place]
	if len(all) == 0 {
		all = []claim{{m.owners[holder].rank, holder, m.table.Elements[place]}}
	}
	all = slices.DeleteFunc(all, func(other claim) bool { return other.owner == want.owner })
	all = append(all, want)
	return m.settle(place, all, c)
}

func (m *Model) release(place Place, owner string, c *Change) {
	all := m.claims[place]
	if len(all) == 0 {
		c.element(place, m.table.Elements, nil)
		delete(m.table.Elements, place)
		delete(m.holder, place)
		return
	}
	m.settle(place, slices.DeleteFunc(all, func(other claim) bool { return other.owner == owner }), c)
}

// settle gives a place to the first of its claims, of which there is at least one.
func (m *Model) settle(place Place, all []claim, c *Change) claim {
	winner := slices.MinFunc(all, func(a, b claim) int {
		if order := strings.Compare(a.rank, b.rank); order != 0 {
			return order
		}
		return strings.Compare(a.owner, b.owner)
	})
	m.holder[place] = winner.owner
	if len(all) == 1 {
		delete(m.claims, place)
	} else {
		m.claims[place] = all
	}
	m.write(place, winner.verdict, c)
	return winner
}

func (m *Model) write(place Place, verdict Verdict, c *Change) {
	if have, ok := m.table.Elements[place]; ok && have == verdict {
		return
	}
	c.element(place, m.table.Elements, &verdict)
	m.table.Elements[place] = verdict
}

// A Change is a difference between two states of a table. The zero Change is empty. Changes to the
// same thing are merged: what is added and removed again is no change.
type Change struct {
	chains   map[string]edit[Chain]
	sets     map[string]edit[Set]
	elements map[Place]edit[Verdict]
}

// edit is the value before and after a change; nil for none.
type edit[T any] struct{ before, after *T }

// Empty reports whether nothing changes.
func (c *Change) Empty() bool { return len(c.chains)+len(c.sets)+len(c.elements) == 0 }

// Size returns how many chains, sets and elements change.
func (c *Change) Size() int { return len(c.chains) + len(c.sets) + len(c.elements) }

func (c *Change) chain(name string, have map[string]Chain, after *Chain) {
	c.chains = record(c.chains, name, have, after, sameRules)
}

func (c *Change) set(name string, have map[string]Set, after *Set) {
	c.sets = record(c.sets, name, have, after, Set.equal)
}

func (c *Change) element(place Place, have map[Place]Verdict, after *Verdict) {
	c.elements = record(c.elements, place, have, after, func(a, b Verdict) bool { return a == b })
}

func record[K comparable, T any](edits map[K]edit[T], key K, have map[K]T, after *T, same func(a, b T) bool) map[K]edit[T] {
	if edits == nil {
		edits = map[K]edit[T]{}
	}
	e, ok := edits[key]
	if !ok {
		if before, there := have[key]; there {
			e.before = &before
		}
	}
	e.after = after
	if e.before == nil && e.after == nil || e.before != nil && e.after != nil && same(*e.before, *e.after) {
		delete(edits, key)
		return edits
	}
	edits[key] = e
	return edits
}

// Diff returns the change that makes one table of another.
func Diff(have, want Table) *Change {
	c := &Change{}
	for name := range have.Sets {
		if _, ok := want.Sets[name]; !ok {
			c.set(name, have.Sets, nil)
		}
	}
	for name, s := range want.Sets {
		c.set(name, have.Sets, &s)
	}
	for name := range have.Chains {
		if _, ok := want.Chains[name]; !ok {
			c.chain(name, have.Chains, nil)
		}
	}
	for name, chain := range want.Chains {
		c.chain(name, have.Chains, &chain)
	}
	for place := range have.Elements {
		if _, ok := want.Elements[place]; !ok {
			c.element(place, have.Elements, nil)
		}
	}
	for place, v := range want.Elements {
		c.element(place, have.Elements, &v)
	}
	return c
}

// Apply returns the table after a change, for tests of plans.
func (c *Change) Apply(t Table) Table {
	out := Table{Chains: maps.Clone(t.Chains), Sets: maps.Clone(t.Sets), Elements: maps.Clone(t.Elements)}
	apply(out.Chains, c.chains)
	apply(out.Sets, c.sets)
	apply(out.Elements, c.elements)
	return out
}

func apply[K comparable, T any](m map[K]T, edits map[K]edit[T]) {
	for key, e := range edits {
		if e.after == nil {
			delete(m, key)
		} else {
			m[key] = *e.after
		}
	}
}
