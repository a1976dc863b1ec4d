package reconcile_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
)

type lamp struct{ name, room string }

// newLamps returns an unsynced cache of lamps.
func newLamps() *localcache.Map[*lamp] {
	return localcache.NewUnsynced(func(l *lamp) string { return l.name })
}

// TestWatch: no call is made before all caches are synced. Then changes enqueue their keys. After
// Run no subscription remains.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []string
		c := newController(t, reconcile.Config[string]{Workers: 1, Reconcile: func(_ context.Context, key string) (reconcile.Result, error) {
			calls = append(calls, key)
			return reconcile.Result{}, nil
		}})
		lamps, others := newLamps(), newLamps()
		reconcile.Watch(c, lamps, reconcile.Itself(func(l *lamp) string { return l.name }))
		reconcile.Watch(c, others, reconcile.Owners(func(l *lamp) []string { return []string{"room " + l.room} }))
		reconcile.Watch(c, others, func(old, new *lamp) iter.Seq[string] { return slices.Values([]string{"every"}) })
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- c.Run(ctx) }()
		step := func(want ...string) {
			t.Helper()
			synctest.Wait()
			slices.Sort(calls)
			if !slices.Equal(calls, want) {
				t.Errorf("calls for %q, want %q", calls, want)
			}
			calls = nil
		}
		synctest.Wait()
		lamps.Put(&lamp{name: "a"})
		lamps.Sync()
		step()
		others.Sync()
		step("a")
		lamps.Put(&lamp{name: "a"})
		step("a")
		lamps.Delete("a")
		step("a")
		others.Put(&lamp{room: "1"})
		step("every", "room 1")
		others.Put(&lamp{room: "2"})
		step("every", "room 1", "room 2")
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if lamps.Subscriptions()+others.Subscriptions() > 0 {
			t.Error("it is subscribed still")
		}
	})
}

// TestWatchFunc checks that the handler sees the changes and that its keys are called, and that
// Running brackets Run.
func TestWatchFunc(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var calls []string
		running := false
		state := func() (string, bool) {
			mu.Lock()
			defer mu.Unlock()
			return strings.Join(calls, " "), running
		}
		set := func(is bool) {
			mu.Lock()
			defer mu.Unlock()
			running = is
		}
		c := newController(t, reconcile.Config[string]{
			Workers: 1,
			Reconcile: func(_ context.Context, key string) (reconcile.Result, error) {
				mu.Lock()
				defer mu.Unlock()
				calls = append(calls, key)
				return reconcile.Result{}, nil
			},
			Hooks: reconcile.Hooks{Running: func() func() {
				set(true)
				return func() { set(false) }
			}},
		})
		lamps := newLamps()
		reconcile.WatchFunc(c, lamps, func(_, new *lamp) { c.EnqueueAfter(new.name, time.Second) })
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- c.Run(ctx) }()
		lamps.Put(&lamp{name: "a"})
		lamps.Sync()
		synctest.Wait()
		if calls, running := state(); calls != "" || !running {
			t.Errorf("calls for %q, running %v", calls, running)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if calls, _ := state(); calls != "a" {
			t.Errorf("calls for %q", calls)
		}
		cancel()
		err := <-ended
		if _, running := state(); err != nil || running || lamps.Subscriptions() > 0 {
			t.Errorf("%v, running %v, %d subscriptions", err, running, lamps.Subscriptions())
		}
	})
}

// TestOwners: each owner of the old and the new object is returned once.
func TestOwners(t *testing.T) {
	keys := reconcile.Owners(func(l *lamp) []string { return []string{l.room, l.name, l.room} })
	for want, change := range map[string][2]*lamp{
		"": {nil, nil}, "1,a": {nil, {"a", "1"}}, "2,b": {{"b", "2"}, nil}, "1,a,2": {{"a", "1"}, {"a", "2"}},
	} {
		if got := strings.Join(slices.Collect(keys(change[0], change[1])), ","); got != want {
			t.Errorf("%v becomes %v: %q, want %q", change[0], change[1], got, want)
		}
	}
}

func TestWatchEndsBeforeSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newController(t, reconcile.Config[string]{Reconcile: func(context.Context, string) (reconcile.Result, error) {
			t.Error("called")
			return reconcile.Result{}, nil
		}})
		lamps := newLamps()
		reconcile.Watch(c, lamps, reconcile.Itself(func(l *lamp) string { return l.name }))
		c.Enqueue("a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Run(ctx); err != nil || lamps.Subscriptions() > 0 {
			t.Error(err, lamps.Subscriptions())
		}
	})
}

// TestWatchWaitsForHandlers checks that nothing is reconciled before a handler has seen every first
// object of its cache, even if the cache has them.
func TestWatchWaitsForHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen atomic.Int64
		c := newController(t, reconcile.Config[string]{Reconcile: func(context.Context, string) (reconcile.Result, error) {
			if n := seen.Load(); n != 2 {
				t.Errorf("called when the handler had seen %d of 2", n)
			}
			return reconcile.Result{}, nil
		}})
		lamps := newLamps()
		lamps.Put(&lamp{name: "a"})
		lamps.Put(&lamp{name: "b"})
		lamps.Sync()
		reconcile.WatchFunc(c, slowly{lamps}, func(_, new *lamp) {
			c.Enqueue(new.name)
			seen.Add(1)
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := c.Run(ctx); err != nil || seen.Load() != 2 {
			t.Error(err, seen.Load())
		}
	})
}

// slowly tells handlers about one object a second.
type slowly struct{ *localcache.Map[*lamp] }

func (s slowly) Subscribe(handle func(old, new *lamp)) localcache.Subscription {
	caughtUp := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		defer close(caughtUp)
		for l := range s.All() {
			time.Sleep(time.Second)
			handle(nil, l)
		}
	})
	return localcache.Subscription{Stop: group.Wait, CaughtUp: caughtUp}
}

// TestResultPriority: a failed key keeps its priority. A result can change it, with a time, with
// backoff, or with an error.
func TestResultPriority(t *testing.T) {
	for name, raise := range map[string]struct {
		reconcile.Result
		err error
	}{
		"after":   {reconcile.Result{After: 500 * time.Millisecond, Priority: 9}, nil},
		"requeue": {reconcile.Result{Requeue: true, Priority: 9}, nil},
		"error":   {reconcile.Result{Priority: 9}, errors.New("no")},
	} {
		t.Run(name, func(t *testing.T) { resultPriority(t, raise.Result, raise.err) })
	}
}

func resultPriority(t *testing.T, raised reconcile.Result, err error) {
	synctest.Test(t, func(t *testing.T) {
		var calls []string
		failed := false
		c := newController(t, reconcile.Config[string]{Workers: 1, Reconcile: func(_ context.Context, key string) (reconcile.Result, error) {
			calls = append(calls, key)
			switch {
			case key == "busy":
				time.Sleep(time.Second) // the other keys become due in this time
			case key == "urgent" && !failed:
				failed = true
				return reconcile.Result{}, errors.New("no")
			case key == "raised" && len(calls) < 4:
				return raised, err
			}
			return reconcile.Result{}, nil
		}})
		c.EnqueueWith("urgent", reconcile.AddOptions{Priority: 5})
		c.EnqueueWith("raised", reconcile.AddOptions{Priority: 4})
		c.EnqueueWith("busy", reconcile.AddOptions{Priority: 3})
		c.Enqueue("plain")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := c.Run(ctx); err != nil {
			t.Error(err)
		}
		if want := []string{"urgent", "raised", "busy", "raised", "urgent", "plain"}; !slices.Equal(calls, want) {
			t.Errorf("calls for %q, want %q", calls, want)
		}
	})
}

func TestControllerHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		began, ended := 0, map[reconcile.Outcome]time.Duration{}
		c := newController(t, reconcile.Config[string]{
			Queue: reconcile.NewQueue[string](reconcile.Backoff{Min: time.Hour, Max: time.Hour}),
			Hooks: reconcile.Hooks{
				Began: func() { mu.Lock(); began++; mu.Unlock() },
				Ended: func(how reconcile.Outcome, took time.Duration) { mu.Lock(); ended[how] += took; mu.Unlock() },
			},
			Reconcile: func(_ context.Context, key string) (reconcile.Result, error) {
				time.Sleep(time.Second)
				switch reconcile.Outcome(key) {
				case reconcile.Failure:
					return reconcile.Result{}, errors.New("no")
				case reconcile.Panic:
					panic("oh")
				case reconcile.Requeue:
					return reconcile.Result{Requeue: true}, nil
				case reconcile.RequeueAfter:
					return reconcile.Result{After: time.Hour}, nil
				}
				return reconcile.Result{}, nil
			}})
		kinds := []reconcile.Outcome{reconcile.Success, reconcile.Failure, reconcile.Panic, reconcile.Requeue, reconcile.RequeueAfter}
		for _, how := range kinds {
			c.Enqueue(string(how))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := c.Run(ctx); err != nil {
			t.Error(err)
		}
		for _, how := range kinds {
			if ended[how] != time.Second {
				t.Errorf("%s: %v, want 1s", how, ended[how])
			}
		}
		if began != len(kinds) {
			t.Errorf("%d calls began", began)
		}
	})
}

// TestWatchLogsUnsyncedCaches checks that Run logs the type of a cache that does not sync within 5
// seconds, and not of one that is synced.
func TestWatchLogsUnsyncedCaches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var logged []string
		lines := func() []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(logged)
		}
		c := newController(t, reconcile.Config[string]{
			Reconcile: func(context.Context, string) (reconcile.Result, error) { return reconcile.Result{}, nil },
			Log: funcr.New(func(_, line string) {
				mu.Lock()
				defer mu.Unlock()
				logged = append(logged, line)
			}, funcr.Options{}),
		})
		synced, unsynced := newLamps(), newLamps()
		synced.Sync()
		for _, cache := range []*localcache.Map[*lamp]{synced, unsynced} {
			reconcile.Watch(c, cache, reconcile.Itself(func(l *lamp) string { return l.name }))
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- c.Run(ctx) }()
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if lines := lines(); len(lines) > 0 {
			t.Errorf("logged too early: %q", lines)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if lines := lines(); len(lines) != 1 || !strings.Contains(lines[0], "*localcache.Map[") || !strings.Contains(lines[0], `"controller"`) {
			t.Errorf("logged %q", lines)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
