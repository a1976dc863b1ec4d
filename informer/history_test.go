package informer_test

import (
	"context"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/planekit/planekit/informer"
)

// history is the sequence of changes of a source, one for each revision from 1 on, and a checksum
// of the state after each: the XOR of the objects' hashes, so that any set of objects can be
// compared with it.
type history struct {
	seed    maphash.Seed
	changes []entry
	sums    []uint64
	// begin is closed when the changes may begin.
	begin <-chan struct{}
}

func newHistory(r *rand.Rand, n int) *history {
	h := &history{seed: maphash.MakeSeed(), sums: []uint64{0}}
	state := map[string]*object{}
	for len(h.changes) < n {
		revision := len(h.changes) + 1
		key := fmt.Sprintf("%d/%d", r.IntN(3), r.IntN(60))
		o := &object{key: key, revision: revision, group: r.IntN(5)}
		sum := h.sums[revision-1]
		known := state[key]
		if known != nil {
			sum ^= h.sum(known)
		}
		if removed := known != nil && r.IntN(3) == 0; removed {
			delete(state, key)
			h.changes = append(h.changes, entry{revision, o, true})
		} else {
			state[key] = o
			sum ^= h.sum(o)
			h.changes = append(h.changes, entry{revision, o, false})
		}
		h.sums = append(h.sums, sum)
	}
	return h
}

func (h *history) sum(o *object) uint64 { return maphash.Comparable(h.seed, *o) }

func (h *history) Sync(ctx context.Context, _ string, sink informer.Sink[*object]) error {
	sink.Replace("0", nil)
	<-h.begin
	for _, e := range h.changes {
		if e.revision%20 == 0 {
			runtime.Gosched() // otherwise a few batches would have them all
		}
		if e.removed {
			sink.Remove(strconv.Itoa(e.revision), e.object)
		} else {
			sink.Put(strconv.Itoa(e.revision), e.object)
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

// TestEveryViewIsAPrefixOfTheHistory reads a cache that changes as fast as possible, through
// everything that finds objects. Each reader compares its result with the checksum of the history
// up to the view's revision.
func TestEveryViewIsAPrefixOfTheHistory(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	const changes = 20_000
	h := newHistory(rand.New(rand.NewPCG(seed, 0)), changes)
	inf := newInformer(t, h)
	groups := informer.NewIndex(inf, byGroup)
	spaces := informer.NewIndex(inf, byNamespace)
	both := informer.NewIndex(inf, func(o *object) []int { return []int{o.group, 5 + o.group%2} })

	// A handler receives every prefix, one by one.
	all := make(chan struct{})
	prefix, sum := 0, uint64(0)
	h.begin = inf.Subscribe(func(old, new *object) {
		for _, o := range []*object{old, new} {
			if o != nil {
				sum ^= h.sum(o)
			}
		}
		if prefix++; sum != h.sums[prefix] && !t.Failed() {
			t.Errorf("call %d leads to another state than change %d", prefix, prefix)
		}
		if prefix == changes {
			close(all)
		}
	}).CaughtUp

	var ended atomic.Bool
	var views, newest atomic.Int64 // newest is the newest revision that any reader saw
	var readers sync.WaitGroup
	for n := range 4 {
		readers.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(n+1)))
			last := 0
			for !ended.Load() && !t.Failed() {
				if n == 0 && last < changes {
					// This reader waits for future revisions.
					want := min(last+r.IntN(500), changes)
					if err := inf.WaitFor(t.Context(), strconv.Itoa(want)); err != nil {
						t.Error(err)
					}
					last = want
				}
				// A read sees everything that any earlier read saw.
				last = max(last, int(newest.Load()))
				view := inf.Snapshot()
				now, _ := strconv.Atoi(view.Revision())
				if now < last {
					t.Errorf("revision %d after %d", now, last)
				}
				for seen := newest.Load(); seen < int64(now) && !newest.CompareAndSwap(seen, int64(now)); seen = newest.Load() {
				}
				if now > last {
					views.Add(1) // no reader saw it before
				}
				last = now
				h.checkView(t, view, now, groups, spaces, both)
			}
		})
	}
	stop := start(t, inf)
	<-all
	ended.Store(true)
	readers.Wait()
	stop()
	t.Logf("%d different views of %d changes were checked", views.Load(), changes)
	if views.Load() < 10 {
		t.Error("too few views to tell anything")
	}
}

func (h *history) checkView(t *testing.T, view informer.View[*object], revision int, groups *informer.Index[int, *object],
	spaces *informer.Index[string, *object], both *informer.Index[int, *object]) {
	want := h.sums[revision]
	add := func(what string, visit func(func(*object))) {
		sum := uint64(0)
		visit(func(o *object) {
			sum ^= h.sum(o)
			if got, ok := view.Get(o.key); !ok || got != o {
				t.Errorf("%s has %v where Get finds %v", what, o, got)
			}
		})
		if sum != want {
			t.Errorf("%s at revision %d is not the state then", what, revision)
		}
	}
	add("All", func(each func(*object)) {
		for o := range view.All() {
			each(o)
		}
	})
	add("an index", func(each func(*object)) {
		for group := range groups.Keys(view) {
			for o := range groups.In(view, group) {
				each(o)
			}
		}
	})
	add("the namespaces", func(each func(*object)) {
		for space := range spaces.Keys(view) {
			for o := range spaces.In(view, space) {
				each(o)
			}
		}
	})
	add("an index of many keys", func(each func(*object)) {
		for _, key := range []int{5, 6} {
			for o := range both.In(view, key) {
				each(o)
			}
		}
	})
}
