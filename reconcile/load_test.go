package reconcile_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/planekit/planekit/reconcile"
)

// load counts the adds and calls of some keys in a test with many adders and workers.
type load struct {
	t *testing.T
	// mu guards the fields below.
	mu                sync.Mutex
	added, seen, busy [23]int
	settled           chan struct{} // closed when every add was followed by a call
	rest              int           // adds to come
}

func newLoad(t *testing.T, adds int) *load {
	return &load{t: t, rest: adds, settled: make(chan struct{})}
}

// add records that an add follows.
func (c *load) add(key int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.added[key]++
	c.rest--
}

func (c *load) begin(key int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy[key]++; c.busy[key] > 1 {
		c.t.Errorf("%d is with two workers", key)
	}
	c.seen[key] = c.added[key]
}

func (c *load) end(key int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy[key]--
	if c.rest == 0 && c.seen == c.added {
		select {
		case <-c.settled:
		default:
			close(c.settled)
		}
	}
}

// adders adds keys from several goroutines, each in an order of its own.
func (c *load) adders(q *reconcile.Queue[int], adders, each int) {
	var all sync.WaitGroup
	for a := range adders {
		all.Go(func() {
			for i := range each {
				key := (a*7 + i) % len(c.added)
				c.add(key)
				q.AddWith(key, reconcile.AddOptions{Priority: i % 3, After: time.Duration(i%5/4) * time.Microsecond})
			}
		})
	}
	all.Wait()
}

// TestLoad: on any number of processors no key is with two workers, and the last add of each key is
// followed by a call: with Get and Done, and in a Controller.
func TestLoad(t *testing.T) {
	const adders, each, workers = 8, 2000, 8
	work := map[string]func(context.Context, *load, *reconcile.Queue[int]){
		"queue": func(ctx context.Context, c *load, q *reconcile.Queue[int]) {
			var all sync.WaitGroup
			for range workers {
				all.Go(func() {
					for {
						key, err := q.Get(ctx)
						if err != nil {
							return
						}
						c.begin(key)
						c.end(key)
						q.Done(key)
					}
				})
			}
			all.Wait()
		},
		"controller": func(ctx context.Context, c *load, q *reconcile.Queue[int]) {
			calls := 0
			var mu sync.Mutex
			controller, err := reconcile.New(reconcile.Config[int]{Name: "load", Workers: workers, Queue: q,
				Reconcile: func(_ context.Context, key int) (reconcile.Result, error) {
					c.begin(key)
					defer c.end(key)
					mu.Lock()
					defer mu.Unlock()
					calls++
					return reconcile.Result{Requeue: calls%11 == 0}, nil
				}})
			if err == nil {
				err = controller.Run(ctx)
			}
			if err != nil {
				t.Error(err)
			}
		},
	}
	for name, work := range work {
		for _, processors := range []int{1, 2, 8} {
			t.Run(fmt.Sprintf("%s, processors=%d", name, processors), func(t *testing.T) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
				q := reconcile.NewQueue[int](reconcile.Backoff{Min: time.Microsecond, Max: time.Millisecond})
				c := newLoad(t, adders*each)
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { work(ctx, c, q) })
				c.adders(q, adders, each)
				select {
				case <-c.settled:
				case <-time.After(time.Minute):
					c.mu.Lock()
					t.Errorf("seen %v, added %v", c.seen, c.added)
					c.mu.Unlock()
				}
				cancel()
				running.Wait()
			})
		}
	}
}
