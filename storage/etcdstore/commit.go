package etcdstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/planekit/planekit/storage"
)

// Commit implements [storage.Store].
func (s *Store) Commit(ctx context.Context, c storage.Change) (storage.Record, error) {
	if err := c.Check(); err != nil {
		return storage.Record{}, err
	}
	if err := ctx.Err(); err != nil {
		return storage.Record{}, fmt.Errorf("%s %s: %w", c.Op, c.Key, err)
	}
	bounded, cancel := s.bound(ctx, 1)
	defer cancel()
	select {
	case s.commits <- struct{}{}:
		defer func() { <-s.commits }()
	case <-bounded.Done():
		return storage.Record{}, fmt.Errorf("%s %s: %w", c.Op, c.Key, translate(ctx, bounded.Err()))
	}
	response, lease, err := s.try(bounded, c)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		// The lease was revoked or has expired early. Nothing was changed.
		if err = s.leases.drop(bounded, lease); err == nil {
			response, _, err = s.try(bounded, c)
		}
	}
	if err != nil {
		return storage.Record{}, fmt.Errorf("%s %s: %w", c.Op, c.Key, translate(ctx, err))
	}
	if !response.Succeeded {
		return s.refused(c, response)
	}
	return s.committed(c, response)
}

// try runs the transaction of c once.
func (s *Store) try(ctx context.Context, c storage.Change) (*clientv3.TxnResponse, clientv3.LeaseID, error) {
	lease, err := s.leases.get(ctx, s.client, c.TTL)
	if err != nil {
		return nil, lease, err
	}
	key := s.prefix + string(c.Key)
	var change []clientv3.Op
	switch c.Op {
	case storage.Create:
		change = []clientv3.Op{clientv3.OpPut(key, string(c.Value), clientv3.WithLease(lease))}
	case storage.Update:
		// The second operation reads when the key was created.
		change = []clientv3.Op{
			clientv3.OpPut(key, string(c.Value), clientv3.WithLease(lease)),
			clientv3.OpGet(key, clientv3.WithKeysOnly()),
		}
	case storage.Delete:
		change = []clientv3.Op{clientv3.OpDelete(key, clientv3.WithPrevKV())}
	}
	// An absent key has ModRevision zero, and so has Previous for Create.
	response, err := s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(key), "=", int64(c.Previous))).
		Then(change...).
		Else(clientv3.OpGet(key)).
		Commit()
	return response, lease, err
}

// committed returns the record that Commit returns.
func (s *Store) committed(c storage.Change, response *clientv3.TxnResponse) (storage.Record, error) {
	revision := storage.Revision(response.Header.Revision)
	switch c.Op {
	case storage.Create:
		return storage.Record{Key: c.Key, Value: bytes.Clone(c.Value), Revision: revision, Created: revision}, nil
	case storage.Update:
		if kvs := response.Responses[1].GetResponseRange().GetKvs(); len(kvs) == 1 {
			created := storage.Revision(kvs[0].CreateRevision)
			return storage.Record{Key: c.Key, Value: bytes.Clone(c.Value), Revision: revision, Created: created}, nil
		}
	case storage.Delete:
		if kvs := response.Responses[0].GetResponseDeleteRange().GetPrevKvs(); len(kvs) == 1 {
			record := s.record(kvs[0])
			record.Revision = revision
			return record, nil
		}
	}
	return storage.Record{}, fmt.Errorf("%s %s: etcd committed revision %d without the record", c.Op, c.Key, revision)
}

// refused returns the error for a failed guard, from the record that the transaction read.
func (s *Store) refused(c storage.Change, response *clientv3.TxnResponse) (storage.Record, error) {
	kvs := response.Responses[0].GetResponseRange().GetKvs()
	if len(kvs) == 0 {
		return storage.Record{}, fmt.Errorf("%s %s: %w", c.Op, c.Key, storage.ErrNotFound)
	}
	current := s.record(kvs[0])
	if c.Op == storage.Create {
		return current, fmt.Errorf("%s %s: %w", c.Op, c.Key, storage.ErrExists)
	}
	return storage.Record{}, &storage.ConflictError{Key: c.Key, Current: current, Want: c.Previous}
}
