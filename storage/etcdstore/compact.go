package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/planekit/planekit/storage"
)

// Compact gives up the history before revision at: reads at earlier revisions
// and watches after earlier ones fail with [storage.ErrCompacted] from then on,
// and so does Compact itself unless at is later than that of the last. It
// concerns the whole etcd, whatever the prefix.
func (s *Store) Compact(ctx context.Context, at storage.Revision) error {
	if at <= 0 {
		return fmt.Errorf("compact at %d: %w", at, storage.ErrInvalid)
	}
	if _, err := s.client.Compact(ctx, int64(at)); err != nil {
		return fmt.Errorf("compact at %d: %w", at, translate(ctx, err))
	}
	return nil
}

// CompactEvery gives up, after each interval, the history from before the
// interval, until ctx is done; then it returns nil. kube-apiserver does so with
// the etcd it uses, every 5 minutes; an embedded etcd does so by itself.
// Several programs may do it to one etcd. A failure is passed to failed, which
// may be nil, and tried again after the interval.
func (s *Store) CompactEvery(ctx context.Context, interval time.Duration, failed func(error)) error {
	if interval <= 0 {
		return fmt.Errorf("compact every %v: %w", interval, storage.ErrInvalid)
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var old storage.Revision
	for {
		now, err := s.Revision(ctx)
		if err == nil && old > 0 {
			err = s.Compact(ctx, old)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil || errors.Is(err, storage.ErrCompacted):
			old = now
		case failed != nil:
			failed(err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
