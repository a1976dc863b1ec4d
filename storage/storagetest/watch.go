package storagetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/planekit/planekit/storage"
)

func checkWatch(e *env) {
	start := e.list("", storage.ListOptions{}).Revision
	live := e.watch("/", start)
	a := e.create("/a", "one")
	b := e.create("/b", "one")
	a2 := e.update(a, "two")
	gone := e.remove(a2)
	a3 := e.create("/a", "three")
	events := []storage.Event{created(a), created(b), updated(a, a2), deleted(a2, gone.Revision), created(a3)}
	e.delivers(live, events...)
	// A watch from an older revision replays the later events.
	e.delivers(e.watch("/", start), events...)
	for i := range events[:len(events)-1] {
		e.delivers(e.watch("/", events[i].Revision), events[i+1:]...)
	}
	late := e.watch("/", a3.Revision)
	b2 := e.update(b, "two")
	e.delivers(late, updated(b, b2))
	e.delivers(live, updated(b, b2))
}

func checkWatchFromNow(e *env) {
	a := e.create("/a", "one")
	f := e.watch("/", 0)
	// Next has not been called yet: the watch begins when Watch was called.
	a2 := e.update(a, "two")
	gone := e.remove(a2)
	e.delivers(f, updated(a, a2), deleted(a2, gone.Revision))
}

func checkWatchFromFuture(e *env) {
	r := e.create("/a", "0")
	f := e.watch("/", r.Revision+3)
	until := f.last
	for i := 1; r.Revision <= until; i++ {
		r = e.update(r, fmt.Sprint(i))
	}
	event, err := f.next(e.ctx)
	if err != nil || !same(event.Record, r) {
		e.Fatalf("watch after the future revision %d: %s, error %v, want %s", until, showEvent(event), err, show(r))
	}
}

func checkWatchPrefix(e *env) {
	f := e.watch("/a/", 0)
	all := e.watch("", 0)
	var wanted, every []storage.Event
	for _, key := range []storage.Key{"/a", "/a/", "/a/1", "/a0", "/b", "/a/\xff", "x"} {
		r := e.create(key, "value")
		every = append(every, created(r))
		if len(key) > 2 && key[:3] == "/a/" {
			wanted = append(wanted, created(r))
		}
	}
	e.delivers(f, wanted...)
	e.delivers(all, every...)
}

func checkWatchContexts(e *env) {
	outer, end := context.WithCancel(e.ctx)
	defer end()
	w, err := e.store.Watch(outer, "/", 0)
	if err != nil {
		e.Fatalf("watch: %v", err)
	}
	f := &feed{watcher: w}
	brief, cancel := context.WithTimeout(e.ctx, time.Millisecond)
	defer cancel()
	if event, err := f.next(brief); !errors.Is(err, context.DeadlineExceeded) {
		e.Fatalf("next on a quiet store: %s, error %v", showEvent(event), err)
	}
	// That did not end the watch.
	a := e.create("/a", "one")
	e.delivers(f, created(a))
	end()
	for range 2 {
		if event, err := f.next(e.ctx); !errors.Is(err, context.Canceled) {
			e.Fatalf("next after the end of the context of Watch: %s, error %v", showEvent(event), err)
		}
	}
	w.Close()
}

func checkWatchClose(e *env) {
	f := e.watch("/", 0)
	done := make(chan error)
	go func() {
		_, err := f.next(e.ctx)
		done <- err
	}()
	f.watcher.Close()
	if err := <-done; !errors.Is(err, storage.ErrClosed) {
		e.Fatalf("next while the watch is closed: error %v, want %v", err, storage.ErrClosed)
	}
	f.watcher.Close()
	e.create("/a", "one")
	if event, err := f.next(e.ctx); !errors.Is(err, storage.ErrClosed) {
		e.Errorf("next after Close: %s, error %v, want %v", showEvent(event), err, storage.ErrClosed)
	}
}

// checkWatchSlowly does not read a watch for more events than buffers hold.
func checkWatchSlowly(e *env) {
	const changes = 2500
	f := e.watch("/", 0)
	r := e.create("/a", "0")
	want := []storage.Event{created(r)}
	for i := range changes {
		next := e.update(r, fmt.Sprint(i))
		want = append(want, updated(r, next))
		r = next
	}
	e.delivers(f, want...)
}

func checkCompaction(e *env) {
	c, ok := e.store.(interface {
		Compact(context.Context, storage.Revision) error
	})
	if !ok {
		e.Logf("the store offers no Compact")
		return
	}
	a1 := e.create("/a", "one")
	live := e.watch("/", a1.Revision)
	laggard := e.watch("/", a1.Revision)
	a2 := e.update(a1, "two")
	b := e.create("/b", "one")
	a3 := e.update(a2, "three")
	e.delivers(live, updated(a1, a2), created(b), updated(a2, a3))
	if err := c.Compact(e.ctx, b.Revision); err != nil {
		e.Fatalf("compact at %d: %v", b.Revision, err)
	}
	e.compacted(a1.Revision, a2.Revision)
	e.stands(a2, b.Revision)
	e.lists("/", storage.ListOptions{At: b.Revision}, []storage.Record{a2, b}, 0)
	e.delivers(e.watch("/", b.Revision), updated(a2, a3))
	b2 := e.update(b, "two")
	e.delivers(live, updated(b, b2))
	e.noGap(laggard, updated(a1, a2), created(b), updated(a2, a3), updated(b, b2))
	for at, want := range map[storage.Revision]error{
		b.Revision:         storage.ErrCompacted,
		b2.Revision + 1000: storage.ErrFuture,
		-1:                 storage.ErrInvalid,
	} {
		if err := c.Compact(e.ctx, at); !errors.Is(err, want) {
			e.Errorf("compact at %d: error %v, want %v", at, err, want)
		}
	}
}

// compacted checks that the store no longer reads at revision at, and does not watch after first.
func (e *env) compacted(first, at storage.Revision) {
	e.Helper()
	if _, err := e.store.Get(e.ctx, "/a", at); !errors.Is(err, storage.ErrCompacted) {
		e.Errorf("get at a compacted revision: error %v, want %v", err, storage.ErrCompacted)
	}
	if _, err := e.store.List(e.ctx, "/", storage.ListOptions{At: at}); !errors.Is(err, storage.ErrCompacted) {
		e.Errorf("list at a compacted revision: error %v, want %v", err, storage.ErrCompacted)
	}
	f := e.watch("/", first)
	for range 2 {
		if event, err := f.next(e.ctx); !errors.Is(err, storage.ErrCompacted) {
			e.Errorf("watch after a compacted revision: %s, error %v, want %v", showEvent(event), err, storage.ErrCompacted)
		}
	}
}

// noGap checks that f delivers events until it fails with ErrCompacted.
func (e *env) noGap(f *feed, events ...storage.Event) {
	e.Helper()
	for _, want := range events {
		event, err := f.next(e.ctx)
		if errors.Is(err, storage.ErrCompacted) {
			return
		}
		if err != nil || !sameEvent(event, want) {
			e.Fatalf("a watch that compaction overtook: %s, error %v, want %s", showEvent(event), err, showEvent(want))
		}
	}
}
