package reconcile_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/reconcile"
)

func namespaceOf(key string) string {
	namespace, _, _ := strings.Cut(key, "/")
	return namespace
}

// all returns the ready keys in order.
func all[K comparable](t *testing.T, q *reconcile.Queue[K]) []K {
	t.Helper()
	var got []K
	for q.Len() > 0 {
		key, err := q.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		q.Done(key)
		got = append(got, key)
	}
	return got
}

func TestPriorities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := reconcile.NewQueue[string](reconcile.Backoff{})
		add := func(key string, priority int) { q.AddWith(key, reconcile.AddOptions{Priority: priority}) }
		add("low", -100)
		add("a", 0)
		add("b", 0)
		add("high", 10)
		add("raised", 0)
		add("raised", 10)
		add("not lowered", 10)
		add("not lowered", -100)
		q.AddWith("later", reconcile.AddOptions{Priority: 20, After: time.Second})
		q.AddWith("later", reconcile.AddOptions{Priority: 5, After: time.Hour})
		time.Sleep(time.Second)
		synctest.Wait()
		want := []string{"later", "high", "raised", "not lowered", "a", "b", "low"}
		if got := all(t, q); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// TestManyPriorities: every priority is a level of its own, even if there are many.
func TestManyPriorities(t *testing.T) {
	q := reconcile.NewQueue[int](reconcile.Backoff{})
	const n = 1000
	for i := range n {
		q.AddWith(i, reconcile.AddOptions{Priority: i * 7919 % n})
	}
	before := n
	for _, key := range all(t, q) {
		if priority := key * 7919 % n; priority >= before {
			t.Fatalf("priority %d came after %d", priority, before)
		} else {
			before = priority
		}
	}
}

// TestPriorityWhileWorking: a key whose priority is raised while it is in progress comes first
// afterwards.
func TestPriorityWhileWorking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := reconcile.NewQueue[int](reconcile.Backoff{})
		q.Add(1)
		if got := get(t, q); got != 1 {
			t.Fatal(got)
		}
		q.Add(2)
		q.Add(1)
		q.AddWith(1, reconcile.AddOptions{Priority: 1})
		q.Done(1)
		if got := all(t, q); !slices.Equal(got, []int{1, 2}) {
			t.Errorf("got %v", got)
		}
	})
}

// TestTenants: a tenant with one key waits at most two rounds behind one with a hundred thousand
// keys of the same priority, whenever its key is added.
func TestTenants(t *testing.T) {
	const many = 100_000
	q := reconcile.NewQueueWith(reconcile.QueueConfig[string]{Tenant: namespaceOf})
	for i := range many {
		q.Add(fmt.Sprintf("big/%d", i))
	}
	next := func() string {
		key, err := q.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		q.Done(key)
		return key
	}
	for range 1000 {
		next()
	}
	q.Add("small/1")
	q.Add("tiny/1")
	q.Add("small/2")
	var got []string
	for range 6 {
		got = append(got, namespaceOf(next()))
	}
	rounds := func(tenant string, nth int) int {
		for i, g := range got {
			if g == tenant {
				if nth--; nth == 0 {
					return i/3 + 1 // there are three tenants to a round
				}
			}
		}
		return many
	}
	if rounds("small", 1) > 2 || rounds("tiny", 1) > 2 || rounds("small", 2) > 3 {
		t.Errorf("the turns were %q", got)
	}
	if rest := len(all(t, q)); rest != many-1000-3 {
		t.Errorf("%d keys are left", rest)
	}
}

// TestBurstIsForgotten: the memory of a million keys is freed when they are done, even if some keys
// remain because they fail.
func TestBurstIsForgotten(t *testing.T) {
	if testing.Short() {
		t.Skip("a million keys")
	}
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	q := reconcile.NewQueueWith(reconcile.QueueConfig[int]{Tenant: func(key int) string { return fmt.Sprint(key % 5000) }})
	for i := range 100 {
		q.Retry(1_000_000 + i)
		q.AddAfter(2_000_000+i, time.Hour)
	}
	before := heap()
	for i := range 1_000_000 {
		q.Add(i)
	}
	full := heap()
	for range 1_000_000 {
		key, err := q.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		q.Done(key)
	}
	after := heap()
	if full < before+50<<20 {
		t.Errorf("a million keys take %d B: that is not measured right", full-before)
	}
	if after > before+1<<20 {
		t.Errorf("%d B are kept after a burst", after-before)
	}
	runtime.KeepAlive(q)
}

// TestNoAllocations: a queue in use does not allocate.
func TestNoAllocations(t *testing.T) {
	keys := make([]string, 512)
	for i := range keys {
		keys[i] = fmt.Sprintf("namespace-%d/name-%d", i%16, i)
	}
	for name, q := range map[string]*reconcile.Queue[string]{
		"plain":   reconcile.NewQueue[string](reconcile.Backoff{Min: time.Hour, Max: time.Hour}),
		"tenants": reconcile.NewQueueWith(reconcile.QueueConfig[string]{Tenant: namespaceOf, Backoff: reconcile.Backoff{Min: time.Hour, Max: time.Hour}}),
	} {
		t.Run(name, func(t *testing.T) {
			round := func() {
				for i, key := range keys {
					q.AddWith(key, reconcile.AddOptions{Priority: i % 3})
				}
				for range keys {
					key, err := q.Get(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					q.Done(key)
					q.Retry(key)
					q.Forget(key)
				}
			}
			round()
			if got := testing.AllocsPerRun(20, round); got > 0 {
				t.Errorf("%v allocations for %d keys", got, len(keys))
			}
		})
	}
}

func TestHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var got []string
		tell := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, what)
		}
		q := reconcile.NewQueueWith(reconcile.QueueConfig[int]{Hooks: reconcile.QueueHooks{
			Added:    func() { tell("added") },
			Retried:  func() { tell("retried") },
			Got:      func(d time.Duration) { tell("got after " + d.String()) },
			Finished: func(d time.Duration) { tell("finished after " + d.String()) },
		}})
		q.Add(1)
		q.Add(1) // a duplicate
		time.Sleep(time.Second)
		get(t, q)
		q.Add(1) // not a duplicate: it must be returned again
		q.Retry(2)
		time.Sleep(2 * time.Second)
		get(t, q) // 2
		if got, want := q.Stats(), (reconcile.QueueStats{Working: 2, Unfinished: 2 * time.Second, Longest: 2 * time.Second}); got != want {
			t.Errorf("stats are %+v, want %+v", got, want)
		}
		time.Sleep(time.Second)
		q.Done(1)
		q.Done(1) // is not in progress
		q.Done(2)
		q.AddAfter(3, time.Hour)
		if got, want := q.Stats(), (reconcile.QueueStats{Depth: 1, Delayed: 1}); got != want {
			t.Errorf("stats are %+v, want %+v", got, want)
		}
		want := []string{"added", "got after 1s", "added", "retried", "added", "got after 1.995s",
			"finished after 3s", "finished after 1s", "retried"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q\nwant %q", got, want)
		}
	})
}
