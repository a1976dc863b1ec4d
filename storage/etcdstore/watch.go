package etcdstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/planekit/planekit/storage"
)

// Watch implements [storage.Store]. It returns when etcd has created the watch, or ctx is done.
func (s *Store) Watch(ctx context.Context, prefix storage.Key, after storage.Revision) (storage.Watcher, error) {
	if after < 0 {
		return nil, fmt.Errorf("watch %s after %d: %w", prefix, after, storage.ErrInvalid)
	}
	if after == 0 {
		// Start from a fixed revision, so that a reconnecting client resumes from here and not from
		// a later revision.
		now, err := s.Revision(ctx)
		if err != nil {
			return nil, fmt.Errorf("watch %s: %w", prefix, err)
		}
		after = now
	}
	from, end := s.bounds(prefix)
	own, cancel := context.WithCancel(ctx)
	w := &watcher{store: s, prefix: prefix, outer: ctx, cancel: cancel, last: after, stream: stream()}
	w.events = s.client.Watch(w.stream(own), from,
		clientv3.WithRange(end), clientv3.WithRev(int64(after)+1),
		clientv3.WithPrevKV(), clientv3.WithFragment(), clientv3.WithProgressNotify())
	if err := ctx.Err(); err != nil {
		cancel()
		return nil, fmt.Errorf("watch %s: %w", prefix, err)
	}
	return w, nil
}

// stream returns a function that gives contexts unique metadata, so that each watch gets a stream
// of its own. The client library puts watches with equal metadata on one stream, and etcd reports
// the progress of a stream only when all its watches have caught up. The metadata also requires a
// leader: a member that is cut off ends the stream, and the client connects to another member.
func stream() func(context.Context) context.Context {
	id := rand.Text()
	return func(ctx context.Context) context.Context {
		return clientv3.WithRequireLeader(metadata.AppendToOutgoingContext(ctx, "planekit-watch", id))
	}
}

// A watcher is one watch. Only Next uses the fields below the context.
type watcher struct {
	store  *Store
	prefix storage.Key
	outer  context.Context // of Watch
	cancel context.CancelFunc
	stream func(context.Context) context.Context
	closed atomic.Bool
	events clientv3.WatchChan

	last storage.Revision // everything up to it was delivered
	err  error            // how the watch ended
}

// Close implements [storage.Watcher].
func (w *watcher) Close() {
	w.closed.Store(true)
	w.cancel()
}

// RequestProgress implements [storage.Progresser].
func (w *watcher) RequestProgress(ctx context.Context) error {
	err := w.ended()
	if err == nil {
		err = w.store.client.RequestProgress(w.stream(ctx))
	}
	if err != nil {
		return fmt.Errorf("progress of watch %s: %w", w.prefix, translate(ctx, err))
	}
	return nil
}

// Next implements [storage.Watcher].
func (w *watcher) Next(ctx context.Context) ([]storage.Event, error) {
	for w.err == nil {
		if err := w.ended(); err != nil {
			return nil, w.fail(err)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case response, open := <-w.events:
			if !open {
				return nil, w.fail(storage.ErrClosed)
			}
			events, err := w.take(response)
			if err != nil {
				return nil, w.fail(err)
			}
			if len(events) > 0 {
				return events, nil
			}
		}
	}
	return nil, w.err
}

// ended returns why this side has ended the watch, or nil.
func (w *watcher) ended() error {
	if w.closed.Load() {
		return storage.ErrClosed
	}
	return w.outer.Err()
}

// fail ends the watch. The reason of this side takes precedence over etcd's error.
func (w *watcher) fail(err error) error {
	if own := w.ended(); own != nil {
		err = own
	}
	w.cancel()
	w.err = fmt.Errorf("watch %s after %d: %w", w.prefix, w.last, err)
	return w.err
}

// take converts a response. The client library joins fragments, and etcd sends the events of one
// revision together.
func (w *watcher) take(response clientv3.WatchResponse) ([]storage.Event, error) {
	if err := response.Err(); err != nil {
		return nil, translate(w.outer, err)
	}
	if response.IsProgressNotify() {
		revision := storage.Revision(response.Header.Revision)
		if revision <= w.last {
			return nil, nil
		}
		w.last = revision
		w.store.show(revision)
		return []storage.Event{{Type: storage.Progress, Revision: revision}}, nil
	}
	events := make([]storage.Event, 0, len(response.Events))
	for _, e := range response.Events {
		event, err := w.event(e)
		if err != nil {
			return nil, err
		}
		w.last = event.Revision
		events = append(events, event)
	}
	w.store.show(w.last)
	return events, nil
}

func (w *watcher) event(e *clientv3.Event) (storage.Event, error) {
	event := storage.Event{
		Type:     storage.Created,
		Revision: storage.Revision(e.Kv.ModRevision),
		Record:   w.store.record(e.Kv),
	}
	if e.IsCreate() {
		return event, nil
	}
	if e.PrevKv == nil {
		return storage.Event{}, fmt.Errorf("the record before revision %d: %w", event.Revision, storage.ErrCompacted)
	}
	event.Previous = w.store.record(e.PrevKv)
	event.Type = storage.Updated
	if e.Type == clientv3.EventTypeDelete {
		event.Type = storage.Deleted
		event.Record.Created = event.Previous.Created
	}
	return event, nil
}
