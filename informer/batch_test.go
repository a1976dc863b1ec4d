package informer

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

// item is an object in which every part can change.
type item struct {
	key, uid        string
	group, revision int
}

// batches stores random batches in an informer, without its goroutines, and has a model of the
// result.
type batches struct {
	t     *testing.T
	r     *rand.Rand
	inf   *Informer[*item]
	space *Index[string, *item]
	group *Index[int, *item]
	many  *Index[int, *item]
	// model holds the objects that the source reported, received those that a handler received.
	model, received map[string]*item
	revision        int
	next            *entry[*item]
}

func newBatches(t *testing.T, r *rand.Rand) *batches {
	inf, err := New(Config[*item]{
		Source:   never{},
		Key:      func(i *item) string { return i.key },
		Revision: func(i *item) string { return strconv.Itoa(i.revision) },
		UID:      func(i *item) string { return i.uid },
	})
	if err != nil {
		t.Fatal(err)
	}
	return &batches{
		t: t, r: r, inf: inf, model: map[string]*item{}, received: map[string]*item{}, next: inf.current.Load().next,
		space: NewIndex(inf, func(i *item) []string { return []string{i.key[:1]} }),
		group: NewIndex(inf, func(i *item) []int { return []int{i.group} }),
		many:  NewIndex(inf, func(i *item) []int { return []int{i.group, 10 + i.group%2} }),
	}
}

// object returns a new state of one of a few keys, mostly of the object with that key.
func (b *batches) object(keys int) *item {
	b.revision++
	i := &item{key: fmt.Sprintf("%d/%d", b.r.IntN(3), b.r.IntN(keys)), revision: b.revision, group: b.r.IntN(4), uid: strconv.Itoa(b.revision)}
	if known := b.model[i.key]; known != nil && b.r.IntN(4) > 0 {
		i.uid = known.uid
		if b.r.IntN(2) == 0 {
			i.group = known.group
		}
	}
	return i
}

// batch returns n changes, which the model applies one by one.
func (b *batches) batch(n, keys int) []op[*item] {
	ops := make([]op[*item], n)
	for j := range ops {
		i := b.object(keys)
		o := op[*item]{opPut, strconv.Itoa(b.revision), i}
		switch b.r.IntN(8) {
		case 0, 1:
			o.kind = opRemove
			delete(b.model, i.key)
		case 2:
			o = op[*item]{kind: opBookmark, revision: o.revision}
		case 3:
			// This change is long outdated.
			o.revision = "0"
		case 4:
			// This object is no newer than the one in the cache.
			if known := b.model[i.key]; known != nil {
				i.revision = known.revision
				break
			}
			fallthrough
		default:
			b.model[i.key] = i
		}
		ops[j] = o
	}
	return ops
}

// list replaces all objects.
func (b *batches) list(n, keys int) {
	old := b.model
	b.model = map[string]*item{}
	for range n {
		if i := b.object(keys); old[i.key] != nil && b.r.IntN(2) == 0 {
			b.model[i.key] = old[i.key]
		} else {
			b.model[i.key] = i
		}
	}
	b.inf.writer.Replace(strconv.Itoa(b.revision), slices.Collect(maps.Values(b.model)))
}

// check compares the view, its indexes and the log with the model.
func (b *batches) check() {
	t, view := b.t, b.inf.Snapshot()
	t.Helper()
	if view.Len() != len(b.model) {
		t.Fatalf("%d objects, want %d", view.Len(), len(b.model))
	}
	groups, spaces, many := map[int]int{}, map[string]int{}, map[int]int{}
	for key, want := range b.model {
		if got, ok := view.Get(key); !ok || got != want {
			t.Fatalf("%s is %v, want %v", key, got, want)
		}
		groups[want.group]++
		spaces[key[:1]]++
		many[want.group]++
		many[10+want.group%2]++
	}
	checkIndex(t, view, b.group, groups, func(i *item) []int { return []int{i.group} })
	checkIndex(t, view, b.space, spaces, func(i *item) []string { return []string{i.key[:1]} })
	checkIndex(t, view, b.many, many, func(i *item) []int { return []int{i.group, 10 + i.group%2} })
	for ; b.next != b.inf.current.Load().next; b.next = b.next.next {
		for _, e := range b.next.events {
			b.tell(e)
		}
	}
	if !maps.Equal(b.received, b.model) {
		t.Fatalf("the events lead to %v, want %v", b.received, b.model)
	}
}

func checkIndex[K comparable](t *testing.T, view View[*item], x *Index[K, *item], want map[K]int, keys func(*item) []K) {
	t.Helper()
	got := map[K]int{}
	for key := range x.Keys(view) {
		for i := range x.In(view, key) {
			if now, _ := view.Get(i.key); now != i || !slices.Contains(keys(i), key) {
				t.Fatalf("%v found under %v, the view has %v", i, key, now)
			}
			got[key]++
		}
	}
	if !maps.Equal(got, want) {
		t.Fatalf("index has %v, want %v", got, want)
	}
}

func (b *batches) tell(e event[*item]) {
	object := e.new
	if object == nil {
		object = e.old
	}
	if known := b.received[object.key]; known != e.old {
		b.t.Fatalf("received that %v became %v, which was %v", e.old, e.new, known)
	}
	if e.old != nil && e.new != nil && (e.old.uid != e.new.uid || e.old.revision >= e.new.revision) {
		b.t.Fatalf("%v became %v", e.old, e.new)
	}
	if delete(b.received, object.key); e.new != nil {
		b.received[object.key] = e.new
	}
}

// TestBatches stores batches and lists in which the same few keys are added, changed, removed and
// added again.
func TestBatches(t *testing.T) {
	for _, keys := range []int{1, 5, 200} {
		t.Run(fmt.Sprintf("keys=%d", keys), func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			r := rand.New(rand.NewPCG(seed, 0))
			b := newBatches(t, r)
			b.list(keys, keys)
			b.check()
			for range 300 {
				if r.IntN(20) == 0 {
					b.list(r.IntN(3*keys), keys)
				} else {
					b.inf.writer.store(b.batch(1+r.IntN(1+r.IntN(256)), keys))
				}
				if r.IntN(3) > 0 { // a published root may be read much later
					b.check()
				}
			}
			b.check()
		})
	}
}

// TestListRemovesAtOnce stores a list that lacks most objects: the root with the list has no
// others.
func TestListRemovesAtOnce(t *testing.T) {
	for _, n := range []int{1, pageSize - 1, pageSize, pageSize + 1, 10*pageSize + 3} {
		b := newBatches(t, rand.New(rand.NewPCG(1, 1)))
		all := make([]*item, n+1)
		for i := range all {
			all[i] = &item{key: fmt.Sprintf("0/%d", i), revision: i + 1}
			b.model[all[i].key] = all[i]
		}
		b.inf.writer.Replace(strconv.Itoa(n+1), all)
		b.check()
		b.model = map[string]*item{all[n].key: all[n]}
		b.inf.writer.Replace(strconv.Itoa(n+2), all[n:])
		b.check()
	}
}

// never is a source that reports nothing.
type never struct{}

func (never) Sync(ctx context.Context, _ string, _ Sink[*item]) error {
	<-ctx.Done()
	return ctx.Err()
}
