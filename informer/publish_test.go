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

// TestViewsComeBeforeEvents looks at the log while the copy changes: what it shows,
// the view of that moment has.
func TestViewsComeBeforeEvents(t *testing.T) {
	b := newBatches(t, rand.New(rand.NewPCG(1, 3)), nil)
	const changes = 100_000
	var reader sync.WaitGroup
	reader.Go(func() {
		for place := b.place; place.seq < changes && !t.Failed(); {
			events := place.ready()
			if len(events) == 0 {
				continue
			}
			if shown := b.inf.root().seq; shown < place.seq+uint64(len(events)) {
				t.Errorf("%d events are shown, and a view of %d", place.seq+uint64(len(events)), shown)
			}
			place.skip(len(events))
		}
	})
	for i := range changes {
		revision := strconv.Itoa(i + 1)
		b.inf.writer.store([]op[*item]{{opPut, revision, &item{key: "0/0", revision: i + 1}}})
		if i%50 == 0 {
			b.inf.writer.tidy()
		}
	}
	reader.Wait()
}

// TestNoWaiterIsForgotten has one begin to wait just when what it waits for is
// published, and nothing after that.
func TestNoWaiterIsForgotten(t *testing.T) {
	b := newBatches(t, rand.New(rand.NewPCG(1, 4)), nil)
	b.inf.writer.Replace("0", nil)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	const changes = 100_000
	var begun, told atomic.Int64
	var waiter sync.WaitGroup
	waiter.Go(func() {
		defer told.Store(changes)
		for i := int64(1); i <= changes; i++ {
			begun.Store(i)
			if err := b.inf.WaitFor(ctx, strconv.FormatInt(i, 10)); err != nil {
				t.Errorf("waiting for %d: %v", i, err)
				return
			}
			told.Store(i)
		}
	})
	for i := int64(1); i <= changes; i++ {
		for begun.Load() < i && told.Load() < changes {
			runtime.Gosched()
		}
		for range b.r.IntN(200) { // some nanoseconds, and no more: it is about to wait
			_ = begun.Load()
		}
		b.inf.writer.store([]op[*item]{{opBookmark, strconv.FormatInt(i, 10), nil}})
	}
	waiter.Wait()
}
