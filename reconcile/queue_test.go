package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/planekit/planekit/reconcile"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func get(t *testing.T, q *reconcile.Queue[int]) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	key, err := q.Get(ctx)
	if err != nil {
		return -1
	}
	return key
}

func TestOrderAndMerging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := reconcile.NewQueue[int](reconcile.Backoff{})
		for _, key := range []int{3, 1, 3, 2, 1} {
			q.Add(key)
		}
		for _, want := range []int{3, 1, 2, -1} {
			if got := get(t, q); got != want {
				t.Fatalf("got %d, want %d", got, want)
			}
		}
		q.Add(1)
		if got := get(t, q); got != -1 {
			t.Fatalf("%d was handed out while it is worked on", got)
		}
		q.Done(1)
		if got := get(t, q); got != 1 {
			t.Fatalf("got %d, want 1 once more", got)
		}
		q.Done(1)
		q.Done(1)
		if got := get(t, q); got != -1 {
			t.Fatalf("got %d, want nothing", got)
		}
	})
}

func TestRetryTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := reconcile.NewQueue[int](reconcile.Backoff{})
		want := 5 * time.Millisecond
		for range 20 {
			start := time.Now()
			q.Retry(1)
			if _, err := q.Get(t.Context()); err != nil {
				t.Fatal(err)
			}
			q.Done(1)
			if got := time.Since(start); got != want {
				t.Fatalf("waited %v, want %v", got, want)
			}
			want = min(2*want, 1000*time.Second)
		}
		q.Forget(1)
		start := time.Now()
		q.Retry(1)
		q.AddAfter(1, time.Hour) // later than the current time: no effect
		if _, err := q.Get(t.Context()); err != nil || time.Since(start) != 5*time.Millisecond {
			t.Fatalf("after Forget: %v, %v", time.Since(start), err)
		}
	})
}

func TestGetEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := reconcile.NewQueue[int](reconcile.Backoff{})
		ctx, cancel := context.WithCancel(t.Context())
		var workers sync.WaitGroup
		for range 3 {
			workers.Go(func() {
				if _, err := q.Get(ctx); !errors.Is(err, context.Canceled) {
					t.Errorf("got %v", err)
				}
			})
		}
		synctest.Wait()
		cancel()
		workers.Wait()
		q.Add(1)
		if got := get(t, q); got != 1 {
			t.Errorf("got %d: the key went to a worker who had left", got)
		}
		if _, err := q.Get(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

// TestBurstWakesAll: each of as many workers as there are keys gets a key, although none of them is
// done.
func TestBurstWakesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 5
		q := reconcile.NewQueue[int](reconcile.Backoff{})
		got := make(chan int, n)
		for range n {
			go func() {
				if key, err := q.Get(t.Context()); err == nil {
					got <- key
				}
			}()
		}
		synctest.Wait()
		for key := range n {
			q.Add(key)
		}
		synctest.Wait()
		if len(got) != n {
			t.Errorf("%d of %d workers have a key", len(got), n)
		}
	})
}

// TestKeysAreReleased: the queue does not keep the memory of a key that is done.
func TestKeysAreReleased(t *testing.T) {
	q := reconcile.NewQueue[*[1 << 16]byte](reconcile.Backoff{})
	key := new([1 << 16]byte)
	was := weak.Make(key)
	q.Add(key)
	if got, err := q.Get(t.Context()); err != nil || got != key {
		t.Fatal(got, err)
	}
	q.Done(key)
	key = nil
	runtime.GC()
	if was.Value() != nil {
		t.Error("it is kept")
	}
	runtime.KeepAlive(q)
}

// TestQueueConcurrent: many goroutines add and many work. No key is with two workers, and the last
// Add of each key is followed by a call.
func TestQueueConcurrent(t *testing.T) {
	q := reconcile.NewQueue[int](reconcile.Backoff{})
	var mu sync.Mutex
	added, seen, busy := map[int]int{}, map[int]int{}, map[int]bool{}
	ctx, cancel := context.WithCancel(t.Context())
	var workers, adders sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for {
				key, err := q.Get(ctx)
				if err != nil {
					return
				}
				mu.Lock()
				if busy[key] {
					t.Errorf("%d is with two workers", key)
				}
				busy[key], seen[key] = true, added[key]
				mu.Unlock()
				mu.Lock()
				busy[key] = false
				mu.Unlock()
				q.Done(key)
			}
		})
	}
	for a := range 4 {
		adders.Go(func() {
			for i := range 2000 {
				key := (a + i) % 17
				mu.Lock()
				added[key]++
				mu.Unlock()
				if i%5 == 0 {
					q.AddAfter(key, time.Microsecond)
				} else {
					q.Add(key)
				}
			}
		})
	}
	adders.Wait()
	for key := range 17 {
		q.Add(key)
	}
	for settled := false; !settled; {
		mu.Lock()
		settled = true
		for key := range 17 {
			settled = settled && seen[key] == added[key] && !busy[key]
		}
		mu.Unlock()
	}
	cancel()
	workers.Wait()
}

func BenchmarkAdd(b *testing.B) {
	for _, goroutines := range []int{1, 8} {
		b.Run(fmt.Sprintf("goroutines=%d", goroutines), func(b *testing.B) {
			q := reconcile.NewQueue[int](reconcile.Backoff{})
			ctx, cancel := context.WithCancel(context.Background())
			var workers sync.WaitGroup
			workers.Go(func() {
				for {
					key, err := q.Get(ctx)
					if err != nil {
						return
					}
					q.Done(key)
				}
			})
			b.ReportAllocs()
			b.SetParallelism((goroutines + 1) / 2)
			if goroutines == 1 {
				for i := 0; b.Loop(); i++ {
					q.Add(i & 1023)
				}
			} else {
				b.RunParallel(func(pb *testing.PB) {
					for i := 0; pb.Next(); i++ {
						q.Add(i & 1023)
					}
				})
			}
			cancel()
			workers.Wait()
		})
	}
}

func BenchmarkRetry(b *testing.B) {
	q := reconcile.NewQueue[int](reconcile.Backoff{Min: time.Hour, Max: time.Hour})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		q.Retry(i & 1023)
	}
}
