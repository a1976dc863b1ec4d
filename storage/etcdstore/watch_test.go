package etcdstore

import (
	"context"
	"errors"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/planekit/planekit/storage"
)

// scripted returns a watcher to which etcd sends responses.
func scripted(t *testing.T, responses ...clientv3.WatchResponse) *watcher {
	events := make(chan clientv3.WatchResponse, len(responses))
	for _, r := range responses {
		events <- r
	}
	close(events)
	return &watcher{
		store: &Store{prefix: "/p"}, prefix: "/", outer: t.Context(),
		cancel: func() {}, events: events, last: 5,
	}
}

func progress(revision int64) clientv3.WatchResponse {
	return clientv3.WatchResponse{Header: etcdserverpb.ResponseHeader{Revision: revision}}
}

func put(created, revision int64, previous *mvccpb.KeyValue) *clientv3.Event {
	kv := &mvccpb.KeyValue{Key: []byte("/p/a"), CreateRevision: created, ModRevision: revision}
	return &clientv3.Event{Type: clientv3.EventTypePut, Kv: kv, PrevKv: previous}
}

// Progress is passed on when it is news, and only then.
func TestProgress(t *testing.T) {
	w := scripted(t, progress(3), progress(5), progress(8), progress(8),
		clientv3.WatchResponse{Events: []*clientv3.Event{put(9, 9, nil)}}, progress(9))
	events, err := w.Next(t.Context())
	if err != nil || len(events) != 1 || events[0].Type != storage.Progress || events[0].Revision != 8 {
		t.Fatalf("%+v, error %v", events, err)
	}
	events, err = w.Next(t.Context())
	if err != nil || len(events) != 1 || events[0].Type != storage.Created || events[0].Record.Key != "/a" {
		t.Fatalf("%+v, error %v", events, err)
	}
	if events, err = w.Next(t.Context()); !errors.Is(err, storage.ErrClosed) {
		t.Fatalf("%+v, error %v, want %v", events, err, storage.ErrClosed)
	}
}

// An event whose previous record is gone cannot be delivered.
func TestPreviousCompacted(t *testing.T) {
	w := scripted(t, clientv3.WatchResponse{Events: []*clientv3.Event{put(2, 9, nil)}}, progress(10))
	for range 2 {
		if events, err := w.Next(t.Context()); !errors.Is(err, storage.ErrCompacted) {
			t.Errorf("%+v, error %v, want %v", events, err, storage.ErrCompacted)
		}
	}
}

func TestWatchErrors(t *testing.T) {
	for name, test := range map[string]struct {
		response clientv3.WatchResponse
		want     error
	}{
		"compacted": {clientv3.WatchResponse{CompactRevision: 7, Canceled: true}, storage.ErrCompacted},
		"cancelled": {clientv3.WatchResponse{Canceled: true}, storage.ErrFuture},
	} {
		if events, err := scripted(t, test.response).Next(t.Context()); !errors.Is(err, test.want) {
			t.Errorf("%s: %+v, error %v, want %v", name, events, err, test.want)
		}
	}
}

// The end of Next's context does not lose what comes next.
func TestNextContext(t *testing.T) {
	w := scripted(t, progress(6))
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Next(done); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	if events, err := w.Next(t.Context()); err != nil || len(events) != 1 {
		t.Fatalf("%+v, error %v", events, err)
	}
}
