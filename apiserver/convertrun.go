package apiserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/cache"
	"k8s.io/apimachinery/pkg/runtime"
)

// A conversionRun converts objects for one request. Other requests that need the same objects wait
// for it.
type conversionRun struct {
	items []*item
	// done is closed at the end. The fields below are set by then.
	done chan struct{}
	err  error
	// abandoned is true if err is about the request and not about the objects.
	abandoned bool
}

// errConversionEnded is the error of a conversion that ended with a panic.
var errConversionEnded = errors.New("the conversion ended unexpectedly")

// current returns the item of a record as requests see it.
func (k *servedKind) current(ctx context.Context, record storage.Record) (*item, error) {
	i, err := k.item(record)
	if err != nil || k.converter == nil {
		return i, err
	}
	all, err := k.converted(ctx, []*item{i})
	if err != nil {
		return nil, err
	}
	return all[0], all[0].Err
}

// converted returns items as requests see them: in the version of the kind. The items are not
// changed.
func (k *servedKind) converted(ctx context.Context, items []*item) ([]*item, error) {
	c := k.converter
	if c == nil {
		return items, nil
	}
	for {
		mine, others := c.claim(items)
		if mine == nil && len(others) == 0 {
			return c.results(items), nil
		}
		if mine != nil {
			if err := c.run(ctx, mine); err != nil {
				return nil, err
			}
		}
		for other := range others {
			select {
			case <-other.done:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			if other.err != nil && !other.abandoned {
				return nil, other.err
			}
		}
	}
}

// claim begins a run for the items that no other run converts, and returns the other runs that
// convert some of the items.
func (c *versionConverter) claim(items []*item) (mine *conversionRun, others map[*conversionRun]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range items {
		u, ok := pending(i)
		if ok && u.converted == nil && c.written[i.Key].revision == i.Revision {
			u.converted = &item{Record: i.Record, Object: c.written[i.Key].object}
		}
		switch {
		case !ok || u.converted != nil || mine != nil && u.by == mine:
		case u.by != nil:
			if others == nil {
				others = map[*conversionRun]bool{}
			}
			others[u.by] = true
		default:
			if mine == nil {
				mine = &conversionRun{done: make(chan struct{}), err: errConversionEnded}
			}
			u.by = mine
			mine.items = append(mine.items, i)
		}
	}
	return mine, others
}

// pending returns the unconverted object of i, if it has one.
func pending(i *item) (*unconverted, bool) {
	if i == nil || i.Err != nil || i.Object == nil {
		return nil, false
	}
	u, ok := i.Object.Object.(*unconverted)
	return u, ok
}

// results returns items, all of which have been converted.
func (c *versionConverter) results(items []*item) []*item {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := items
	for n, i := range items {
		u, ok := pending(i)
		if !ok {
			continue
		}
		if &out[0] == &items[0] {
			out = slices.Clone(items)
		}
		out[n] = u.converted
	}
	return out
}

// run converts the items of a run that claim has begun, a version after the other.
func (c *versionConverter) run(ctx context.Context, r *conversionRun) error {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, i := range r.items {
			u, _ := pending(i)
			u.by = nil
		}
		close(r.done)
	}()
	byVersion := map[string][]*item{}
	for _, i := range r.items {
		u, _ := pending(i)
		version := u.GroupVersionKind().Version
		byVersion[version] = append(byVersion[version], i)
	}
	for _, version := range slices.Sorted(maps.Keys(byVersion)) {
		if err := c.runVersion(ctx, byVersion[version], version); err != nil {
			r.err, r.abandoned = err, ctx.Err() != nil
			return err
		}
	}
	r.err = nil
	return nil
}

// runVersion converts items that are stored in the named version.
func (c *versionConverter) runVersion(ctx context.Context, items []*item, version string) error {
	objs, found := make([]runtime.Object, 0, len(items)), make([]*item, 0, len(items))
	for _, i := range items {
		obj, err := c.decodeItem(i, version)
		if err != nil {
			c.publish(i, &item{Record: i.Record, Err: err})
			continue
		}
		objs, found = append(objs, obj), append(found, i)
	}
	if len(objs) == 0 {
		return nil
	}
	out, err := c.convert(ctx, objs, c.kind.Version)
	if err != nil {
		return err
	}
	for n, i := range found {
		c.kind.settle(out[n], i.Revision)
		c.publish(i, &item{Record: i.Record, Object: &object{Object: out[n], hidden: i.Object.hidden}})
	}
	return nil
}

// decodeItem returns the object of i in the version in which it is stored.
func (c *versionConverter) decodeItem(i *item, version string) (obj runtime.Object, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			obj, err = nil, fmt.Errorf("stored object %s cannot be decoded: panic: %v", i.Key, cause)
		}
	}()
	_, value, err := cutHidden(i.Value)
	if err == nil {
		obj, err = c.storedObject(value, version)
	}
	if err != nil {
		return nil, fmt.Errorf("stored object %s cannot be decoded: %w", i.Key, err)
	}
	return obj, nil
}

// publish keeps the result of a conversion with the cached item.
func (c *versionConverter) publish(i, converted *item) {
	c.mu.Lock()
	defer c.mu.Unlock()
	u, _ := pending(i)
	u.converted = converted
}

// convertedRecords returns the items of records as requests see them.
func (k *servedKind) convertedRecords(ctx context.Context, records []storage.Record) ([]*item, error) {
	items := make([]*item, len(records))
	for n, record := range records {
		items[n], _ = k.item(record)
	}
	return k.converted(ctx, items)
}

// A limited list with a selector converts at least convertAtOnce objects.
const convertAtOnce = 500

// pickConverted is pick for a kind with a Converter. It converts only what the page may show.
func (selected *selection) pickConverted(ctx context.Context, d *reader, state cache.Snapshot[*object], from listFrom, limit int) (*listing, error) {
	var rest []*item
	for i := range state.All(selected.prefix, from.after) {
		rest = append(rest, i)
	}
	found := &listing{revision: state.Revision}
	for len(rest) > 0 && (limit == 0 || len(found.items) < limit) {
		n := len(rest)
		if limit > 0 {
			n = min(n, limit-len(found.items))
			if !selected.all() {
				n = min(len(rest), max(n, convertAtOnce))
			}
		}
		items, err := selected.kind.converted(ctx, rest[:n])
		if err != nil {
			return nil, err
		}
		for n = 0; n < len(items) && (limit == 0 || len(found.items) < limit); n++ {
			found.add(d, selected, items[n])
		}
		rest = rest[n:]
	}
	if len(rest) == 0 {
		return found, nil
	}
	return found, found.resume(selected, found.items[limit-1].Key, int64(len(rest)))
}

// keptWrites bounds the objects in written.
const keptWrites = 256

// wrote announces an object that has been stored at revision: what the server has just converted
// back for a response need not be converted again.
func (c *versionConverter) wrote(key storage.Key, revision storage.Revision, o *object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.written) >= keptWrites {
		clear(c.written)
	}
	c.written[key] = writtenObject{revision, o}
}

// A shownEvent is an event with its items as a watch shows them.
type shownEvent struct {
	*cache.Event[*object]
	item, previous *item
}

// shownEvents returns events with their items in the version of the kind. The former state of an
// object is converted only if the watch shows it, or has to know whether it has shown it.
func (w *watcher) shownEvents(ctx context.Context, events []*cache.Event[*object]) ([]shownEvent, error) {
	out := make([]shownEvent, len(events))
	for i, e := range events {
		out[i] = shownEvent{e, e.Item, e.Previous}
	}
	if w.q.kind.converter == nil {
		return out, nil
	}
	var needed []**item
	for i := range out {
		if !w.selected.covers(out[i].Key()) {
			continue
		}
		if out[i].item != nil {
			needed = append(needed, &out[i].item)
		}
		if out[i].previous != nil && (out[i].item == nil || !w.selected.all()) {
			needed = append(needed, &out[i].previous)
		}
	}
	items := make([]*item, len(needed))
	for i, at := range needed {
		items[i] = *at
	}
	items, err := w.q.kind.converted(ctx, items)
	for i, at := range needed {
		if err == nil {
			*at = items[i]
		}
	}
	return out, err
}
