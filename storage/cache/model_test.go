package cache_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/cache"
	"github.com/planekit/planekit/storage/memstore"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const root storage.Key = "/r/a/"

// start returns a cache of root, which is not run, in a store.
func start(t testing.TB, store storage.Store, history int) (*cache.Feed, *cache.Cache[string]) {
	t.Helper()
	feed, err := cache.NewFeed(cache.FeedConfig{Store: store, Prefix: "/r/"})
	if err != nil {
		t.Fatal(err)
	}
	return feed, add(t, feed, root, history)
}

func add(t testing.TB, feed *cache.Feed, prefix storage.Key, history int) *cache.Cache[string] {
	t.Helper()
	c, err := cache.New(cache.Config[string]{Feed: feed, Prefix: prefix, History: history, Decode: decode, Fields: map[string]func(string) string{
		"last": func(object string) string { return object[len(object)-2:] },
	}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var errBad = errors.New("bad")

func decode(r storage.Record, _ string) (string, error) {
	if string(r.Value) == "bad" {
		return "", errBad
	}
	return "<" + string(r.Value) + ">", nil
}

// run runs feed until the test ends.
func run(t testing.TB, feed *cache.Feed) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- feed.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// lines describes records as a cache should have them.
func lines(records []storage.Record) []string {
	var all []string
	for _, r := range records {
		all = append(all, fmt.Sprintf("%s=<%s>@%d/%d", r.Key, r.Value, r.Revision, r.Created))
	}
	return all
}

func linesOf(s cache.Snapshot[string], prefix, after storage.Key) []string {
	var all []string
	for i := range s.All(prefix, after) {
		all = append(all, fmt.Sprintf("%s=%s@%d/%d", i.Key, i.Object, i.Revision, i.Created))
	}
	return all
}

// model does random operations to a store and compares caches with it.
type model struct {
	*testing.T
	random *rand.Rand
	store  *memstore.Store
	feed   *cache.Feed
	caches map[storage.Key]*cache.Cache[string]
	// followers hold what a watch of each cache has made of its events.
	followers map[storage.Key]*follower
	// kept are snapshots with what was in them when they were taken.
	kept map[cache.Snapshot[string]][]string
}

type follower struct {
	watch *cache.Watch[string]
	state map[storage.Key]string
}

// TestModel does random writes, compactions, reads of all kinds and watches, now
// and then with a new cache over the same store, as after a restart.
func TestModel(t *testing.T) {
	for range 20 {
		seed := uint64(time.Now().UnixNano())
		t.Run(fmt.Sprint(seed), func(t *testing.T) { testModel(t, seed) })
	}
}

func testModel(t *testing.T, seed uint64) {
	m := &model{T: t, random: rand.New(rand.NewPCG(seed, 0)), store: memstore.NewHistory(60)}
	m.restart()
	for range 1500 {
		m.step()
	}
	for prefix := range m.caches {
		m.compare(prefix)
	}
	for s, want := range m.kept {
		if got := linesOf(s, "/r/", ""); !slices.Equal(got, want) {
			t.Fatalf("a snapshot at %d became %v, was %v", s.Revision, got, want)
		}
	}
	for _, f := range m.followers {
		f.watch.Close()
	}
}

func (m *model) restart() {
	for _, f := range m.followers {
		f.watch.Close()
	}
	m.kept = map[cache.Snapshot[string]][]string{}
	m.followers, m.caches = map[storage.Key]*follower{}, map[storage.Key]*cache.Cache[string]{}
	m.feed, m.caches[root] = start(m.T, m.store, 1+m.random.IntN(30))
	m.caches["/r/b/"] = add(m.T, m.feed, "/r/b/", 1+m.random.IntN(30))
}

func (m *model) prefix() storage.Key {
	return []storage.Key{root, "/r/b/"}[m.random.IntN(2)]
}

func (m *model) step() {
	switch m.random.IntN(12) {
	case 0:
		m.compare(m.prefix())
	case 1:
		m.exact(m.prefix())
	case 2:
		m.follow(m.prefix())
	case 3:
		if now, _ := m.store.Revision(m.Context()); m.random.IntN(20) == 0 {
			m.store.Compact(m.Context(), now-storage.Revision(m.random.IntN(10)))
		}
	case 4:
		if m.random.IntN(50) == 0 {
			m.restart()
		}
	default:
		m.write(m.prefix() + storage.Key(rune('a'+m.random.IntN(8))))
	}
}

func (m *model) write(key storage.Key) {
	have, err := m.store.Get(m.Context(), key, 0)
	change := storage.Change{Op: storage.Update, Key: key, Value: fmt.Append(nil, m.random.IntN(1000)), Previous: have.Revision}
	switch {
	case errors.Is(err, storage.ErrNotFound):
		change.Op = storage.Create
	case m.random.IntN(3) == 0:
		change.Op, change.Value = storage.Delete, nil
	}
	written, err := m.store.Commit(m.Context(), change)
	if err != nil {
		m.Fatal(err)
	}
	if change.Op != storage.Delete && m.random.IntN(2) == 0 {
		c := m.caches[root]
		if key[:len(root)] != root {
			c = m.caches["/r/b/"]
		}
		c.Wrote(key, written.Revision, "<"+string(change.Value)+">")
	}
}

// compare checks that a consistent read is that of the store.
func (m *model) compare(prefix storage.Key) {
	m.Helper()
	page, err := m.store.List(m.Context(), prefix, storage.ListOptions{})
	if err != nil {
		m.Fatal(err)
	}
	s, err := m.caches[prefix].Current(m.Context())
	if err != nil {
		m.Fatal(err)
	}
	want := lines(page.Records)
	if got := linesOf(s, prefix, ""); !slices.Equal(got, want) || s.Revision != page.Revision || s.Len() != len(want) {
		m.Fatalf("cache at %d: %v\nstore at %d: %v", s.Revision, got, page.Revision, want)
	}
	m.kept[s] = want
	last := fmt.Sprintf("%d>", m.random.IntN(10))
	var matching []string
	for item := range s.All(prefix, "") {
		if strings.HasSuffix(item.Object, last) {
			matching = append(matching, string(item.Key))
		}
	}
	items, revision := m.caches[prefix].Matching("last", last)
	for i, item := range items {
		if len(items) != len(matching) || string(item.Key) != matching[i] {
			m.Fatalf("with %s: %v, want %v", last, items, matching)
		}
	}
	if len(items) != len(matching) || revision != s.Revision {
		m.Fatalf("with %s at %d: %d items, want %v at %d", last, revision, len(items), matching, s.Revision)
	}
	key := prefix + storage.Key(rune('a'+m.random.IntN(8)))
	record, err := m.store.Get(m.Context(), key, 0)
	item, err2 := m.caches[prefix].Get(m.Context(), key)
	if !errors.Is(err2, err) && err != nil && !errors.Is(err, storage.ErrNotFound) || err2 == nil && item.Revision != record.Revision || (err == nil) != (err2 == nil) {
		m.Fatalf("get %s: %v %v, want %v %v", key, item, err2, record, err)
	}
}

// exact checks that a state of the past is as the store remembers it.
func (m *model) exact(prefix storage.Key) {
	m.Helper()
	now, _ := m.store.Revision(m.Context())
	at := max(1, now-storage.Revision(m.random.IntN(40)))
	if err := m.caches[prefix].Wait(m.Context(), at); err != nil {
		m.Fatal(err)
	}
	s, err := m.caches[prefix].At(at)
	if errors.Is(err, storage.ErrCompacted) {
		return
	}
	if err != nil {
		m.Fatal(err)
	}
	after := prefix + storage.Key(rune('a'+m.random.IntN(8)))
	page, err := m.store.List(m.Context(), prefix, storage.ListOptions{At: at, After: after})
	if errors.Is(err, storage.ErrCompacted) {
		return // the cache remembers what the store does not
	}
	if got, want := linesOf(s, prefix, after), lines(page.Records); err != nil || !slices.Equal(got, want) || s.Revision != at {
		m.Fatalf("cache at %d: %v\nstore: %v %v", at, got, want, err)
	}
}

// follow lets a watch catch up, and compares what it has led to.
func (m *model) follow(prefix storage.Key) {
	m.Helper()
	c, f := m.caches[prefix], m.followers[prefix]
	now, _ := m.store.Revision(m.Context())
	if f == nil {
		f = &follower{state: map[storage.Key]string{}}
		at := max(1, now-storage.Revision(m.random.IntN(60)))
		page, err := m.store.List(m.Context(), prefix, storage.ListOptions{At: at})
		if errors.Is(err, storage.ErrCompacted) {
			return
		}
		for _, r := range page.Records {
			f.state[r.Key] = fmt.Sprintf("<%s>@%d", r.Value, r.Revision)
		}
		if f.watch, err = c.Watch(m.Context(), at); err != nil {
			m.Fatal(err)
		}
		m.followers[prefix] = f
	}
	ctx, cancel := context.WithCancel(m.Context())
	cancel() // take what there is
	if err := c.Wait(m.Context(), now); err != nil {
		m.Fatal(err)
	}
	for {
		events, err := f.watch.Next(ctx)
		if errors.Is(err, storage.ErrCompacted) {
			f.watch.Close()
			delete(m.followers, prefix)
			return
		}
		for _, e := range events {
			m.follows(f, e)
		}
		if err != nil {
			break
		}
	}
	if f.watch.Seen() < now {
		return // reading the store's history
	}
	page, _ := m.store.List(m.Context(), prefix, storage.ListOptions{})
	want := map[storage.Key]string{}
	for _, r := range page.Records {
		want[r.Key] = fmt.Sprintf("<%s>@%d", r.Value, r.Revision)
	}
	if !maps.Equal(f.state, want) {
		m.Fatalf("watch led to %v, want %v", f.state, want)
	}
}

// follows applies an event, which must fit what the watch said before.
func (m *model) follows(f *follower, e *cache.Event[string]) {
	m.Helper()
	had := ""
	if e.Previous != nil {
		had = fmt.Sprintf("%s@%d", e.Previous.Object, e.Previous.Revision)
	}
	if have := f.state[e.Key()]; have != had {
		m.Fatalf("%s %s at %d: before it %q, was %q", e.Type, e.Key(), e.Revision, had, have)
	}
	if delete(f.state, e.Key()); e.Item != nil {
		f.state[e.Key()] = fmt.Sprintf("%s@%d", e.Item.Object, e.Item.Revision)
	}
}
