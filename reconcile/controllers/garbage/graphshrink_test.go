package garbage

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestGraphShrinks has far more objects with owners than there are at last, twice: the graph must be as small
// as what is left, and know of that what it knew.
func TestGraphShrinks(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	g := newGraph(func(types.UID) {}, func(node, *metav1.OwnerReference, node) bool { return true })
	model := naiveGraph{}
	var uids []types.UID
	for round := range 2 {
		for i := range 20_000 {
			o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprintf("uid-%d-%d", round, i))}}
			for range random.IntN(4) {
				owner := types.UID(fmt.Sprintf("uid-%d-%d", round, random.IntN(20_000))) // perhaps one that never is
				if len(uids) > 0 && random.IntN(3) > 0 {
					owner = uids[random.IntN(len(uids))]
				}
				o.OwnerReferences = append(o.OwnerReferences, metav1.OwnerReference{UID: owner})
			}
			uids = append(uids, o.UID)
			model[o.UID] = o
			g.change(0, nil, o)
		}
		random.Shuffle(len(uids), func(i, j int) { uids[i], uids[j] = uids[j], uids[i] })
		const left = 300
		for _, uid := range uids[left:] {
			o := model[uid]
			delete(model, uid)
			g.change(0, o, nil)
		}
		uids = uids[:left]
		// A vertex for each that is left and each owner that it names.
		if n, most := len(g.vertices), 8*(1+3)*left; n > most || len(g.edges) > most {
			t.Errorf("%d vertices and %d edges for %d objects", n, len(g.edges), left)
		}
		for _, o := range model {
			if n, ok := g.object(o.UID); !ok || n.object != metav1.Object(o) {
				t.Fatalf("%s is %v, want %v", o.UID, n.object, o)
			}
			for _, r := range append(o.OwnerReferences, metav1.OwnerReference{UID: o.UID}) {
				var owned []types.UID
				for _, n := range g.owned(r.UID) {
					owned = append(owned, n.object.GetUID())
				}
				slices.Sort(owned)
				if want := model.owned(r.UID); !slices.Equal(owned, want) {
					t.Fatalf("%s owns %v, want %v", r.UID, owned, want)
				}
			}
		}
	}
	for _, o := range model {
		g.change(0, o, nil)
	}
	if g.numbers.used != 0 {
		t.Errorf("%d vertices are left of nothing", g.numbers.used)
	}
}
