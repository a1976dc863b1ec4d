package ruleset_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/service/ruleset"
)

// memory is a table without a kernel, which fails and is changed by another program at random.
type memory struct {
	table      ruleset.Table
	generation uint32
	r          *rand.Rand
	fails      bool
}

var errAsked = errors.New("as asked")

func (m *memory) Apply(_ context.Context, c *ruleset.Change) (uint32, error) {
	if m.fails && m.r.IntN(3) == 0 {
		return 0, errAsked
	}
	m.table = c.Apply(m.table)
	m.generation++
	return 1, nil
}

func (m *memory) Read(context.Context, ruleset.Table) (ruleset.Table, error) {
	if m.fails && m.r.IntN(5) == 0 {
		return ruleset.Table{}, []error{errAsked, ruleset.ErrDamaged}[m.r.IntN(2)]
	}
	return (&ruleset.Change{}).Apply(m.table), nil
}

func (m *memory) Rebuild(ctx context.Context, want ruleset.Table) error {
	if m.fails && m.r.IntN(3) == 0 {
		return errAsked
	}
	m.table = ruleset.Diff(ruleset.Table{}, want).Apply(empty())
	m.generation++
	return nil
}

func (m *memory) Generation(context.Context) (uint32, error) {
	if m.fails && m.r.IntN(5) == 0 {
		return 0, errAsked
	}
	return m.generation, nil
}

func (m *memory) Sweep(context.Context) (uint32, error) { return 0, nil }

func empty() ruleset.Table {
	return ruleset.Table{Chains: map[string]ruleset.Chain{}, Sets: map[string]ruleset.Set{}, Elements: map[ruleset.Place]ruleset.Verdict{}}
}

func fragment(r *rand.Rand, owner string) ruleset.Fragment {
	f := ruleset.Fragment{Chains: map[string]ruleset.Chain{}, Elements: map[ruleset.Place]ruleset.Verdict{}}
	for i := range r.IntN(3) {
		f.Chains[fmt.Sprint(owner, i)] = ruleset.Chain{Rules: []ruleset.Rule{ruleset.NewRule("", ruleset.OfConnection{Protocol: ruleset.Protocol(r.IntN(3))})}}
	}
	for range r.IntN(4) {
		f.Elements[ruleset.Place{Set: "s", Key: ruleset.KeyOf(uint16(r.IntN(5)))}] = ruleset.Verdict(fmt.Sprint("goto ", owner))
	}
	return f
}

// With a target that fails and that another program changes, the table becomes that of the model as soon as the
// target works.
func TestKeeperRepairs(t *testing.T) {
	ctx := t.Context()
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 2))
		target := &memory{table: empty(), r: r}
		k := ruleset.NewKeeper(target, logr.Discard())
		touched := false // by another program, which a commit does not look for
		for range 30 {
			target.fails = r.IntN(2) == 0
			var c ruleset.Change
			for range r.IntN(3) {
				owner := string(rune('a' + r.IntN(4)))
				k.Model.Put(owner, owner, fragment(r, owner), &c)
			}
			err := k.Commit(ctx, &c)
			if err != nil && !errors.Is(err, errAsked) {
				t.Fatal(err)
			}
			if have, want := target.table.String(), k.Model.Table().String(); err == nil && !touched && have != want {
				t.Fatalf("seed %d: after a commit the table is\n%s\nwant\n%s", seed, have, want)
			}
			if r.IntN(3) == 0 { // another program
				other := ruleset.NewModel()
				var c ruleset.Change
				other.Put("x", "", fragment(r, "x"), &c)
				target.table = c.Apply(target.table)
				target.generation++
				touched = true
			}
		}
		target.fails = false
		for range 2 { // comparisons are bounded in time, and the first may be left out
			if err := k.Commit(ctx, &ruleset.Change{}); err != nil {
				t.Fatal(err)
			}
			for {
				if _, err := k.Check(ctx); err != nil {
					t.Fatal(err)
				}
				if target.table.String() == k.Model.Table().String() {
					break
				}
			}
		}
	}
}

func TestRankDecides(t *testing.T) {
	m := ruleset.NewModel()
	place := ruleset.Place{Set: "s", Key: ruleset.KeyOf(uint16(1))}
	put := func(owner, rank string, verdict ruleset.Verdict) []ruleset.Conflict {
		f := ruleset.Fragment{}
		if verdict != "" {
			f.Elements = map[ruleset.Place]ruleset.Verdict{place: verdict}
		}
		return m.Put(owner, rank, f, &ruleset.Change{})
	}
	put("young", "2", "goto young")
	put("old", "1", "goto old")
	if v := m.Table().Elements[place]; v != "goto old" {
		t.Errorf("the older owner does not have its element: %s", v)
	}
	if c := put("young", "2", "drop"); len(c) != 1 || c[0].Winner != "old" {
		t.Errorf("conflicts %v", c)
	}
	put("old", "1", "")
	if v := m.Table().Elements[place]; v != "drop" {
		t.Errorf("the element that was released is %q", v)
	}
	put("young", "2", "")
	if len(m.Table().Elements) != 0 {
		t.Errorf("elements %v", m.Table().Elements)
	}
}
