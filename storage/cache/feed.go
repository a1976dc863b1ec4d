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

// retryEvery is the delay before Run reopens a broken watch.
const retryEvery = 200 * time.Millisecond

// FeedConfig configures a Feed.
type FeedConfig struct {
	// Store is required.
	Store storage.Store
	// Prefix is a common prefix of the keys of all caches of the feed.
	Prefix storage.Key
	// HistoryAge is how long the caches keep old changes while Run runs. Changes are kept at most a
	// quarter longer. Zero means 5 minutes.
	HistoryAge time.Duration
	// Log receives failures of the watch. The zero Logger discards them.
	Log logr.Logger
}

// A Feed follows the changes of a store with one watch and dispatches each change to the caches
// that contain its key. Because all caches share the watch, any change shows every cache how
// current it is.
type Feed struct {
	config    FeedConfig
	revisions revisionReader
	// reading holds a token while a goroutine reads the watch: Run, or, without Run, a reader that
	// waits for a change.
	reading chan struct{}
	// joined is closed when the first cache joins.
	joined chan struct{}

	mu sync.Mutex // guards the fields below
	// members are sorted by prefix.
	members []member
	// revision is the highest revision whose changes have all been dispatched; zero before the
	// first cache joins.
	revision storage.Revision
	// source is the watch; nil while it is closed. Only the holder of the reading token replaces or
	// reads it.
	source storage.Watcher
	// moved, if not nil, is closed when revision advances.
	moved chan struct{}
	// running is true while Run owns the watch, started once a cache has joined.
	running, started bool
}

// member is a Cache of any type.
type member interface {
	root() storage.Key
	// receive applies changes of the member's keys. It is called by one goroutine at a time.
	receive([]storage.Event)
	// invalidate marks the copy as incomplete because changes were missed.
	invalidate()
	// flush delivers batched changes to watches at once.
	flush()
	// age is called at regular intervals and discards old changes.
	age()
}

// NewFeed returns a feed. It does not read the store before a cache does.
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
		config: c, revisions: revisionReader{store: c.Store},
		reading: make(chan struct{}, 1), joined: make(chan struct{}),
	}, nil
}

// Run reads the store's changes until ctx is done, then returns nil. Without Run, changes are read
// only while a caller waits for them.
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
	case f.reading <- struct{}{}:
	case <-ctx.Done():
		return nil
	}
	f.setRunning(true)
	defer func() {
		f.setRunning(false)
		f.closeWatch()
		<-f.reading
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

// setRunning records whether Run owns the watch. When Run stops, batched changes are flushed,
// because readers now drive the watch themselves.
func (f *Feed) setRunning(running bool) {
	f.mu.Lock()
	f.running = running
	members := f.members
	f.mu.Unlock()
	if running {
		return
	}
	for _, m := range members {
		m.flush()
	}
}

func (f *Feed) isRunning() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running
}

// Now returns the store's current revision. Concurrent callers share one request.
func (f *Feed) Now(ctx context.Context) (storage.Revision, error) {
	return f.revisions.Now(ctx)
}

// requestProgress asks the store to report how far the watch has come. It is best effort and safe
// for concurrent use.
func (f *Feed) requestProgress(ctx context.Context) {
	f.mu.Lock()
	source := f.source
	f.mu.Unlock()
	if source != nil {
		_ = storage.RequestProgress(ctx, source)
	}
}

// join adds a cache. The cache must list its records after join returns; the feed then delivers
// every change that the list may lack.
func (f *Feed) join(ctx context.Context, m member) error {
	var now storage.Revision
	if f.delivered() == 0 { // the first cache: the watch begins at the store's revision
		var err error
		if now, err = f.Now(ctx); err != nil {
			return err
		}
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
	// Copy the slice: membersFor returns parts of the old one.
	f.members = append(append(slices.Clone(f.members[:i]), m), f.members[i:]...)
	if !f.started {
		f.started = true
		close(f.joined)
	}
	return nil
}

// leave removes a cache. Changes that are being dispatched may still reach it.
func (f *Feed) leave(m member) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := slices.Index(f.members, m); i >= 0 {
		// Copy the slice: membersFor returns parts of the old one.
		f.members = append(slices.Clone(f.members[:i]), f.members[i+1:]...)
	}
}

func compareRoots(m member, root storage.Key) int {
	return strings.Compare(string(m.root()), string(root))
}

// membersFor returns the caches that contain key. Several caches may share a prefix. The slice must
// not be changed.
func (f *Feed) membersFor(key storage.Key) []member {
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

// advance waits for changes and dispatches them. The caller holds the reading token.
func (f *Feed) advance(ctx context.Context) error {
	if f.source == nil {
		after := f.delivered()
		// The watch is not bound to ctx, because other readers use it later; closeWatch ends it.
		source, err := f.config.Store.Watch(context.Background(), f.config.Prefix, after)
		if err != nil {
			return f.handleWatchError(ctx, err)
		}
		f.setWatch(source)
	}
	events, err := f.source.Next(ctx)
	if err != nil {
		return f.handleWatchError(ctx, err)
	}
	f.dispatch(events)
	return nil
}

// dispatch hands events, which are in order, to the members. Each member gets all its events in one
// call, because events of one revision belong together.
func (f *Feed) dispatch(events []storage.Event) {
	var order []member
	parts := map[member][]storage.Event{}
	for _, event := range events {
		if event.Type == storage.Progress {
			continue
		}
		for _, m := range f.membersFor(event.Record.Key) {
			if parts[m] == nil {
				order = append(order, m)
			}
			parts[m] = append(parts[m], event)
		}
	}
	for _, m := range order {
		m.receive(parts[m])
	}
	if len(events) > 0 {
		f.advanceTo(events[len(events)-1].Revision)
	}
}

// handleWatchError closes the watch after an error. If the store has compacted the next revision,
// all caches must read their records again.
func (f *Feed) handleWatchError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err() // the watch is still usable
	}
	f.closeWatch()
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
		m.invalidate()
	}
	f.advanceTo(now)
	return nil
}

func (f *Feed) closeWatch() {
	if f.source != nil {
		f.source.Close()
		f.setWatch(nil)
	}
}

func (f *Feed) setWatch(source storage.Watcher) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.source = source
}

func (f *Feed) advanceTo(to storage.Revision) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.revision = max(f.revision, to)
	if f.moved != nil {
		close(f.moved)
		f.moved = nil
	}
}

// progress returns the revision up to which changes were dispatched and a channel that is closed
// when it advances.
func (f *Feed) progress() (storage.Revision, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.moved == nil {
		f.moved = make(chan struct{})
	}
	return f.revision, f.moved
}

// delivered returns the revision up to which changes were dispatched.
func (f *Feed) delivered() storage.Revision {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.revision
}

// readUntil waits until ready returns true. ready returns false with a channel that is closed when
// its answer may have changed. While waiting, readUntil reads the watch if no other goroutine does.
func (f *Feed) readUntil(ctx context.Context, ready func() (<-chan struct{}, bool)) error {
	for {
		changed, ok := ready()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case f.reading <- struct{}{}:
			if err := f.readOnce(ctx, ready); err != nil {
				return err
			}
		}
	}
}

// readOnce reads the watch once, unless ready returns true by now, and releases the reading token.
func (f *Feed) readOnce(ctx context.Context, ready func() (<-chan struct{}, bool)) error {
	defer func() { <-f.reading }()
	if _, ok := ready(); ok {
		return nil
	}
	return f.advance(ctx)
}
