package cache

import (
	"sort"

	"github.com/planekit/planekit/storage"
)

// index finds items by the value of a field.
type index[T any] struct {
	of    func(T) string
	items map[string]map[storage.Key]*Item[T]
}

// Matching returns the items whose field has the value, in key order, from the newest state of the
// copy, and the revision of that state. field must be one of Config.Fields. Its index is built on
// first use.
func (c *Cache[T]) Matching(field, value string) ([]*Item[T], storage.Revision) {
	handed := c.config.Feed.delivered()
	c.mu.Lock()
	found, ok := c.indexes[field]
	if !ok {
		found = &index[T]{of: c.config.Fields[field], items: map[string]map[storage.Key]*Item[T]{}}
		c.now.Ascend(func(item *Item[T]) bool {
			found.add(item)
			return true
		})
		c.indexes[field] = found
	}
	items := make([]*Item[T], 0, len(found.items[value]))
	for _, item := range found.items[value] {
		items = append(items, item)
	}
	revision := max(handed, c.revision)
	c.mu.Unlock()
	// Do not use slices.SortFunc: its instance for this type adds 6 kB to a program.
	sort.Slice(items, func(i, j int) bool { return items[i].Key < items[j].Key })
	return items, revision
}

func (x *index[T]) add(item *Item[T]) {
	if item == nil || item.Err != nil {
		return
	}
	value := x.of(item.Object)
	if x.items[value] == nil {
		x.items[value] = map[storage.Key]*Item[T]{}
	}
	x.items[value][item.Key] = item
}

func (x *index[T]) remove(item *Item[T]) {
	if item == nil || item.Err != nil {
		return
	}
	value := x.of(item.Object)
	if delete(x.items[value], item.Key); len(x.items[value]) == 0 {
		delete(x.items, value)
	}
}

// waiters holds channels that are closed at the next change, or at the next change that concerns a
// value of a field.
type waiters struct {
	all     chan struct{}
	byField map[string]map[string]chan struct{}
}

// channel returns a channel that is closed at the next change; if field and value are set, at the
// next change that concerns them.
func (w *waiters) channel(field, value string) <-chan struct{} {
	if field == "" {
		if w.all == nil {
			w.all = make(chan struct{})
		}
		return w.all
	}
	if w.byField == nil {
		w.byField = map[string]map[string]chan struct{}{}
	}
	if w.byField[field] == nil {
		w.byField[field] = map[string]chan struct{}{}
	}
	if w.byField[field][value] == nil {
		w.byField[field][value] = make(chan struct{})
	}
	return w.byField[field][value]
}

func (w *waiters) wakeAll() {
	if w.all != nil {
		close(w.all)
	}
	for _, values := range w.byField {
		for _, ch := range values {
			close(ch)
		}
	}
	*w = waiters{}
}

// wake tells those whom the events concern. mu is held.
func (c *Cache[T]) wake(events []*Event[T]) {
	c.show()
	for field, values := range c.waiters.byField {
		for _, event := range events {
			for _, item := range [...]*Item[T]{event.Item, event.Previous} {
				if item == nil || item.Err != nil {
					continue
				}
				value := c.config.Fields[field](item.Object)
				if ch := values[value]; ch != nil {
					close(ch)
					delete(values, value)
				}
			}
		}
	}
}
