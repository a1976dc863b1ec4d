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
	many     []int
}

// fullSink is what an informer gives to its source.
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

// TestSlotsAreUsedAgain has many more objects come and go, and be listed in
// vain, than there are at any time.
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
	if inf.writer.slots > 100 || int(inf.writer.slots) != len(inf.writer.free) {
		t.Errorf("%d slots, %d of them free", inf.writer.slots, len(inf.writer.free))
	}
}

// TestCoalescedValues has one of many values in a page change: of the others
// nothing is told, though they cannot be compared but by their revisions.
func TestCoalescedValues(t *testing.T) {
	told := make(chan struct{})
	inf, run := newValues(t, func(ctx context.Context, sink fullSink) {
		sink.Begin()
		for i := range 50 {
			sink.Item(value{key: strconv.Itoa(i), revision: i + 1})
		}
		sink.End("50")
		<-told
		sink.Put("51", value{key: "7", revision: 51, many: []int{1}})
		<-told
		sink.Bookmark("1000000")
	})
	calls := 0
	inf.Follow(func(e Event[value]) {
		if calls++; calls > 50 && (e.Kind != Changed || e.Old.revision != 8 || e.New.revision != 51) {
			t.Errorf("told of %+v", e)
		}
		if calls >= 50 {
			told <- struct{}{}
		}
	}, Options{Delivery: Coalescing})
	run()
	if calls != 51 {
		t.Errorf("%d calls", calls)
	}
}

// TestRemoveFromNamespace has objects leave a namespace whose key is then found
// through a buffer: the index must not keep what the next key overwrites.
func TestRemoveFromNamespace(t *testing.T) {
	inf, run := newValues(t, func(_ context.Context, sink fullSink) {
		sink.Replace("4", []value{{key: "x/a", revision: 1}, {key: "x/b", revision: 2}, {key: "x/c", revision: 3}, {key: "z/d", revision: 4}})
		sink.Remove("5", value{key: "x/b"})
		sink.Put("6", value{key: "z/d", revision: 6})
		sink.Put("7", value{key: "y/e", revision: 7})
		sink.Bookmark("1000000")
	})
	inf.config.AppendKey = func(b []byte, v value) []byte { return append(b, v.key...) }
	spaces := IndexByNamespace(inf)
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

// TestAppendKeyAndTransform has keys that are made in a buffer, which the next
// one overwrites, and objects that are replaced on their way in.
func TestAppendKeyAndTransform(t *testing.T) {
	inf, run := newValues(t, func(_ context.Context, sink fullSink) {
		sink.Replace("3", []value{{key: "x/a", revision: 1}, {key: "y/b", revision: 2}, {key: "x/c", revision: 3}})
		sink.Put("4", value{key: "x/a", revision: 4})
		sink.Remove("5", value{key: "y/b"})
		sink.Put("6", value{key: "z/d", revision: 6})
		sink.Bookmark("1000000")
	})
	transformed := 0
	inf.config.AppendKey = func(b []byte, v value) []byte { return append(b, v.key...) }
	inf.config.Transform = func(v value) value {
		transformed++
		v.many = []int{v.revision}
		return v
	}
	spaces := IndexByNamespace(inf)
	run()
	view := inf.Snapshot()
	for key, revision := range map[string]int{"x/a": 4, "x/c": 3, "z/d": 6} {
		if v, ok := view.Get(key); !ok || v.revision != revision || len(v.many) != 1 || v.many[0] != revision {
			t.Errorf("%s is %+v", key, v)
		}
	}
	if _, ok := view.Get("y/b"); ok || view.Len() != 3 || spaces.Count(view, "x") != 2 || spaces.Count(view, "y") != 0 || spaces.Count(view, "z") != 1 {
		t.Errorf("%d objects; x has %d, y %d, z %d", view.Len(), spaces.Count(view, "x"), spaces.Count(view, "y"), spaces.Count(view, "z"))
	}
	if transformed != 5 {
		t.Errorf("%d transformed, want each that was stored, once", transformed)
	}
}
