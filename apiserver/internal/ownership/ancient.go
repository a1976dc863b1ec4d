package ownership

import (
	"cmp"
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxUpdaters is the maximum number of entries of updates of an object. Beyond it, the oldest are
// merged into one.
const maxUpdaters = 10

// ancientChanges is the manager of the merged entry.
const ancientChanges = "ancient-changes"

// mergeAncient merges the oldest entries of updates until there are at most maxUpdaters.
func (t *Tracker) mergeAncient(d *diff, owners []owner) []owner {
	ids := updaters(owners)
	left := len(ids)
	if left <= maxUpdaters {
		return owners
	}
	slices.SortFunc(ids, func(a, b *aged) int { return cmp.Or(cmp.Compare(a.seconds, b.seconds), cmp.Compare(a.id, b.id)) })
	bucket := owner{ManagedFieldsEntry: metav1.ManagedFieldsEntry{
		Manager: ancientChanges, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: t.version,
	}}
	first := &ids[0].owner
	for i := 1; left > maxUpdaters; i++ {
		one := &ids[i].owner
		into := slices.IndexFunc(owners, func(o owner) bool { return o.same(&bucket) })
		if into < 0 { // the oldest of all becomes it
			into = slices.IndexFunc(owners, func(o owner) bool { return o.same(first) })
			owners[into].Manager, owners[into].Subresource = ancientChanges, ""
		}
		b := &owners[into]
		b.known = t.learn(d, unite(nil, one.paths, b.paths))
		b.Time = one.Time
		owners = slices.DeleteFunc(owners, func(o owner) bool { return o.same(one) })
		left--
	}
	return owners
}

// aged is an entry of an update with the key that orders entries of the same time.
type aged struct {
	owner
	seconds int64
	id      string
}

func updaters(owners []owner) []*aged {
	n := 0
	for i := range owners {
		if owners[i].Operation == metav1.ManagedFieldsOperationUpdate {
			n++
		}
	}
	if n <= maxUpdaters {
		return nil
	}
	out := make([]*aged, 0, n)
	for i := range owners {
		if o := &owners[i]; o.Operation == metav1.ManagedFieldsOperationUpdate {
			out = append(out, &aged{*o, seconds(o.Time), o.id()})
		}
	}
	return out
}

// id returns the name of an owner that apimachinery uses.
func (o *owner) id() string {
	named := metav1.ManagedFieldsEntry{Manager: o.Manager, Operation: o.Operation, APIVersion: o.APIVersion, Subresource: o.Subresource}
	text, err := json.Marshal(&named)
	if err != nil {
		return "" // strings are always written
	}
	return string(text)
}
