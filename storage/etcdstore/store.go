package etcdstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

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
	// faster. Setting it for a member among several makes reads stale. Use one
	// Store of an etcd: what a watcher of another has delivered, a read may not
	// see yet.
	SoleMember bool
	// Timeout is how long a call waits for a cluster's answer, and a listing six
	// times as long, where its context does not end sooner: the client library
	// would try for minutes while there is no quorum. Zero is 10 seconds, a little
	// more than etcd itself takes to say that it has no leader. A sole member
	// needs none.
	Timeout time.Duration
}

const (
	defaultTimeout = 10 * time.Second
	listTimeouts   = 6
)

// A Store is a [storage.Store] in etcd.
type Store struct {
	client *clientv3.Client
	prefix string
	leases *leases
	// timeout is zero for a sole member.
	timeout time.Duration
	sole    bool
	// shown is the latest revision that a watcher has delivered.
	shown atomic.Int64
	// commits has a place for each transaction that may be under way.
	commits chan struct{}
}

// mostCommits is how many transactions may be under way. etcd applies all that
// wait in one go, and keeps 128 changes for a watcher that does not get to read
// meanwhile; those who had more to read wait for 10 to 100 ms, and with them
// everybody who follows the store. Half of that keeps any disk busy.
const mostCommits = 64

var (
	_ storage.Store   = (*Store)(nil)
	_ storage.Current = (*Store)(nil)
)

// New returns a store. It does not speak to etcd yet.
func New(c Config) (*Store, error) {
	if c.Client == nil {
		return nil, errors.New("etcdstore: Client is required")
	}
	if c.Timeout < 0 {
		return nil, fmt.Errorf("etcdstore: Timeout is negative: %v", c.Timeout)
	}
	s := &Store{client: c.Client, prefix: c.Prefix, leases: newLeases(), sole: c.SoleMember, commits: make(chan struct{}, mostCommits)}
	if !c.SoleMember {
		s.timeout = cmp.Or(c.Timeout, defaultTimeout)
	}
	return s, nil
}

// bound returns a context for a call that may take so many time-outs.
func (s *Store) bound(ctx context.Context, timeouts time.Duration) (context.Context, context.CancelFunc) {
	if s.timeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, timeouts*s.timeout)
}

// Revision implements [storage.Current]. It counts a key that does not exist: a
// call into the process for a sole member, a round trip and a word from the
// leader otherwise.
func (s *Store) Revision(ctx context.Context) (storage.Revision, error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("current revision: %w", err)
	}
	bounded, cancel := s.bound(ctx, 1)
	defer cancel()
	// No store has this key: keys are not empty.
	response, err := s.read(bounded, s.prefix+"\x00", clientv3.WithCountOnly())
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
	bounded, cancel := s.bound(ctx, 1)
	defer cancel()
	response, err := s.read(bounded, s.prefix+string(key), clientv3.WithRev(int64(at)))
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
	bounded, cancel := s.bound(ctx, listTimeouts)
	defer cancel()
	response, err := s.read(bounded, from,
		clientv3.WithRange(end), clientv3.WithRev(int64(o.At)), clientv3.WithLimit(int64(o.Limit)))
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

// read is a linearizable read. A sole member is not asked for its quorum's word,
// with one exception: etcd tells watchers of a change a moment before reads
// see it, and who was told must not be answered as if it had not happened.
func (s *Store) read(ctx context.Context, key string, o ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if s.sole {
		shown := s.shown.Load()
		response, err := s.client.Get(ctx, key, append(o, clientv3.WithSerializable())...)
		if err == nil && response.Header.Revision >= shown || err != nil && !errors.Is(err, rpctypes.ErrFutureRev) {
			return response, err
		}
	}
	return s.client.Get(ctx, key, o...)
}

// show notes that a watcher is about to deliver what happened at revision.
func (s *Store) show(revision storage.Revision) {
	for shown := s.shown.Load(); shown < int64(revision); shown = s.shown.Load() {
		if s.shown.CompareAndSwap(shown, int64(revision)) {
			return
		}
	}
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
	case errors.Is(err, rpctypes.ErrNoSpace):
		return fmt.Errorf("%w: %w", storage.ErrFull, err)
	case errors.Is(err, rpctypes.ErrRequestTooLarge):
		return fmt.Errorf("%w: %w", storage.ErrInvalid, err)
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("etcd did not answer in time")
	case !errors.As(err, &answer) && status.Code(err) == codes.ResourceExhausted:
		// Not etcd but gRPC refused: the message is larger than it takes.
		return fmt.Errorf("%w: %w", storage.ErrInvalid, err)
	}
	return err
}
