package cache

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/btree"

	"github.com/planekit/planekit/storage"
)

const (
	// degree is the degree of the tree. Copying a node copies 500 bytes.
	degree = 32
	// briefly is how long catchUp first waits for a revision before it requests progress. Usually
	// the store sends the changes within this time. patience is when catchUp gives up.
	briefly  = 5 * time.Millisecond
	patience = 500 * time.Millisecond
)

// ErrBehind means that the changes up to the store's current revision have not arrived in time.
var ErrBehind = errors.New("the copy is behind the store")

// Config configures a Cache.
type Config[T any] struct {
	// Feed delivers the changes. Required.
	Feed *Feed
	// Prefix is the prefix of the records' keys and ends with a slash. Caches of one feed must not
	// have nested prefixes.
	Prefix storage.Key
	// Decode decodes the object of a record. known is the object that Wrote announced for this
	// revision of the record, or the zero T. Decode may be called concurrently.
	Decode func(r storage.Record, known T) (T, error)
	// Fields are the functions by which items are indexed and watches are narrowed.
	Fields map[string]func(T) string
	// History is the number of changes to keep; zero means 4096. Up to a quarter more are kept.
	// Fewer are kept if they are older than FeedConfig.HistoryAge or their records exceed
	// HistoryBytes, which defaults to 8 MiB. The last 64 are always kept.
	History      int
	HistoryBytes int
}

// Item is a record with its decoded object.
type Item[T any] struct {
	storage.Record
	Object T
	// Err is the error of Decode.
	Err error
}

type tree[T any] = btree.BTreeG[*Item[T]]

// state is the state of a cache's copy.
type state int

const (
	unread state = iota
	reading
	current
)

// A Cache is a copy of the records under a prefix. All methods are safe for concurrent use.
type Cache[T any] struct {
	config Config[T]
	// loading holds a token while a goroutine reads the records from the store.
	loading chan struct{}

	mu sync.RWMutex // guards the fields below
	// state is unread before the first read and after changes were missed.
	state state
	// queue holds the changes that arrived during a read; missed is true if some were lost.
	queue  []storage.Event
	missed bool
	// now is the newest state, with every change up to revision. snapshot, if not nil, is an
	// immutable copy of now.
	now      *tree[T]
	snapshot *tree[T]
	revision storage.Revision
	// log holds every change after base; log[i] has number first+i. Entries are never changed, so a
	// slice of log stays valid after mu is released. epoch counts the resets of the log.
	log   []*Event[T]
	base  storage.Revision
	first int64
	epoch int
	// history bounds the log.
	history history
	// waiters wait for the log to grow or to be reset; rounds batches their wake-ups.
	waiters waiters
	rounds  rounds
	// indexes holds the indexes of now, by field.
	indexes map[string]*index[T]
	// past holds recent snapshots, by the revision of their last change.
	past past[T]
	// written holds announced objects whose records have not arrived yet.
	written map[storage.Key]written[T]
}

type written[T any] struct {
	revision storage.Revision
	object   T
}

// New returns a cache. It does not read the store before its first use.
func New[T any](c Config[T]) (*Cache[T], error) {
	switch {
	case c.Feed == nil || c.Decode == nil:
		return nil, errors.New("cache: Feed and Decode must be set")
	case !strings.HasSuffix(string(c.Prefix), "/") || !strings.HasPrefix(string(c.Prefix), string(c.Feed.config.Prefix)):
		return nil, fmt.Errorf("cache: prefix %q must end with a slash and lie under the feed's", c.Prefix)
	case c.History < 0 || c.HistoryBytes < 0:
		return nil, errors.New("cache: History or HistoryBytes is negative")
	}
	if c.History == 0 {
		c.History = defaultHistory
	}
	if c.HistoryBytes == 0 {
		c.HistoryBytes = defaultHistoryBytes
	}
	return &Cache[T]{
		config:  c,
		loading: make(chan struct{}, 1),
		now:     newTree[T](),
		written: map[storage.Key]written[T]{},
		indexes: map[string]*index[T]{},
	}, nil
}

// Close frees the copy and ends the delivery of changes. The cache must not be used by then, and not
// be used again.
func (c *Cache[T]) Close() {
	c.config.Feed.leave(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state, c.queue, c.missed = unread, nil, true
	c.reset(c.revision)
}

func newTree[T any]() *tree[T] {
	return btree.NewG(degree, func(a, b *Item[T]) bool { return a.Key < b.Key })
}

func (c *Cache[T]) root() storage.Key { return c.config.Prefix }

// reached returns the revision up to which the copy has every change, and whether there is a copy.
func (c *Cache[T]) reached() (storage.Revision, bool) {
	// Read the feed first: the changes that it has dispatched are in the copy by now.
	handed := c.config.Feed.delivered()
	c.mu.RLock()
	defer c.mu.RUnlock()
	return max(handed, c.revision), c.state == current
}

// Wait waits until the copy has every change up to revision; zero waits for any copy.
func (c *Cache[T]) Wait(ctx context.Context, revision storage.Revision) error {
	for {
		if _, err := c.ensure(ctx); err != nil {
			return err
		}
		feed := c.config.Feed
		err := feed.readUntil(ctx, func() (<-chan struct{}, bool) {
			if have, ok := c.reached(); !ok || have >= revision {
				return nil, true
			}
			_, moved := feed.progress()
			// Check again: the feed may have advanced before progress returned the channel.
			have, ok := c.reached()
			return moved, !ok || have >= revision
		})
		if err != nil {
			return err
		}
		if _, ok := c.reached(); ok {
			return nil
		}
	}
}

// catchUp waits until the copy has every change that was acknowledged before the call.
func (c *Cache[T]) catchUp(ctx context.Context) error {
	if read, err := c.ensure(ctx); err != nil || read {
		return err
	}
	now, err := c.config.Feed.Now(ctx)
	if err != nil {
		return err
	}
	if have, ok := c.reached(); ok && have >= now {
		return nil
	}
	for began, wait := time.Now(), briefly; time.Since(began) < patience; wait *= 2 {
		err := c.waitTimeout(ctx, wait, now)
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		// The store's last change may be outside the feed's prefix.
		c.config.Feed.requestProgress(ctx)
	}
	return fmt.Errorf("%s at %d: %w", c.config.Prefix, now, ErrBehind)
}

// waitTimeout is Wait with a timeout.
func (c *Cache[T]) waitTimeout(ctx context.Context, wait time.Duration, revision storage.Revision) error {
	soon, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return c.Wait(soon, revision)
}

// Get returns the item of key, including every change that was acknowledged before the call. It
// fails with storage.ErrNotFound if there is none.
func (c *Cache[T]) Get(ctx context.Context, key storage.Key) (*Item[T], error) {
	if err := c.catchUp(ctx); err != nil {
		return nil, err
	}
	if item, ok := c.Peek(key); ok {
		return item, nil
	}
	return nil, fmt.Errorf("get %s: %w", key, storage.ErrNotFound)
}

// Peek returns the item of key in the current copy, which may be old.
func (c *Cache[T]) Peek(key storage.Key) (*Item[T], bool) {
	probe := Item[T]{Record: storage.Record{Key: key}}
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.now.Get(&probe)
}

// Wrote announces the object of a change that the caller has committed, so that it is not decoded
// when the change arrives. The object is shared from then on.
func (c *Cache[T]) Wrote(key storage.Key, revision storage.Revision, object T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == unread || revision <= c.revision || revision <= c.written[key].revision {
		return
	}
	c.written[key] = written[T]{revision, object}
}
