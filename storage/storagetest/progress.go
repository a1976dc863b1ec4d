package storagetest

import (
	"context"
	"errors"
	"time"

	"github.com/planekit/planekit/storage"
)

// askAgain is the time after which a request for progress counts as lost.
const askAgain = 100 * time.Millisecond

// checkProgress requests the progress of watches that support it.
func checkProgress(e *env) {
	a := e.create("/a/1", "one")
	f := e.watch("/a/", a.Revision)
	if err := storage.RequestProgress(e.ctx, f.watcher); errors.Is(err, errors.ErrUnsupported) {
		e.Logf("%v", err)
		return
	} else if err != nil {
		e.Fatalf("request progress: %v", err)
	}
	// A watch of future revisions reports nothing, and must not keep the other watches from
	// reporting.
	e.watch("/c/", a.Revision+1000)
	// A change that does not concern the watch.
	b := e.create("/b", "one")
	e.progresses(f, b.Revision)
	// A change that concerns it.
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

// progresses requests the progress of f until it reaches revision at. f must deliver want before
// and nothing else.
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
