package informer

import (
	"context"
	"maps"
	"strconv"
	"testing"
)

// value is an object that is not a pointer, and cannot be compared with ==.
type value struct {
	key      string
	revision int
	_        []int
}

// fullSink is the sink that an informer passes to its source.
type fullSink interface {
	Sink[value]
	ListSink[value]
}

type script func(ctx context.Context, sink fullSink)

func (s script) Sync(ctx context.Context, _ string, sink Sink[value]) error {
	s(ctx, sink.(fullSink))
	<-ctx.Done()
	return ctx.Err()
}

func newValues(t *testing.T, s script) (inf *Informer[value], stop func()) {
	inf, err := New(Config[value]{Source: s, Key: func(v value) string { return v.key }, Revision: func(v value) string { return strconv.Itoa(v.revision) }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	return inf, func() {
		go func() { done <- inf.Run(ctx) }()
		if err := inf.WaitFor(ctx, "1000000"); err != nil {
			t.Error(err)
		}
		cancel()
		<-done
	}
}

// TestSlotsAreUsedAgain adds and removes many more objects than exist at any time, also in lists
// that are abandoned.
func TestSlotsAreUsedAgain(t *testing.T) {
	inf, run := newValues(t, func(_ context.Context, sink fullSink) {
		revision := 1
		sink.Replace("1", nil)
		for range 200 {
			sink.Begin()
			for i := range 10 {
				sink.Item(value{key: "listed " + strconv.Itoa(i), revision: revision})
			}
			for i := range 10 {
				revision++
				sink.Put(strconv.Itoa(revision), value{key: strconv.Itoa(revision), revision: revision})
				if i > 0 {
					sink.Remove(strconv.Itoa(revision), value{key: strconv.Itoa(revision)})
				}
			}
			revision++
			sink.Remove(strconv.Itoa(revision), value{key: strconv.Itoa(revision - 10)})
		}
		sink.Bookmark("1000000")
	})
	run()
	if n := inf.Snapshot().Len(); n != 0 {
		t.Errorf("%d objects", n)
	}
	if table := inf.root().objects; table.slots > 100 || int(table.slots) != len(table.free) {
		t.Errorf("%d slots, %d of them free", table.slots, len(table.free))
	}
}

// TestRemoveFromNamespace removes one of several objects of a namespace: the index keeps the
// others.
func TestRemoveFromNamespace(t *testing.T) {
	inf, run := newValues(t, func(_ context.Context, sink fullSink) {
		sink.Replace("4", []value{{key: "x/a", revision: 1}, {key: "x/b", revision: 2}, {key: "x/c", revision: 3}, {key: "z/d", revision: 4}})
		sink.Remove("5", value{key: "x/b"})
		sink.Put("6", value{key: "z/d", revision: 6})
		sink.Put("7", value{key: "y/e", revision: 7})
		sink.Bookmark("1000000")
	})
	spaces := NewIndex(inf, func(v value) []string { return []string{v.key[:1]} })
	run()
	view := inf.Snapshot()
	got := map[string]int{}
	for space := range spaces.Keys(view) {
		got[space] = spaces.Count(view, space)
	}
	if want := map[string]int{"x": 2, "y": 1, "z": 1}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
