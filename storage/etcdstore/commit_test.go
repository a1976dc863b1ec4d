package etcdstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/etcdstore"
)

// places is the number of transactions of a store that may be in progress.
const places = 64

// A counter stands before an etcd, or is a slow one that agrees to everything,
// and counts the transactions that are under way.
type counter struct {
	clientv3.KV
	// answer has what the slow one says to one transaction after the other. It is
	// nil before an etcd.
	answer chan error

	mu sync.Mutex
	// Under mu: the transactions under way now, the most there ever were, and
	// those that have begun.
	now, most, all int
}

func (c *counter) enter(d int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += d
	c.most = max(c.most, c.now)
	c.all += max(d, 0)
}

func (c *counter) counts() (now, most, all int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now, c.most, c.all
}

func (c *counter) Txn(ctx context.Context) clientv3.Txn {
	if c.answer != nil {
		return &counted{counter: c}
	}
	return &counted{c.KV.Txn(ctx), c}
}

// counted is a transaction that is counted.
type counted struct {
	clientv3.Txn
	counter *counter
}

func (t *counted) If(all ...clientv3.Cmp) clientv3.Txn {
	if t.Txn != nil {
		t.Txn = t.Txn.If(all...)
	}
	return t
}

func (t *counted) Then(all ...clientv3.Op) clientv3.Txn {
	if t.Txn != nil {
		t.Txn = t.Txn.Then(all...)
	}
	return t
}

func (t *counted) Else(all ...clientv3.Op) clientv3.Txn {
	if t.Txn != nil {
		t.Txn = t.Txn.Else(all...)
	}
	return t
}

func (t *counted) Commit() (*clientv3.TxnResponse, error) {
	t.counter.enter(1)
	defer t.counter.enter(-1)
	if t.Txn != nil {
		return t.Txn.Commit()
	}
	err := <-t.counter.answer // however long the caller is willing to wait
	return &clientv3.TxnResponse{Succeeded: true, Header: &pb.ResponseHeader{Revision: 1}}, err
}

func (c *counter) store(t *testing.T, config etcdstore.Config) *etcdstore.Store {
	t.Helper()
	config.Client = clientv3.NewCtxClient(t.Context())
	config.Client.KV = c
	store, err := etcdstore.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// commits begins n creations, and returns where each tells how it ended.
func commits(ctx context.Context, store storage.Store, n int) (ended chan error) {
	ended = make(chan error, n)
	for i := range n {
		go func() {
			_, err := store.Commit(ctx, storage.Change{Key: storage.Key(fmt.Sprintf("/%d", i))})
			ended <- err
		}()
	}
	return ended
}

// want checks, at rest, what is under way and what has begun.
func (c *counter) want(t *testing.T, when string, now, all int) {
	t.Helper()
	synctest.Wait()
	if haveNow, _, haveAll := c.counts(); haveNow != now || haveAll != all {
		t.Errorf("%s: %d transactions are under way of %d that began, want %d of %d", when, haveNow, haveAll, now, all)
	}
}

// TestCommitsWaitTheirTurn: of a hundred changes so many are etcd's business at a
// time. Each that ends, in whatever way, lets the next one in.
func TestCommitsWaitTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counter{answer: make(chan error)}
		store := c.store(t, etcdstore.Config{SoleMember: true})
		ended := commits(t.Context(), store, 100)
		c.want(t, "at first", places, places)
		refusal := errors.New("refused")
		for i, err := range []error{nil, refusal, rpctypes.ErrNoSpace} {
			c.answer <- err
			if got := <-ended; (got == nil) != (err == nil) {
				t.Errorf("answered %v: error %v", err, got)
			}
			c.want(t, "when one has ended", places, places+i+1)
		}
		// The second try of one whose lease is lost has the place of the first.
		c.answer <- rpctypes.ErrLeaseNotFound
		c.want(t, "at a second try", places, places+4)
		for range 97 {
			c.answer <- nil
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		c.want(t, "in the end", 0, 101)
		ended = commits(t.Context(), store, 100)
		c.want(t, "once more", places, 101+places)
		for range 100 {
			c.answer <- nil
			<-ended
		}
		if _, most, _ := c.counts(); most != places {
			t.Errorf("%d transactions were under way at once, want %d", most, places)
		}
	})
}

// TestWaitingCommitsGiveUp: a commit that waits for its turn ends with its context and its timeout,
// leaves nothing in etcd, and occupies no place.
func TestWaitingCommitsGiveUp(t *testing.T) {
	for name, test := range map[string]struct {
		config  etcdstore.Config
		context func(context.Context) (context.Context, context.CancelFunc)
		after   time.Duration
		is      error
		says    string
	}{
		"cancelled": {etcdstore.Config{SoleMember: true}, func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(3*time.Second, cancel)
			return ctx, cancel
		}, 3 * time.Second, context.Canceled, ""},
		"the caller's deadline": {etcdstore.Config{}, func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 3*time.Second)
		}, 3 * time.Second, context.DeadlineExceeded, ""},
		"the store's time-out": {etcdstore.Config{Timeout: 5 * time.Second}, context.WithCancel, 5 * time.Second, nil, "did not answer in time"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &counter{answer: make(chan error)}
				store := c.store(t, test.config)
				long := commits(t.Context(), store, places)
				synctest.Wait()
				began := time.Now()
				ctx, cancel := test.context(t.Context())
				defer cancel()
				if _, _, all := c.counts(); all != places {
					t.Fatalf("%d transactions began, want %d", all, places)
				}
				waiting := commits(ctx, store, 10)
				for range 10 {
					err := <-waiting
					if took := time.Since(began); took != test.after || err == nil || !strings.Contains(err.Error(), test.says) ||
						(test.is != nil && !errors.Is(err, test.is)) {
						t.Errorf("after %v: %v, want %v %s after %v", took, err, test.is, test.says, test.after)
					}
				}
				if _, _, all := c.counts(); all != places {
					t.Errorf("%d who gave up had begun", all-places)
				}
				for range places {
					c.answer <- nil
					if err := <-long; err != nil {
						t.Error(err)
					}
				}
				next := commits(t.Context(), store, 2*places)
				c.want(t, "afterwards", places, 2*places)
				for range 2 * places {
					c.answer <- nil
					if err := <-next; err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// TestManyCommits has an etcd take in many changes at once, all of them.
func TestManyCommits(t *testing.T) {
	c := &counter{KV: serve(t)}
	store := c.store(t, etcdstore.Config{SoleMember: true})
	const many = 1000
	ended := commits(t.Context(), store, many)
	for range many {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if page, err := store.List(t.Context(), "/", storage.ListOptions{}); err != nil || len(page.Records) != many {
		t.Errorf("%d records, error %v", len(page.Records), err)
	}
	if _, most, _ := c.counts(); most > places {
		t.Errorf("%d transactions were under way at once, want %d at most", most, places)
	}
}
