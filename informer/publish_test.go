package informer

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
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
	}
	reader.Wait()
}

// TestNoWaiterIsForgotten has one begin to wait just when what it waits for is
// published, and nothing after that.
func TestNoWaiterIsForgotten(t *testing.T) {
	b := newBatches(t, rand.New(rand.NewPCG(1, 4)), nil)
	b.inf.writer.Replace("0", nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const changes = 50_000
	want, told := make(chan string), make(chan error)
	go func() {
		defer close(told)
		for revision := range want {
			told <- b.inf.WaitFor(ctx, revision)
		}
	}()
	for i := range changes {
		revision := strconv.Itoa(i + 1)
		want <- revision
		b.inf.writer.store([]op[*item]{{opBookmark, revision, nil}})
		if err := <-told; err != nil {
			t.Errorf("waiting for %s: %v", revision, err)
			break
		}
	}
	close(want)
	<-told
}
