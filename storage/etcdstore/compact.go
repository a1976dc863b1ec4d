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

// Compact discards the history before revision at: earlier reads and watches then fail with
// [storage.ErrCompacted], and so does Compact itself unless at is later than in the last
// compaction. It affects the whole etcd, not only the prefix.
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

// compactKey coordinates the servers that compact one etcd. Its name and protocol are those of
// kube-apiserver, so that both can share an etcd. It ignores the prefix, as compaction does.
const compactKey = "compact_rev_key"

// CompactEvery compacts once per interval, discarding the history from before the interval, until
// ctx is done; then it returns nil. kube-apiserver does so every 5 minutes. An embedded etcd
// compacts itself.
//
// Several programs may call it for one etcd: one of them compacts in each interval, and another
// takes over when it stops. They coordinate through the version of the key compact_rev_key, as
// kube-apiserver does. Failures are passed to failed, which may be nil, and compaction is retried
// after the interval.
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

// compactState is the last state of compactKey that a server has seen.
type compactState struct {
	version  int64            // of compactKey
	revision storage.Revision // at that time
}

// compactOnce compacts at seen.revision unless another server has compacted since. It returns the
// state to compare with next time.
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
