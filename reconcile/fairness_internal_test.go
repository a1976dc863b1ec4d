package reconcile

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"
)

// onProcessors runs test with different values of GOMAXPROCS.
func onProcessors(t *testing.T, test func(*testing.T)) {
	for _, n := range []int{1, 2, 8} {
		t.Run(fmt.Sprintf("processors=%d", n), func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(n))
			test(t)
		})
	}
}

// TestNoWorkerStarves: a worker that calls occasionally gets its turn among workers that call
// continuously.
func TestNoWorkerStarves(t *testing.T) {
	onProcessors(t, func(t *testing.T) {
		q := NewQueue[int](Backoff{})
		ctx, cancel := context.WithCancel(t.Context())
		var hogs sync.WaitGroup
		for hog := range 7 {
			hogs.Go(func() {
				for ctx.Err() == nil {
					q.Add(hog)
					key, err := q.Get(ctx)
					if err == nil {
						q.Done(key)
					}
				}
			})
		}
		served := make(chan struct{})
		go func() {
			defer close(served)
			for i := range 100 {
				q.Add(100 + i)
				q.Len()
			}
		}()
		select {
		case <-served:
		case <-time.After(time.Minute):
			t.Error("after a minute a worker still waits for its turn")
		}
		cancel()
		hogs.Wait()
		<-served
	})
}

// TestUnhashable: a key that cannot be hashed leaves the queue unchanged.
func TestUnhashable(t *testing.T) {
	q := NewQueue[any](Backoff{})
	q.Add("a")
	for name, call := range map[string]func(any){"Add": q.Add, "Done": q.Done, "Forget": q.Forget} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s did not panic", name)
				}
			}()
			call([]int{1})
		}()
		if !q.mu.TryLock() {
			t.Fatalf("%s left the queue locked", name)
		}
		q.mu.Unlock()
	}
	if n := q.Len(); n != 1 {
		t.Errorf("%d keys wait, want 1", n)
	}
}
