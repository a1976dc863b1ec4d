package informer_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/informer"
)

// follower rebuilds the cache from the calls of a handler and fails the test if a call does not
// follow from the previous ones.
type follower struct {
	t     *testing.T
	inf   *informer.Informer[*object]
	mu    sync.Mutex
	state map[string]*object
	// delay is the duration of each call; the checks come after it.
	delay time.Duration
	// newest is the newest reported revision of each key.
	newest map[string]int
}

func (f *follower) handle(old, new *object) {
	if f.delay > 0 {
		time.Sleep(f.delay)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case old == nil && new == nil:
		f.t.Errorf("a call about nothing")
	case new == nil:
		if f.state[old.key] != old {
			f.t.Errorf("deleted %v, had %v", old, f.state[old.key])
		}
		delete(f.state, old.key)
	default:
		if f.state[new.key] != old {
			f.t.Errorf("%v became %v, had %v", old, new, f.state[new.key])
		}
		if old != nil && (old.uid != new.uid || old.revision >= new.revision) {
			f.t.Errorf("%v became %v: another object or an older one", old, new)
		}
		if new.revision <= f.newest[new.key] {
			f.t.Errorf("received %v after revision %d", new, f.newest[new.key])
		}
		f.newest[new.key] = new.revision
		f.state[new.key] = new
		if seen, _ := strconv.Atoi(f.inf.Snapshot().Revision()); seen < new.revision {
			f.t.Errorf("received %v while the view is at %d", new, seen)
		}
	}
}

// check compares the follower with the server.
func (f *follower) check(name string, s *server) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.state) != len(s.objects) {
		f.t.Errorf("%s has %d objects, want %d", name, len(f.state), len(s.objects))
	}
	for key, want := range s.objects {
		if got := f.state[key]; got != want {
			f.t.Errorf("%s: %s is %v, want %v", name, key, got, want)
		}
	}
}

// TestModel runs random histories with lost connections, compaction, lagging lists, repeated
// events, and handlers that come and go. It compares views, indexes and handlers with the server.
func TestModel(t *testing.T) {
	for range 40 {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { model(t, seed) })
		})
	}
}

func model(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	s := newServer()
	s.random = rand.New(rand.NewPCG(seed, 2))
	inf := newInformer(t, s)
	groups := informer.NewIndex(inf, func(o *object) []int { return []int{o.group, o.group, 100} })
	single := informer.NewIndex(inf, byGroup)
	spaces := informer.NewIndex(inf, byNamespace)
	var followers []*follower
	subscribe := func() {
		f := &follower{t: t, inf: inf, state: map[string]*object{}, newest: map[string]int{}}
		f.delay = time.Duration(r.IntN(3)*r.IntN(20)) * time.Millisecond
		inf.Subscribe(f.handle)
		followers = append(followers, f)
	}
	subscribe()
	stop := start(t, inf)
	last := 0
	for range 150 {
		switch key := strconv.Itoa(r.IntN(20)); r.IntN(12) {
		case 0, 1, 2, 3, 4:
			s.put(key)
		case 5, 6, 7:
			s.remove(key)
		case 8:
			s.disconnect()
			time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond)
		case 9:
			s.compact()
		case 10:
			if len(followers) < 9 {
				subscribe()
			} else {
				s.elsewhere()
			}
		case 11:
			synctest.Wait()
		}
		view := inf.Snapshot()
		now, _ := strconv.Atoi(view.Revision())
		if now < last {
			t.Fatalf("moved back from %d to %d", last, now)
		}
		last = now
		checkView(t, view, groups)
		checkView(t, view, single)
		if n := spaces.Count(view, ""); n != view.Len() {
			t.Fatalf("%d objects without a namespace, of %d", n, view.Len())
		}
	}
	s.put("last")
	time.Sleep(10 * time.Minute)
	synctest.Wait()
	if got := inf.Snapshot().Len(); got != len(s.objects) {
		t.Errorf("%d objects, want %d", got, len(s.objects))
	}
	for key, want := range s.objects {
		if got, ok := inf.Get(key); !ok || got != want {
			t.Errorf("%s is %v, want %v", key, got, want)
		}
	}
	for i, f := range followers {
		f.check(fmt.Sprintf("handler %d", i), s)
	}
	stop()
}

// checkView checks that all parts of a view are consistent.
func checkView(t *testing.T, view informer.View[*object], groups *informer.Index[int, *object]) {
	t.Helper()
	found, total := map[*object]bool{}, 0
	for g := range 5 {
		for o := range groups.In(view, g) {
			if o.group != g {
				t.Fatalf("%v found under %d, belongs to %d", o, g, o.group)
			}
			found[o] = true
			total++
		}
	}
	if total != view.Len() || len(found) != view.Len() {
		t.Fatalf("index has %d objects, %d different, view has %d", total, len(found), view.Len())
	}
	for o := range view.All() {
		if got, ok := view.Get(o.key); !ok || got != o || !found[o] {
			t.Fatalf("%v: Get finds %v, index %t", o, got, found[o])
		}
		if strconv.Itoa(o.revision) > view.Revision() && len(view.Revision()) == len(strconv.Itoa(o.revision)) {
			t.Fatalf("%v in a view of %s", o, view.Revision())
		}
	}
}
