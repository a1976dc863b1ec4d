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

// crowd is what those who add and those who work know of some keys.
type crowd struct {
	t *testing.T
	// mu guards the fields below.
	mu                sync.Mutex
	added, seen, busy [23]int
	settled           chan struct{} // closed when all that was added was seen
	rest              int           // adds to come
}

func newCrowd(t *testing.T, adds int) *crowd {
	return &crowd{t: t, rest: adds, settled: make(chan struct{})}
}

// add is told of an add to come.
func (c *crowd) add(key int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.added[key]++
	c.rest--
}

func (c *crowd) begin(key int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy[key]++; c.busy[key] > 1 {
		c.t.Errorf("%d is with two workers", key)
	}
	c.seen[key] = c.added[key]
}

func (c *crowd) end(key int) {
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

// adders add until there are no more adds, each its own way through the keys.
func (c *crowd) adders(q *reconcile.Queue[int], adders, each int) {
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

// TestCrowd: on any number of processors no key is with two workers, and after the
// last add of each somebody looks again: by Get and Done, and in a Controller.
func TestCrowd(t *testing.T) {
	const adders, each, workers = 8, 2000, 8
	work := map[string]func(context.Context, *crowd, *reconcile.Queue[int]){
		"queue": func(ctx context.Context, c *crowd, q *reconcile.Queue[int]) {
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
		"controller": func(ctx context.Context, c *crowd, q *reconcile.Queue[int]) {
			calls := 0
			var mu sync.Mutex
			controller, err := reconcile.New(reconcile.Config[int]{Name: "crowd", Workers: workers, Queue: q,
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
				c := newCrowd(t, adders*each)
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
