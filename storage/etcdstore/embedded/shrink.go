package embedded

import (
	"context"
	"time"

	"go.etcd.io/etcd/server/v3/etcdserver"
)

const (
	// shrinkEvery is the interval between checks of the size of the database.
	shrinkEvery = time.Minute
	// The database is rewritten when it has at least shrinkFrom bytes, of which at most one part in
	// shrinkShare and at most shrinkMost are in use. Calls then wait for some hundred milliseconds
	// at most. For a larger database use Client().Defragment. The file grows by 16 MiB at a time,
	// so a rewritten one soon has up to that much free space.
	shrinkFrom  = 24 << 20
	shrinkShare = 4
	shrinkMost  = 64 << 20
)

// worthShrinking reports whether so little of a database is in use that it should be rewritten.
func worthShrinking(size, inUse int64) bool {
	return size >= shrinkFrom && inUse <= size/shrinkShare && inUse <= shrinkMost
}

// shrink rewrites the database after compaction has freed most of it, until ctx is done. Without
// it, the file keeps its maximum size. All of it is mapped and counts as resident memory of the
// process.
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
			continue // no room for a second database
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
		return nil // the server stops
	}
	defer leave() // also if etcd ends the goroutine
	if backend := etcd.Backend(); !worthShrinking(backend.Size(), backend.SizeInUse()) {
		return nil
	}
	return etcd.Defragment()
}
