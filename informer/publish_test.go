package informer

import (
	"context"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestViewsComeBeforeEvents reads the log while the cache changes: the view at that moment has
// everything in the log.
func TestViewsComeBeforeEvents(t *testing.T) {
	b := newBatches(t, rand.New(rand.NewPCG(1, 3)))
	const changes = 100_000
	var reader sync.WaitGroup
	reader.Go(func() {
		for next, last := b.next, 0; last < changes && !t.Failed(); next = next.next {
			<-next.ready
			last = next.events[len(next.events)-1].new.revision
			if shown, _ := b.inf.Get("0/0"); shown == nil || shown.revision < last {
				t.Errorf("revision %d is shown, and a view of %v", last, shown)
			}
		}
	})
	for i := range changes {
		revision := strconv.Itoa(i + 1)
		b.inf.writer.store([]op[*item]{{opPut, revision, &item{key: "0/0", revision: i + 1}}})
	}
	reader.Wait()
}

// TestNoWaiterIsForgotten begins to wait just when the revision is published, with no change after
// that.
func TestNoWaiterIsForgotten(t *testing.T) {
	b := newBatches(t, rand.New(rand.NewPCG(1, 4)))
	b.inf.writer.Replace("0", nil)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	const changes = 100_000
	var begun, handled atomic.Int64
	var waiter sync.WaitGroup
	waiter.Go(func() {
		defer handled.Store(changes)
		for i := int64(1); i <= changes; i++ {
			begun.Store(i)
			if err := b.inf.WaitFor(ctx, strconv.FormatInt(i, 10)); err != nil {
				t.Errorf("waiting for %d: %v", i, err)
				return
			}
			handled.Store(i)
		}
	})
	for i := int64(1); i <= changes; i++ {
		for begun.Load() < i && handled.Load() < changes {
			runtime.Gosched()
		}
		for range b.r.IntN(200) { // some nanoseconds, in which the waiter begins to wait
			_ = begun.Load()
		}
		b.inf.writer.store([]op[*item]{{opBookmark, strconv.FormatInt(i, 10), nil}})
	}
	waiter.Wait()
}
