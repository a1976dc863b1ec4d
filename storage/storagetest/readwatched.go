package storagetest

import (
	"fmt"

	"github.com/planekit/planekit/storage"
)

// checkReadWatched reads a record as soon as a watcher has delivered its change. If the store
// delivers a change before reads see it, a client acts on the state before the change.
func checkReadWatched(e *env) {
	const writers, each = 4, 200
	watcher, err := e.store.Watch(e.ctx, "/seen/", 0)
	if err != nil {
		e.Fatalf("watch: %v", err)
	}
	defer watcher.Close()
	failures := make(chan error, writers)
	for i := range writers {
		go func() {
			failures <- e.flip(storage.Key(fmt.Sprintf("/seen/%d", i)), each)
		}()
	}
	for seen := 0; seen < writers*each; {
		events, err := watcher.Next(e.ctx)
		if err != nil {
			e.Fatalf("watch: %v", err)
		}
		for _, event := range events {
			if event.Type == storage.Progress {
				continue
			}
			seen++
			page, err := e.store.List(e.ctx, event.Record.Key, storage.ListOptions{})
			if err != nil {
				e.Fatalf("list: %v", err)
			}
			if page.Revision < event.Revision {
				e.Fatalf("a watcher delivered revision %d, and a listing after that is as of %d", event.Revision, page.Revision)
			}
			if event.Type == storage.Deleted {
				continue
			}
			if _, err := e.store.Get(e.ctx, event.Record.Key, event.Revision); err != nil && !e.past(event.Revision, err) {
				e.Fatalf("a watcher delivered %s at %d, and a read as of then: %v", event.Record.Key, event.Revision, err)
			}
		}
	}
	for range writers {
		if err := <-failures; err != nil {
			e.Fatalf("%v", err)
		}
	}
}

// flip creates and deletes key by turns, with the given number of changes.
func (e *env) flip(key storage.Key, changes int) error {
	var record storage.Record
	for i := range changes {
		change := storage.Change{Op: storage.Create, Key: key, Value: []byte("here")}
		if i%2 == 1 {
			change = storage.Change{Op: storage.Delete, Key: key, Previous: record.Revision}
		}
		var err error
		if record, err = e.store.Commit(e.ctx, change); err != nil {
			return fmt.Errorf("change %d of %s: %w", i, key, err)
		}
	}
	return nil
}
