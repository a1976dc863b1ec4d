package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

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
	bounded, cancel := s.bound(ctx, 1)
	defer cancel()
	if _, err := s.client.Compact(bounded, int64(at)); err != nil {
		return fmt.Errorf("compact at %d: %w", at, translate(ctx, err))
	}
	return nil
}

// compactKey is where the servers that share an etcd agree on who compacts it.
// Its name, and what is done with it, are kube-apiserver's, so that the two can
// share one. It is the same whatever the prefix, as compaction is.
const compactKey = "compact_rev_key"

// CompactEvery gives up, after each interval, the history from before the
// interval, until ctx is done; then it returns nil. kube-apiserver does so with
// the etcd it uses, every 5 minutes; an embedded etcd does so by itself.
//
// Several programs may do it to one etcd: one of them compacts in each interval,
// and when it is gone another does. They agree on that by the version of the key
// compact_rev_key, as kube-apiserver does, and with it. A failure is passed to
// failed, which may be nil, and tried again after the interval.
func (s *Store) CompactEvery(ctx context.Context, interval time.Duration, failed func(error)) error {
	if interval <= 0 {
		return fmt.Errorf("compact every %v: %w", interval, storage.ErrInvalid)
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var seen compactState
	for {
		now, err := s.compactOnce(ctx, seen)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			seen = now
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

// compactState is what one of several servers knows of the others.
type compactState struct {
	version  int64            // of compactKey
	revision storage.Revision // at that time
}

// compactOnce compacts at seen.revision, unless another server has compacted since
// seen was. It returns what to go by next.
func (s *Store) compactOnce(ctx context.Context, seen compactState) (compactState, error) {
	bounded, cancel := s.bound(ctx, 1)
	defer cancel()
	response, err := s.client.Txn(bounded).
		If(clientv3.Compare(clientv3.Version(compactKey), "=", seen.version)).
		Then(clientv3.OpPut(compactKey, strconv.FormatInt(int64(seen.revision), 10))).
		Else(clientv3.OpGet(compactKey, clientv3.WithKeysOnly())).
		Commit()
	if err != nil {
		return seen, fmt.Errorf("compact at %d: %w", seen.revision, translate(ctx, err))
	}
	now := compactState{version: seen.version + 1, revision: storage.Revision(response.Header.Revision)}
	if !response.Succeeded {
		now.version = 0
		if kvs := response.Responses[0].GetResponseRange().GetKvs(); len(kvs) == 1 {
			now.version = kvs[0].Version
		}
		return now, nil
	}
	if seen.revision == 0 {
		return now, nil
	}
	if err := s.Compact(ctx, seen.revision); err != nil && !errors.Is(err, storage.ErrCompacted) {
		return seen, err
	}
	return now, nil
}
