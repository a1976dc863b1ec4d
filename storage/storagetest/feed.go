package storagetest

import (
	"context"
	"fmt"
	"strings"

	"github.com/planekit/planekit/storage"
)

// A feed reads a watch one event at a time and checks the order.
type feed struct {
	watcher storage.Watcher
	pending []storage.Event
	last    storage.Revision
}

// watch starts a feed. The watch ends with the check.
func (e *env) watch(prefix storage.Key, after storage.Revision) *feed {
	e.Helper()
	w, err := e.store.Watch(e.ctx, prefix, after)
	if err != nil {
		e.Fatalf("watch %q after %d: %v", prefix, after, err)
	}
	return &feed{watcher: w, last: after}
}

// next returns the next event that is not progress.
func (f *feed) next(ctx context.Context) (storage.Event, error) {
	for {
		for len(f.pending) == 0 {
			events, err := f.watcher.Next(ctx)
			if err != nil {
				return storage.Event{}, err
			}
			if err := f.check(events); err != nil {
				return storage.Event{}, err
			}
			f.pending = events
		}
		event := f.pending[0]
		f.pending = f.pending[1:]
		if event.Type != storage.Progress {
			return event, nil
		}
	}
}

// check checks the order within the events of one call of Next, and that they come after those of
// earlier calls.
func (f *feed) check(events []storage.Event) error {
	if len(events) == 0 {
		return fmt.Errorf("watch after %d: no events and no error", f.last)
	}
	before := f.last
	told := map[storage.Key]bool{} // keys of the events at f.last
	for _, event := range events {
		if event.Revision > f.last {
			clear(told)
		}
		if event.Revision <= before || event.Revision < f.last || told[event.Record.Key] {
			return fmt.Errorf("watch: %s after revision %d was delivered", showEvent(event), f.last)
		}
		f.last = event.Revision
		told[event.Record.Key] = true
		if event.Type == storage.Progress && (event.Record.Key != "" || event.Previous.Key != "") {
			return fmt.Errorf("watch: progress with a record: %s", showEvent(event))
		}
	}
	return nil
}

// delivers checks that the next events are want.
func (e *env) delivers(f *feed, want ...storage.Event) {
	e.Helper()
	for _, w := range want {
		event, err := f.next(e.ctx)
		if err != nil {
			e.Fatalf("watch: %v, want %s", err, showEvent(w))
		}
		if !sameEvent(event, w) {
			e.Fatalf("watch: %s, want %s", showEvent(event), showEvent(w))
		}
	}
}

func sameEvent(a, b storage.Event) bool {
	return a.Type == b.Type && a.Revision == b.Revision && same(a.Record, b.Record) && same(a.Previous, b.Previous)
}

// created, updated and deleted return the event that a change must cause.

func created(r storage.Record) storage.Event {
	return storage.Event{Type: storage.Created, Revision: r.Revision, Record: r}
}

func updated(previous, r storage.Record) storage.Event {
	return storage.Event{Type: storage.Updated, Revision: r.Revision, Record: r, Previous: previous}
}

func deleted(previous storage.Record, at storage.Revision) storage.Event {
	gone := storage.Record{Key: previous.Key, Revision: at, Created: previous.Created}
	return storage.Event{Type: storage.Deleted, Revision: at, Record: gone, Previous: previous}
}

// show formats records for messages.
func show(records ...storage.Record) string {
	var b strings.Builder
	for i, r := range records {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q=%q@%d(created %d)", r.Key, abridge(r.Value), r.Revision, r.Created)
	}
	if len(records) == 0 {
		return "nothing"
	}
	return b.String()
}

// abridge shortens large values in messages.
func abridge(value []byte) []byte {
	const enough = 40
	if len(value) > enough {
		return append(value[:enough:enough], "..."...)
	}
	return value
}

func showEvent(e storage.Event) string {
	if e.Type == storage.Progress {
		return fmt.Sprintf("progress to %d", e.Revision)
	}
	return fmt.Sprintf("%s %s at %d, before %s", e.Type, show(e.Record), e.Revision, show(e.Previous))
}
