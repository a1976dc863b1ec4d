package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/planekit/planekit/storage"
)

// Config says where the records are.
type Config struct {
	// Client is the connection. Required; it stays the caller's, who closes it
	// after the last use of the store.
	Client *clientv3.Client
	// Prefix stands before every key in etcd and is not part of a record's Key.
	// Empty is none. Of stores that share an etcd, none may have a prefix that
	// another's begins with.
	Prefix string
	// SoleMember says that Client speaks to the only member of its cluster,
	// such as an embedded one. What a sole member has acknowledged it has
	// applied, so reads are linearizable without asking for a quorum, which is
	// faster. Setting it for a member among several makes reads stale.
	SoleMember bool
}

// A Store is a [storage.Store] in etcd.
type Store struct {
	client *clientv3.Client
	prefix string
	leases *leases
	// read are the options of every read.
	read []clientv3.OpOption
}

var (
	_ storage.Store   = (*Store)(nil)
	_ storage.Current = (*Store)(nil)
)

// New returns a store. It does not speak to etcd yet.
func New(c Config) (*Store, error) {
	if c.Client == nil {
		return nil, errors.New("etcdstore: Client is required")
	}
	s := &Store{client: c.Client, prefix: c.Prefix, leases: newLeases()}
	if c.SoleMember {
		s.read = append(s.read, clientv3.WithSerializable())
	}
	return s, nil
}

// Revision implements [storage.Current]. It counts a key that does not exist: a
// call into the process for a sole member, a round trip and a word from the
// leader otherwise.
func (s *Store) Revision(ctx context.Context) (storage.Revision, error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("current revision: %w", err)
	}
	// No store has this key: keys are not empty.
	response, err := s.client.Get(ctx, s.prefix+"\x00", s.reading(clientv3.WithCountOnly())...)
	if err != nil {
		return 0, fmt.Errorf("current revision: %w", translate(ctx, err))
	}
	return storage.Revision(response.Header.Revision), nil
}

// Get implements [storage.Store]. Called in process, etcd does not look at the
// context of every read, so it is looked at here; in List and Commit too.
func (s *Store) Get(ctx context.Context, key storage.Key, at storage.Revision) (storage.Record, error) {
	if key == "" || at < 0 {
		return storage.Record{}, fmt.Errorf("get %q at %d: %w", key, at, storage.ErrInvalid)
	}
	if err := ctx.Err(); err != nil {
		return storage.Record{}, fmt.Errorf("get %s: %w", key, err)
	}
	response, err := s.client.Get(ctx, s.prefix+string(key), s.reading(clientv3.WithRev(int64(at)))...)
	if err != nil {
		return storage.Record{}, fmt.Errorf("get %s: %w", key, translate(ctx, err))
	}
	if len(response.Kvs) == 0 {
		return storage.Record{}, fmt.Errorf("get %s: %w", key, storage.ErrNotFound)
	}
	return s.record(response.Kvs[0]), nil
}

// List implements [storage.Store].
func (s *Store) List(ctx context.Context, prefix storage.Key, o storage.ListOptions) (storage.Page, error) {
	if o.At < 0 || o.Limit < 0 {
		return storage.Page{}, fmt.Errorf("list %s: at %d, limit %d: %w", prefix, o.At, o.Limit, storage.ErrInvalid)
	}
	if err := ctx.Err(); err != nil {
		return storage.Page{}, fmt.Errorf("list %s: %w", prefix, err)
	}
	from, end := s.bounds(prefix)
	if behind := s.prefix + string(o.After) + "\x00"; o.After != "" && behind > from {
		from = behind
	}
	response, err := s.client.Get(ctx, from, s.reading(
		clientv3.WithRange(end), clientv3.WithRev(int64(o.At)), clientv3.WithLimit(int64(o.Limit)))...)
	if err != nil {
		return storage.Page{}, fmt.Errorf("list %s: %w", prefix, translate(ctx, err))
	}
	page := storage.Page{
		Records:   make([]storage.Record, len(response.Kvs)),
		Revision:  o.At,
		Remaining: response.Count - int64(len(response.Kvs)),
	}
	if o.At == 0 {
		page.Revision = storage.Revision(response.Header.Revision)
	}
	for i, kv := range response.Kvs {
		page.Records[i] = s.record(kv)
	}
	return page, nil
}

// bounds returns the range of etcd's keys that begin with prefix.
func (s *Store) bounds(prefix storage.Key) (from, end string) {
	from = s.prefix + string(prefix)
	end = clientv3.GetPrefixRangeEnd(from)
	if from == "" {
		from = "\x00" // etcd's first key
	}
	return from, end
}

func (s *Store) reading(o ...clientv3.OpOption) []clientv3.OpOption {
	return append(o, s.read...)
}

// record takes kv over.
func (s *Store) record(kv *mvccpb.KeyValue) storage.Record {
	return storage.Record{
		Key:      storage.Key(kv.Key[len(s.prefix):]),
		Value:    slices.Clip(kv.Value),
		Revision: storage.Revision(kv.ModRevision),
		Created:  storage.Revision(kv.CreateRevision),
	}
}

// translate names an error of etcd as package storage does, if it has a name
// there. The end of ctx goes before what etcd made of it.
func translate(ctx context.Context, err error) error {
	var answer rpctypes.EtcdError
	switch {
	case errors.Is(err, rpctypes.ErrCompacted):
		return storage.ErrCompacted
	case errors.Is(err, rpctypes.ErrFutureRev):
		return storage.ErrFuture
	case errors.Is(err, rpctypes.ErrRequestTooLarge):
		return fmt.Errorf("%w: %w", storage.ErrInvalid, err)
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	case !errors.As(err, &answer) && status.Code(err) == codes.ResourceExhausted:
		// Not etcd but gRPC refused: the message is larger than it takes.
		return fmt.Errorf("%w: %w", storage.ErrInvalid, err)
	}
	return err
}
