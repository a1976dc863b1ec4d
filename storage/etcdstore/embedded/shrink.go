package embedded

import (
	"context"
	"time"

	"go.etcd.io/etcd/server/v3/etcdserver"
)

const (
	// shrinkEvery is the time between two looks at the size of the database.
	shrinkEvery = time.Minute
	// The database is rewritten when it has at least shrinkFrom bytes of which no more than a
	// shrinkShare-th is in use, and no more than shrinkMost: the calls that wait meanwhile wait for
	// some hundred milliseconds at most. What is larger is left to Client().Defragment. The file grows
	// by 16 MiB at a time, so a rewritten one has up to that much free soon again.
	shrinkFrom  = 24 << 20
	shrinkShare = 4
	shrinkMost  = 64 << 20
)

// worthShrinking reports whether so little of a database is in use that it should be rewritten.
func worthShrinking(size, inUse int64) bool {
	return size >= shrinkFrom && inUse <= size/shrinkShare && inUse <= shrinkMost
}

// shrink gives the space back that compaction has left free in the database, until ctx is done.
// etcd never does so by itself: the file, all of which is mapped into the process and counts as
// resident memory, keeps the size that it had when there was most in it.
func (s *Server) shrink(ctx context.Context, etcd *etcdserver.EtcdServer, calls *gate) {
	ticker := time.NewTicker(s.config.shrinkEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if s.reserve.state() != nil {
			continue // a full disk has no room for a second database
		}
		if err := shrinkOnce(etcd, calls); err != nil {
			s.config.Log.Error(err, "the database cannot be made smaller; trying again later")
		}
	}
}

// shrinkOnce rewrites the database if that is worth it.
func shrinkOnce(etcd *etcdserver.EtcdServer, calls *gate) error {
	leave, err := calls.enter()
	if err != nil {
		return nil // the server is about to stop
	}
	defer leave() // also where etcd ends the goroutine
	if backend := etcd.Backend(); !worthShrinking(backend.Size(), backend.SizeInUse()) {
		return nil
	}
	return etcd.Defragment()
}
