package storagetest

import (
	"context"
	"errors"
	"time"

	"github.com/planekit/planekit/storage"
)

// askAgain is how long a request for progress may take before it counts as lost.
const askAgain = 100 * time.Millisecond

// checkProgress asks watches how far they have come, where they can be asked.
func checkProgress(e *env) {
	a := e.create("/a/1", "one")
	f := e.watch("/a/", a.Revision)
	if err := storage.RequestProgress(e.ctx, f.watcher); errors.Is(err, errors.ErrUnsupported) {
		e.Logf("%v", err)
		return
	} else if err != nil {
		e.Fatalf("request progress: %v", err)
	}
	// A watch that waits for what is yet to come says nothing, and is no reason
	// for others not to.
	e.watch("/c/", a.Revision+1000)
	// Nothing that concerns the watch.
	b := e.create("/b", "one")
	e.progresses(f, b.Revision)
	// Something that does.
	a2 := e.update(a, "two")
	b2 := e.update(b, "two")
	e.progresses(f, b2.Revision, updated(a, a2))
	a3 := e.update(a2, "three")
	e.delivers(f, updated(a2, a3))
	f.watcher.Close()
	if err := storage.RequestProgress(e.ctx, f.watcher); !errors.Is(err, storage.ErrClosed) {
		e.Errorf("progress of a closed watch: error %v, want %v", err, storage.ErrClosed)
	}
}

// progresses asks f until it says that it has come to revision at, and checks
// that it delivers want before, and nothing else.
func (e *env) progresses(f *feed, at storage.Revision, want ...storage.Event) {
	e.Helper()
	for f.last < at {
		if err := storage.RequestProgress(e.ctx, f.watcher); err != nil {
			e.Fatalf("request progress: %v", err)
		}
		brief, cancel := context.WithTimeout(e.ctx, askAgain)
		events, err := f.watcher.Next(brief)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) && e.ctx.Err() == nil {
			continue
		}
		if err == nil {
			err = f.check(events)
		}
		if err != nil {
			e.Fatalf("watch that was asked for progress to %d: %v", at, err)
		}
		for _, event := range events {
			switch {
			case event.Type == storage.Progress:
			case len(want) > 0 && sameEvent(event, want[0]):
				want = want[1:]
			default:
				e.Fatalf("watch: %s, want %d events before progress to %d", showEvent(event), len(want), at)
			}
		}
	}
	if len(want) > 0 {
		e.Fatalf("watch: progress to %d before %s", f.last, showEvent(want[0]))
	}
}
