package reconcile

import (
	"context"
	"fmt"
	"runtime"
	"strings"
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

// TestLatch: what it guards is one goroutine's at a time, and nothing of it is lost.
func TestLatch(t *testing.T) {
	onProcessors(t, func(t *testing.T) {
		const goroutines, each = 8, 5000
		var l latch
		var all sync.WaitGroup
		n, inside := 0, false
		for range goroutines {
			all.Go(func() {
				for i := range each {
					l.Lock()
					if inside {
						t.Error("two are inside")
					}
					inside = true
					if n++; i%64 == 0 {
						runtime.Gosched() // and be found inside
					}
					inside = false
					l.Unlock()
				}
			})
		}
		all.Wait()
		if n != goroutines*each {
			t.Errorf("counted to %d, want %d", n, goroutines*each)
		}
	})
}

// TestLatchParks: who waits for long neither spins nor polls, and is woken.
func TestLatchParks(t *testing.T) {
	onProcessors(t, func(t *testing.T) {
		const goroutines = 4
		var l latch
		var all sync.WaitGroup
		woken := 0
		l.Lock()
		for range goroutines {
			all.Go(func() {
				l.Lock()
				defer l.Unlock()
				woken++
			})
		}
		defer func() {
			l.Unlock()
			all.Wait()
			if woken != goroutines {
				t.Errorf("%d of %d were woken", woken, goroutines)
			}
		}()
		stacks := make([]byte, 1<<20)
		for deadline := time.Now().Add(30 * time.Second); ; runtime.Gosched() {
			parked := strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "[sync.Cond.Wait")
			if parked == goroutines {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d of %d are parked", parked, goroutines)
			}
		}
	})
}

// TestLatchWakes: of those who all park, and of those who do not, nobody is forgotten.
func TestLatchWakes(t *testing.T) {
	onProcessors(t, func(t *testing.T) {
		const goroutines, each = 8, 2000
		var l latch
		var all sync.WaitGroup
		n := 0
		for g := range goroutines {
			take := l.park
			if g%4 == 0 {
				take = l.Lock
			}
			all.Go(func() {
				for range each {
					take()
					n++
					l.Unlock()
				}
			})
		}
		all.Wait()
		if n != goroutines*each {
			t.Errorf("counted to %d, want %d", n, goroutines*each)
		}
		if !l.TryLock() {
			t.Error("it is taken still")
		}
	})
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
