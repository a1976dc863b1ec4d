package cache

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/planekit/planekit/storage"
)

// retryEvery is how long Run waits before it opens a broken watch again.
const retryEvery = 200 * time.Millisecond

// FeedConfig says what a Feed follows.
type FeedConfig struct {
	// Store is required.
	Store storage.Store
	// Prefix begins the keys of all caches that the feed is for.
	Prefix storage.Key
	// HistoryAge is how long the caches remember changes at least, and at most a
	// quarter longer, while Run runs; zero is 5 minutes.
	HistoryAge time.Duration
	// Log is silent when zero.
	Log logr.Logger
}

// A Feed follows the changes of a store by one watch and hands each to the
// cache that it concerns. Because one watch carries the changes of all, a cache
// to which nothing happens knows that it is current as soon as any is.
type Feed struct {
	config FeedConfig
	nows   nows
	// turn holds a token while somebody reads the watch: Run, or else whoever
	// waits for what it brings.
	turn chan struct{}
	// joined is closed when there is a first cache.
	joined chan struct{}

	mu sync.Mutex // guards what follows
	// members are sorted by prefix.
	members []member
	// revision is that up to which every change was handed to the members; zero
	// before the beginning.
	revision storage.Revision
	// source is the watch, nil while it is not open. Only who has the turn changes
	// it and reads from it.
	source storage.Watcher
	// moved, when not nil, is closed when revision moves.
	moved chan struct{}
	// running says that Run reads the watch, so that nobody else will.
	running bool
}

// member is a cache, whatever it holds.
type member interface {
	root() storage.Key
	// take applies changes of the member's keys. It is called by one goroutine
	// at a time.
	take([]storage.Event)
	// lose says that changes were missed.
	lose()
	// reveal shows watches at once what they would be shown soon.
	reveal()
	// age is called at regular intervals and forgets changes of several calls ago.
	age()
}

// NewFeed returns a feed. It reads nothing until a cache does.
func NewFeed(c FeedConfig) (*Feed, error) {
	switch {
	case c.Store == nil:
		return nil, errors.New("cache: no store")
	case c.HistoryAge < 0:
		return nil, errors.New("cache: HistoryAge is negative")
	case c.HistoryAge == 0:
		c.HistoryAge = defaultHistoryAge
	}
	return &Feed{
		config: c, nows: nows{store: c.Store},
		turn: make(chan struct{}, 1), joined: make(chan struct{}),
	}, nil
}

// Run reads the store's changes as they come, until ctx is done; then it
// returns nil. Without it they are read when somebody waits for them.
func (f *Feed) Run(ctx context.Context) error {
	aging, stop := context.WithCancel(ctx)
	aged := make(chan struct{})
	go func() {
		defer close(aged)
		f.ageEvery(aging, max(f.config.HistoryAge/ticks, 1))
	}()
	defer func() {
		stop()
		<-aged
	}()
	select {
	case f.turn <- struct{}{}:
	case <-ctx.Done():
		return nil
	}
	f.run(true)
	defer func() {
		f.run(false)
		f.drop()
		<-f.turn
	}()
	select {
	case <-f.joined:
	case <-ctx.Done():
		return nil
	}
	for ctx.Err() == nil {
		err := f.advance(ctx)
		if err == nil || ctx.Err() != nil {
			continue
		}
		f.config.Log.Error(err, "changes of the store cannot be read; trying again")
		select {
		case <-time.After(retryEvery):
		case <-ctx.Done():
		}
	}
	return nil
}

// run notes whether Run reads the watch. Whoever reads it in its stead must not
// have changes before them that they are not shown yet.
func (f *Feed) run(running bool) {
	f.mu.Lock()
	f.running = running
	members := f.members
	f.mu.Unlock()
	if running {
		return
	}
	for _, m := range members {
		m.reveal()
	}
}

func (f *Feed) isRunning() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running
}

// Now returns the store's own revision. Those who ask at the same time share an
// answer.
func (f *Feed) Now(ctx context.Context) (storage.Revision, error) {
	return f.nows.Now(ctx)
}

// ask has the store say how far the watch has come, if it can. Any goroutine may
// call it; where nothing comes of it, so be it.
func (f *Feed) ask(ctx context.Context) {
	f.mu.Lock()
	source := f.source
	f.mu.Unlock()
	if source != nil {
		_ = storage.RequestProgress(ctx, source)
	}
}

// join adds a cache, which from then on gets every change that its own list,
// made afterwards, may lack.
func (f *Feed) join(ctx context.Context, m member) error {
	now, err := f.Now(ctx)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.revision == 0 {
		f.revision = now
	}
	if slices.Contains(f.members, m) {
		return nil
	}
	i, _ := slices.BinarySearchFunc(f.members, m.root(), compareRoots)
	// A slice of its own: of hands out parts of the one before.
	f.members = append(append(slices.Clone(f.members[:i]), m), f.members[i:]...)
	if len(f.members) == 1 {
		close(f.joined)
	}
	return nil
}

func compareRoots(m member, root storage.Key) int {
	return strings.Compare(string(m.root()), string(root))
}

// of returns the caches of key: none, one, or several which show the same
// records in different ways. The slice must not be changed.
func (f *Feed) of(key storage.Key) []member {
	f.mu.Lock()
	defer f.mu.Unlock()
	end, _ := slices.BinarySearchFunc(f.members, key, func(m member, key storage.Key) int {
		if string(m.root()) <= string(key) {
			return -1
		}
		return 1
	})
	if end == 0 || !strings.HasPrefix(string(key), string(f.members[end-1].root())) {
		return nil
	}
	begin := end - 1
	for begin > 0 && f.members[begin-1].root() == f.members[end-1].root() {
		begin--
	}
	return f.members[begin:end]
}

// advance waits for changes and hands them on. The caller has the turn.
func (f *Feed) advance(ctx context.Context) error {
	if f.source == nil {
		after := f.reached()
		// The watch outlives whoever happens to read it; drop ends it.
		source, err := f.config.Store.Watch(context.Background(), f.config.Prefix, after)
		if err != nil {
			return f.broken(ctx, err)
		}
		f.open(source)
	}
	events, err := f.source.Next(ctx)
	if err != nil {
		return f.broken(ctx, err)
	}
	f.pass(events)
	return nil
}

// pass hands events, which are in order, to the members: to each its own at
// once, since events of one revision belong together.
func (f *Feed) pass(events []storage.Event) {
	var order []member
	parts := map[member][]storage.Event{}
	for _, event := range events {
		if event.Type == storage.Progress {
			continue
		}
		for _, m := range f.of(event.Record.Key) {
			if parts[m] == nil {
				order = append(order, m)
			}
			parts[m] = append(parts[m], event)
		}
	}
	for _, m := range order {
		m.take(parts[m])
	}
	if len(events) > 0 {
		f.move(events[len(events)-1].Revision)
	}
}

// broken handles the end of the watch. Where the store has forgotten what comes
// next, all caches begin anew.
func (f *Feed) broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err() // the watch is as it was
	}
	f.drop()
	if !errors.Is(err, storage.ErrCompacted) {
		return err
	}
	now, err := f.Now(ctx)
	if err != nil {
		return err
	}
	f.config.Log.Info("the store has forgotten changes before they were read; reading everything again", "revision", int64(now))
	f.mu.Lock()
	members := slices.Clone(f.members)
	f.mu.Unlock()
	for _, m := range members {
		m.lose()
	}
	f.move(now)
	return nil
}

func (f *Feed) drop() {
	if f.source != nil {
		f.source.Close()
		f.open(nil)
	}
}

func (f *Feed) open(source storage.Watcher) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.source = source
}

func (f *Feed) move(to storage.Revision) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.revision = max(f.revision, to)
	if f.moved != nil {
		close(f.moved)
		f.moved = nil
	}
}

// position returns up to where changes were handed on, and what is closed when
// it changes.
func (f *Feed) position() (storage.Revision, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.moved == nil {
		f.moved = make(chan struct{})
	}
	return f.revision, f.moved
}

// reached returns up to where changes were handed on.
func (f *Feed) reached() storage.Revision {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.revision
}

// until waits for ready to say true, and looks again when the channel that
// comes with false is closed. It reads the watch meanwhile if nobody else does.
func (f *Feed) until(ctx context.Context, ready func() (<-chan struct{}, bool)) error {
	for {
		changed, ok := ready()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case f.turn <- struct{}{}:
			if err := f.inTurn(ctx, ready); err != nil {
				return err
			}
		}
	}
}

// inTurn reads the watch once, unless what is waited for has happened before
// the turn came, and passes the turn on.
func (f *Feed) inTurn(ctx context.Context, ready func() (<-chan struct{}, bool)) error {
	defer func() { <-f.turn }()
	if _, ok := ready(); ok {
		return nil
	}
	return f.advance(ctx)
}
