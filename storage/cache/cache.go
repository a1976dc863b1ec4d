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
	// degree of the tree: a node that is copied is 500 bytes.
	degree = 32
	// briefly is the wait for a revision that the store has, whose changes it sends
	// at once, before it is asked how far it has come; patience is when to stop
	// asking.
	briefly  = 5 * time.Millisecond
	patience = 500 * time.Millisecond
)

// ErrBehind says that the changes up to the store's revision have not arrived.
var ErrBehind = errors.New("the copy is behind the store")

// Config says what a Cache holds.
type Config[T any] struct {
	// Feed brings the changes. Required.
	Feed *Feed
	// Prefix begins the keys of the records and ends with a slash. No other cache
	// of the feed may have one that begins with it.
	Prefix storage.Key
	// Decode makes the object of a record. known is what Wrote announced for this
	// very record, or the zero T. It may be called by several goroutines at once.
	Decode func(r storage.Record, known T) (T, error)
	// Fields are what items can be found by and watches narrowed to.
	Fields map[string]func(T) string
	// History is how many changes are remembered; zero is 4096. They are up to a
	// quarter more, and fewer where they are older than FeedConfig.HistoryAge or
	// their records take more than HistoryBytes, of which zero is 8 MiB. The last 64
	// are remembered however large they are.
	History      int
	HistoryBytes int
}

// Item is a record with its object.
type Item[T any] struct {
	storage.Record
	Object T
	// Err says why the record could not be decoded.
	Err error
}

type tree[T any] = btree.BTreeG[*Item[T]]

// state says how much a cache knows.
type state int

const (
	unread state = iota
	reading
	current
)

// A Cache is a copy of the records under a prefix. All methods are safe for
// concurrent use.
type Cache[T any] struct {
	config Config[T]
	// turn holds a token while somebody reads the records from the store.
	turn chan struct{}

	mu sync.RWMutex // guards what follows
	// state is unread until the first read and after changes were missed.
	state state
	// queue are the changes that came while reading; missed says that some did
	// not.
	queue  []storage.Event
	missed bool
	// now is the newest state, with every change up to revision. snapshot, when
	// not nil, equals it and is immutable.
	now      *tree[T]
	snapshot *tree[T]
	revision storage.Revision
	// log is every change after base; log[i] is number first+i. Entries are
	// never changed, so a slice of it stays good after mu is released. epoch
	// counts the logs there were.
	log   []*Event[T]
	base  storage.Revision
	first int64
	epoch int
	// history says how much of log there is.
	history history
	// waiters wait for log to grow or to end, rounds says when they are told.
	waiters waiters
	rounds  rounds
	// indexes are of now, by field.
	indexes map[string]*index[T]
	// past are states that were asked for, by the revision of their last change.
	past past[T]
	// written are objects whose records have not come by the feed yet.
	written map[storage.Key]written[T]
}

type written[T any] struct {
	revision storage.Revision
	object   T
}

// New returns a cache. It reads nothing until it is asked.
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
		turn:    make(chan struct{}, 1),
		now:     newTree[T](),
		written: map[storage.Key]written[T]{},
		indexes: map[string]*index[T]{},
	}, nil
}

func newTree[T any]() *tree[T] {
	return btree.NewG(degree, func(a, b *Item[T]) bool { return a.Key < b.Key })
}

func (c *Cache[T]) root() storage.Key { return c.config.Prefix }

// reached returns the revision up to which the copy has every change, and
// whether there is a copy.
func (c *Cache[T]) reached() (storage.Revision, bool) {
	// In this order: what the feed had handed on then is in the copy by now.
	handed := c.config.Feed.reached()
	c.mu.RLock()
	defer c.mu.RUnlock()
	return max(handed, c.revision), c.state == current
}

// Wait returns when the copy has every change up to revision; zero is any copy.
func (c *Cache[T]) Wait(ctx context.Context, revision storage.Revision) error {
	for {
		if err := c.ensure(ctx); err != nil {
			return err
		}
		feed := c.config.Feed
		err := feed.until(ctx, func() (<-chan struct{}, bool) {
			if have, ok := c.reached(); !ok || have >= revision {
				return nil, true
			}
			_, moved := feed.position()
			// Once more, for it may have moved before moved was taken.
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

// catchUp waits until the copy has every change that was acknowledged before
// the call.
func (c *Cache[T]) catchUp(ctx context.Context) error {
	if err := c.ensure(ctx); err != nil {
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
		err := c.within(ctx, wait, now)
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		// Perhaps the store's last change is none of the feed's.
		c.config.Feed.ask(ctx)
	}
	return fmt.Errorf("%s at %d: %w", c.config.Prefix, now, ErrBehind)
}

// within is Wait for so long.
func (c *Cache[T]) within(ctx context.Context, wait time.Duration, revision storage.Revision) error {
	soon, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return c.Wait(soon, revision)
}

// Get returns the item of key with every change that was acknowledged before
// the call; storage.ErrNotFound when there is none.
func (c *Cache[T]) Get(ctx context.Context, key storage.Key) (*Item[T], error) {
	if err := c.catchUp(ctx); err != nil {
		return nil, err
	}
	if item, ok := c.Peek(key); ok {
		return item, nil
	}
	return nil, fmt.Errorf("get %s: %w", key, storage.ErrNotFound)
}

// Peek returns the item of key as the copy has it at the moment, if it does. It
// may be old.
func (c *Cache[T]) Peek(key storage.Key) (*Item[T], bool) {
	probe := Item[T]{Record: storage.Record{Key: key}}
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.now.Get(&probe)
}

// Wrote announces the object of a change that the caller has committed, so that
// it need not be decoded when the change comes by the feed. The object is
// shared from then on.
func (c *Cache[T]) Wrote(key storage.Key, revision storage.Revision, object T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == unread || revision <= c.revision || revision <= c.written[key].revision {
		return
	}
	c.written[key] = written[T]{revision, object}
}
