package etcdstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/planekit/planekit/storage"
)

// Config configures a Store.
type Config struct {
	// Client is the connection. Required. The caller closes it after the last use of the store. Use
	// that of [Dial]: any other may repeat a transaction that was committed, and return its refusal.
	Client *clientv3.Client
	// Prefix is prepended to every key in etcd and is not part of a record's Key. It may be empty.
	// If stores share an etcd, no prefix may begin with another's.
	Prefix string
	// SoleMember means that Client is connected to the only member of its cluster, such as an
	// embedded one. Such a member has applied every change that it has acknowledged, so that
	// linearizable reads need no quorum and are faster. If it is set for a member of a larger
	// cluster, reads may be stale. Use one Store per etcd: a read may miss a change that a watcher
	// of another Store has delivered.
	SoleMember bool
	// Timeout bounds a call to a cluster, and six times Timeout bounds a listing. Without it, the
	// client library would retry for minutes while there is no quorum. Zero means 10 seconds,
	// slightly more than etcd takes to report that it has no leader. It does not apply to a sole
	// member.
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
	// shown is the highest revision that a watcher has delivered.
	shown atomic.Int64
	// commits is a semaphore for transactions in progress.
	commits chan struct{}
}

// mostCommits bounds the transactions in progress. etcd applies all waiting transactions together
// and buffers 128 changes for a watcher. A watcher with more to read is delayed by 10 to 100 ms,
// and with it everything that follows the store. Half of that buffer keeps any disk busy.
const mostCommits = 64

var (
	_ storage.Store   = (*Store)(nil)
	_ storage.Current = (*Store)(nil)
)

// New returns a store. It does not connect to etcd yet.
func New(c Config) (*Store, error) {
	if c.Client == nil {
		return nil, errors.New("etcdstore: Client is nil: it is required, and that of an embedded server is nil until the server is ready")
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

// bound returns a context for a call that may take the given number of timeouts.
func (s *Store) bound(ctx context.Context, timeouts time.Duration) (context.Context, context.CancelFunc) {
	if s.timeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, timeouts*s.timeout)
}

// Revision implements [storage.Current]. It counts a key that does not exist. That is a function
// call for a sole member, and otherwise one round trip, for which the member asks its leader.
func (s *Store) Revision(ctx context.Context) (storage.Revision, error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("current revision: %w", err)
	}
	bounded, cancel := s.bound(ctx, 1)
	defer cancel()
	// No record has this key, because keys are not empty.
	response, err := s.read(bounded, s.prefix+"\x00", clientv3.WithCountOnly())
	if err != nil {
		return 0, fmt.Errorf("current revision: %w", translate(ctx, err))
	}
	return storage.Revision(response.Header.Revision), nil
}

// Get implements [storage.Store]. Get, List and Commit check the context themselves, because etcd
// does not check it for every call in process.
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

// read is a linearizable read. For a sole member it is a serializable read, unless a watcher has
// delivered a newer revision: etcd notifies watchers shortly before reads see the change, and a
// caller that has seen an event must not read the state before it.
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

// show records that a watcher is about to deliver the events of revision.
func (s *Store) show(revision storage.Revision) {
	for shown := s.shown.Load(); shown < int64(revision); shown = s.shown.Load() {
		if s.shown.CompareAndSwap(shown, int64(revision)) {
			return
		}
	}
}

// record converts kv.
func (s *Store) record(kv *mvccpb.KeyValue) storage.Record {
	return storage.Record{
		Key:      storage.Key(kv.Key[len(s.prefix):]),
		Value:    slices.Clip(kv.Value),
		Revision: storage.Revision(kv.ModRevision),
		Created:  storage.Revision(kv.CreateRevision),
	}
}

// translate converts an error of etcd to one of package storage, if there is one. The error of ctx
// takes precedence.
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
	case !errors.As(err, &answer) && status.Code(err) == codes.ResourceExhausted && strings.Contains(err.Error(), "message larger than max"):
		// gRPC refused the message. Other errors with this code may come after the commit.
		return fmt.Errorf("%w: %w", storage.ErrInvalid, err)
	}
	return err
}
