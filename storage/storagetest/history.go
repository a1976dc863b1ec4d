package storagetest

import (
	"cmp"
	"slices"
	"strings"

	"github.com/planekit/planekit/storage"
)

// split returns the events under prefix up to revision at and after it.
func split(history []storage.Event, prefix storage.Key, at storage.Revision) (before, after []storage.Event) {
	for _, event := range history {
		switch {
		case !strings.HasPrefix(string(event.Record.Key), string(prefix)):
		case event.Revision <= at:
			before = append(before, event)
		default:
			after = append(after, event)
		}
	}
	return before, after
}

// stateAfter returns the records after a history, in order.
func stateAfter(history []storage.Event) []storage.Record {
	state := map[storage.Key]storage.Record{}
	for _, event := range history {
		if event.Type == storage.Deleted {
			delete(state, event.Record.Key)
		} else {
			state[event.Record.Key] = event.Record
		}
	}
	records := make([]storage.Record, 0, len(state))
	for _, r := range state {
		records = append(records, r)
	}
	slices.SortFunc(records, func(a, b storage.Record) int { return cmp.Compare(a.Key, b.Key) })
	return records
}
