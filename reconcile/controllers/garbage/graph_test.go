package garbage

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestUIDTable compares a table with a map through growth and shrinking.
func TestUIDTable(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	uid := func(n int32) types.UID { return types.UID(fmt.Sprint("uid-", n)) }
	table, model := newUIDTable(uid), map[int32]bool{}
	for step := range 60_000 {
		// Up to some thousands, down to none, and again.
		n := 1 + random.Int32N(4000)
		if growing := step/15_000%2 == 0; growing != (random.IntN(5) == 0) {
			if !model[n] {
				table.add(n)
				model[n] = true
			}
		} else if model[n] {
			table.remove(n)
			delete(model, n)
		}
		probe := 1 + random.Int32N(4000)
		if got := table.find(uid(probe)); (got == probe) != model[probe] || got != 0 && got != probe {
			t.Fatalf("step %d: find %d: %d, in the model %v", step, probe, got, model[probe])
		}
	}
	if table.used != len(model) {
		t.Errorf("%d used, %d in the model", table.used, len(model))
	}
	for n := range maps.Clone(model) {
		table.remove(n)
	}
	if table.used != 0 || len(table.slots) > 2*smallestTable {
		t.Errorf("empty, it has %d slots, %d used", len(table.slots), table.used)
	}
}

// naiveGraph is the plainest implementation of graph.
type naiveGraph map[types.UID]*metav1.PartialObjectMetadata

func (g naiveGraph) owned(uid types.UID) (list []types.UID) {
	for _, o := range g {
		if slices.ContainsFunc(o.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == uid }) {
			list = append(list, o.UID)
		}
	}
	slices.Sort(list)
	return list
}

func (g naiveGraph) waits(uid types.UID) bool {
	o := g[uid]
	return o != nil && o.DeletionTimestamp != nil && slices.Contains(o.Finalizers, metav1.FinalizerDeleteDependents)
}

// waitingOwners are the owners of uid that wait for it to go.
func (g naiveGraph) waitingOwners(uid types.UID) (list []types.UID) {
	if g[uid] == nil {
		return nil
	}
	for _, r := range g[uid].OwnerReferences {
		if r.UID != uid && g.waits(r.UID) {
			list = append(list, r.UID)
		}
	}
	return list
}

// hasWork reports whether anything is to be done about uid.
func (g naiveGraph) hasWork(uid types.UID) bool {
	o := g[uid]
	if o.DeletionTimestamp != nil {
		return len(o.Finalizers) > 0
	}
	return slices.ContainsFunc(o.OwnerReferences, func(r metav1.OwnerReference) bool { return g[r.UID] == nil || g.waits(r.UID) })
}

// TestGraph makes random histories of objects and compares the graph with the plainest one. An
// object that a change gives work must be enqueued by that change.
func TestGraph(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	enqueued := map[types.UID]bool{}
	g := newGraph(func(uid types.UID) { enqueued[uid] = true }, func(node, *metav1.OwnerReference, node) bool { return true })
	model := naiveGraph{}
	uid := func() types.UID { return types.UID(fmt.Sprint(random.IntN(40))) }
	for step := range 20_000 {
		id := uid()
		before := model[id]
		worked := map[types.UID]bool{}
		for other := range model {
			worked[other] = model.hasWork(other)
		}
		clear(enqueued)
		blocked := model.waitingOwners(id)
		var old, new metav1.Object
		if before != nil {
			old = before
		}
		if before == nil || random.IntN(3) > 0 {
			o := randomVertex(random, id, before, uid)
			model[id], new = o, o
		} else {
			delete(model, id)
		}
		g.change(0, old, new)
		for other := range model {
			if model.hasWork(other) && !worked[other] && !enqueued[other] {
				t.Fatalf("step %d: %s has work since %s changed, and was not enqueued", step, other, id)
			}
		}
		for _, owner := range append(blocked, model.waitingOwners(id)...) {
			if !enqueued[owner] {
				t.Fatalf("step %d: %s waits for what it owns, such as %s, which changed: it was not enqueued", step, owner, id)
			}
		}
		compareGraph(t, step, g, model)
	}
	for id, o := range model {
		g.change(0, o, nil)
		delete(model, id)
	}
	if g.numbers.used != 0 {
		t.Errorf("%d vertices are left of nothing", g.numbers.used)
	}
}

func randomVertex(random *rand.Rand, id types.UID, before *metav1.PartialObjectMetadata, uid func() types.UID) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: id}}
	if before != nil {
		o = before.DeepCopy()
	}
	switch random.IntN(4) {
	case 0:
		now := metav1.Now()
		o.DeletionTimestamp = &now
		o.Finalizers = []string{[]string{metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents}[random.IntN(2)]}
	case 1:
		o.Finalizers = nil
	default:
		o.OwnerReferences = nil
		for range random.IntN(4) {
			o.OwnerReferences = append(o.OwnerReferences, metav1.OwnerReference{UID: uid()})
		}
	}
	return o
}

func compareGraph(t *testing.T, step int, g *graph, model naiveGraph) {
	t.Helper()
	for i := range 40 {
		id := types.UID(fmt.Sprint(i))
		n, ok := g.object(id)
		if ok != (model[id] != nil) || ok && n.object != metav1.Object(model[id]) {
			t.Fatalf("step %d: %s is there: %v, in the model %v", step, id, ok, model[id] != nil)
		}
		var got []types.UID
		for _, n := range g.owned(id) {
			got = append(got, n.object.GetUID())
		}
		slices.Sort(got)
		if want := model.owned(id); !slices.Equal(got, want) {
			t.Fatalf("step %d: %s owns %v, want %v", step, id, got, want)
		}
	}
}

func TestRecentSet(t *testing.T) {
	var r recentSet[types.UID]
	for i := range 3 * mostRecent {
		if first, second := r.add(types.UID(fmt.Sprint(i))), r.add(types.UID(fmt.Sprint(i))); !first || second {
			t.Fatalf("%d was added: %t, %t", i, first, second)
		}
	}
	if !r.has(types.UID(fmt.Sprint(2*mostRecent))) || !r.has(types.UID(fmt.Sprint(3*mostRecent-1))) {
		t.Error("forgot a recent one")
	}
	if r.has(types.UID(fmt.Sprint(2*mostRecent-1))) || len(r.known) != mostRecent {
		t.Errorf("remembers %d", len(r.known))
	}
}
