package reconcile_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/planekit/planekit/reconcile"
)

func newController(t *testing.T, config reconcile.Config[string]) *reconcile.Controller[string] {
	t.Helper()
	config.Name = "test"
	c, err := reconcile.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestControllerConfig(t *testing.T) {
	nothing := func(context.Context, string) (reconcile.Result, error) { return reconcile.Result{}, nil }
	for name, config := range map[string]reconcile.Config[string]{
		"no name":          {Reconcile: nothing},
		"no reconcile":     {Name: "x"},
		"negative workers": {Name: "x", Reconcile: nothing, Workers: -1},
		"negative drain":   {Name: "x", Reconcile: nothing, Drain: -1},
	} {
		if _, err := reconcile.New(config); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestOutcomes measures when the next call follows each kind of outcome.
func TestOutcomes(t *testing.T) {
	ms := time.Millisecond
	for name, test := range map[string]struct {
		call func() (reconcile.Result, error)
		want []time.Duration
	}{
		"error":   {func() (reconcile.Result, error) { return reconcile.Result{}, errors.New("no") }, []time.Duration{0, 5 * ms, 15 * ms, 35 * ms}},
		"panic":   {func() (reconcile.Result, error) { panic("oh") }, []time.Duration{0, 5 * ms, 15 * ms, 35 * ms}},
		"requeue": {func() (reconcile.Result, error) { return reconcile.Result{Requeue: true}, nil }, []time.Duration{0, 5 * ms, 15 * ms, 35 * ms}},
		"after":   {func() (reconcile.Result, error) { return reconcile.Result{After: 20 * ms}, nil }, []time.Duration{0, 20 * ms, 40 * ms, 60 * ms}},
		"both":    {func() (reconcile.Result, error) { return reconcile.Result{Requeue: true, After: 20 * ms}, nil }, []time.Duration{0, 20 * ms, 40 * ms, 60 * ms}},
		"success": {func() (reconcile.Result, error) { return reconcile.Result{}, nil }, []time.Duration{0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var calls []time.Duration
				c := newController(t, reconcile.Config[string]{Reconcile: func(context.Context, string) (reconcile.Result, error) {
					calls = append(calls, time.Since(start))
					return test.call()
				}})
				c.Enqueue("a")
				ctx, cancel := context.WithTimeout(t.Context(), 62*ms)
				defer cancel()
				if err := c.Run(ctx); err != nil {
					t.Error(err)
				}
				if len(calls) != len(test.want) {
					t.Fatalf("calls at %v, want %v", calls, test.want)
				}
				for i := range calls {
					if calls[i] != test.want[i] {
						t.Errorf("calls at %v, want %v", calls, test.want)
					}
				}
			})
		})
	}
}

// TestFailuresAreForgotten: after a success, and after a result that names the time, backoff starts
// over.
func TestFailuresAreForgotten(t *testing.T) {
	ms := time.Millisecond
	for name, result := range map[string]reconcile.Result{"success": {}, "after": {After: 100 * ms}} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			var calls []time.Duration
			var c *reconcile.Controller[string]
			c = newController(t, reconcile.Config[string]{Reconcile: func(context.Context, string) (reconcile.Result, error) {
				calls = append(calls, time.Since(start))
				if len(calls) == 3 {
					if result.After == 0 {
						time.AfterFunc(100*ms, func() { c.Enqueue("a") })
					}
					return result, nil
				}
				return reconcile.Result{}, errors.New("no")
			}})
			c.Enqueue("a")
			ctx, cancel := context.WithTimeout(t.Context(), 122*ms)
			defer cancel()
			if err := c.Run(ctx); err != nil {
				t.Error(err)
			}
			if want := []time.Duration{0, 5 * ms, 15 * ms, 115 * ms, 120 * ms}; !slices.Equal(calls, want) {
				t.Errorf("%s: calls at %v, want %v", name, calls, want)
			}
		})
	}
}

// TestRunAgain: a second Run continues with the remaining keys.
func TestRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []string
		c := newController(t, reconcile.Config[string]{Workers: 1, Reconcile: func(_ context.Context, key string) (reconcile.Result, error) {
			calls = append(calls, key)
			time.Sleep(time.Second)
			return reconcile.Result{}, nil
		}})
		lamps := newLamps()
		lamps.Sync()
		reconcile.Watch(c, lamps, reconcile.Itself(func(l *lamp) string { return l.name }))
		c.Enqueue("a")
		for _, key := range []string{"b", "c"} { // it is added while the previous one is in progress
			ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
			ended := make(chan error)
			go func() { ended <- c.Run(ctx) }()
			synctest.Wait()
			if lamps.Subscriptions() != 1 {
				t.Errorf("it is subscribed %d times", lamps.Subscriptions())
			}
			lamps.Put(&lamp{name: key})
			if err := <-ended; err != nil || lamps.Subscriptions() > 0 {
				t.Error(err, lamps.Subscriptions())
			}
			cancel()
		}
		if want := []string{"a", "b"}; !slices.Equal(calls, want) {
			t.Errorf("calls for %q, want %q", calls, want)
		}
	})
}

// ending is a context whose Err returns its error before its Done channel is closed.
type ending struct {
	context.Context
	over atomic.Bool
}

func (e *ending) Err() error {
	if e.over.Load() {
		return context.DeadlineExceeded
	}
	return e.Context.Err()
}

// TestCallsAskRunsContext: without Drain, a call sees at once that Run's context has ended, like
// that of a leader before any timer has fired.
func TestCallsAskRunsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	run := &ending{Context: ctx}
	c := newController(t, reconcile.Config[string]{Reconcile: func(ctx context.Context, _ string) (reconcile.Result, error) {
		defer cancel()
		if ctx.Err() != nil {
			t.Error("it is over too early")
		}
		if run.over.Store(true); ctx.Err() == nil {
			t.Error("it is not over")
		}
		return reconcile.Result{}, nil
	}})
	c.Enqueue("a")
	if err := c.Run(run); err != nil {
		t.Error(err)
	}
}

func TestFailuresAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var lines []string
		log := funcr.New(func(_, args string) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, args)
		}, funcr.Options{})
		c := newController(t, reconcile.Config[string]{Log: log, Reconcile: func(context.Context, string) (reconcile.Result, error) {
			panic("out of paint")
		}})
		c.Enqueue("default/web")
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := c.Run(ctx); err != nil {
			t.Error(err)
		}
		if len(lines) != 1 || !strings.Contains(lines[0], "out of paint") || !strings.Contains(lines[0], "default/web") {
			t.Errorf("logged %q", lines)
		}
	})
}

// TestEndIsNoFailure: an error that a call returns because Run's context has ended is not logged.
func TestEndIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := funcr.New(func(_, args string) { t.Errorf("logged %s", args) }, funcr.Options{})
		c := newController(t, reconcile.Config[string]{Log: log, Reconcile: func(ctx context.Context, _ string) (reconcile.Result, error) {
			<-ctx.Done()
			return reconcile.Result{}, ctx.Err()
		}})
		c.Enqueue("a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Run(ctx); err != nil {
			t.Error(err)
		}
	})
}

// TestWorkers: exactly the configured number of calls is in progress at a time.
func TestWorkers(t *testing.T) {
	for workers, want := range map[int]int32{0: 5, 1: 1, 3: 3, 20: 10} {
		synctest.Test(t, func(t *testing.T) {
			var calls atomic.Int32
			c := newController(t, reconcile.Config[string]{Workers: workers, Reconcile: func(ctx context.Context, _ string) (reconcile.Result, error) {
				calls.Add(1)
				<-ctx.Done()
				return reconcile.Result{}, nil
			}})
			for key := range 10 {
				c.Enqueue(strconv.Itoa(key))
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- c.Run(ctx) }()
			synctest.Wait()
			if got := calls.Load(); got != want {
				t.Errorf("%d workers: %d calls are under way, want %d", workers, got, want)
			}
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestDrain cancels Run while a call is in progress.
func TestDrain(t *testing.T) {
	for name, test := range map[string]struct{ drain, work, want time.Duration }{
		"at once":       {0, time.Hour, 0},
		"in time":       {10 * time.Second, 3 * time.Second, 3 * time.Second},
		"until the end": {10 * time.Second, time.Hour, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				c := newController(t, reconcile.Config[string]{Drain: test.drain, Workers: 1,
					Reconcile: func(ctx context.Context, _ string) (reconcile.Result, error) {
						calls++
						select {
						case <-ctx.Done():
							return reconcile.Result{}, ctx.Err()
						case <-time.After(test.work):
							return reconcile.Result{}, nil
						}
					}})
				c.Enqueue("a")
				c.Enqueue("b")
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error)
				go func() { done <- c.Run(ctx) }()
				synctest.Wait()
				start := time.Now()
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
				if got := time.Since(start); got != test.want || calls != 1 {
					t.Errorf("Run ended after %v and %d calls, want %v and 1", got, calls, test.want)
				}
			})
		})
	}
}
