package reconcile

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"
)

// onProcessors runs test with so many at a time as there may be.
func onProcessors(t *testing.T, test func(*testing.T)) {
	for _, n := range []int{1, 2, 8} {
		t.Run(fmt.Sprintf("processors=%d", n), func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(n))
			test(t)
		})
	}
}

// TestNobodyStarves: somebody who comes now and then has its turn among those who
// never rest.
func TestNobodyStarves(t *testing.T) {
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
			t.Error("after a minute somebody waits for its turn still")
		}
		cancel()
		hogs.Wait()
		<-served
	})
}

// TestUnhashable: a key that no queue can have leaves the queue as it was.
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
