package informertest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/planekit/planekit/informer"
	"github.com/planekit/planekit/informer/informertest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type lamp struct {
	room, revision string
	Bulbs          []int
	labels         map[string]*string
	twin           *lamp
}

// witness is a test that is expected to fail.
type witness struct {
	testing.TB
	failures []string
	cleanups []func()
}

func (w *witness) Helper()          {}
func (w *witness) Cleanup(f func()) { w.cleanups = append(w.cleanups, f) }
func (w *witness) Errorf(format string, args ...any) {
	w.failures = append(w.failures, fmt.Sprintf(format, args...))
}

type lamps func(sink informer.Sink[*lamp])

func (l lamps) Sync(ctx context.Context, _ string, sink informer.Sink[*lamp]) error {
	l(sink)
	<-ctx.Done()
	return ctx.Err()
}

// run starts an informer of three lamps, passes it to do, replaces one lamp and ends.
func run(t *testing.T, do func(inf *informer.Informer[*lamp])) []string {
	w := &witness{TB: t}
	replace := make(chan struct{})
	source := lamps(func(sink informer.Sink[*lamp]) {
		on := "on"
		all := []*lamp{{room: "attic", revision: "1", Bulbs: []int{1, 2}}, {room: "hall", revision: "2", labels: map[string]*string{"state": &on}}, {room: "cellar", revision: "3"}}
		for _, l := range all {
			l.twin = l
		}
		sink.Replace("3", all)
		<-replace
		sink.Put("4", &lamp{room: "hall", revision: "4"})
	})
	key := func(l *lamp) string { return l.room }
	inf, err := informer.New(informer.Config[*lamp]{
		Key: key, Revision: func(l *lamp) string { return l.revision }, Source: informertest.DetectMutations(w, informer.Source[*lamp](source), key),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- inf.Run(ctx) }()
	<-inf.Synced()
	do(inf)
	close(replace)
	if err := inf.WaitFor(ctx, "4"); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for _, f := range w.cleanups {
		f()
	}
	return w.failures
}

func TestDetectMutations(t *testing.T) {
	get := func(inf *informer.Informer[*lamp], key string) *lamp {
		l, _ := inf.Get(key)
		return l
	}
	for name, c := range map[string]struct {
		do   func(inf *informer.Informer[*lamp])
		want []string
	}{
		"nobody":       {func(*informer.Informer[*lamp]) {}, nil},
		"an element":   {func(inf *informer.Informer[*lamp]) { get(inf, "attic").Bulbs[1] = 3 }, []string{"attic"}},
		"replaced":     {func(inf *informer.Informer[*lamp]) { *get(inf, "hall").labels["state"] = "off" }, []string{"hall"}},
		"a new entry":  {func(inf *informer.Informer[*lamp]) { get(inf, "hall").labels["x"] = nil }, []string{"hall"}},
		"a nil to nil": {func(inf *informer.Informer[*lamp]) { get(inf, "cellar").Bulbs = nil }, nil},
		"a field":      {func(inf *informer.Informer[*lamp]) { get(inf, "cellar").Bulbs = []int{} }, []string{"cellar"}},
		"two": {func(inf *informer.Informer[*lamp]) {
			get(inf, "cellar").revision = "9"
			get(inf, "attic").twin = nil
		}, []string{"cellar", "attic"}},
	} {
		failures := run(t, c.do)
		if len(failures) != len(c.want) {
			t.Errorf("%s: %q, want %q", name, failures, c.want)
			continue
		}
		for _, key := range c.want {
			if !strings.Contains(strings.Join(failures, "\n"), key+" was changed") {
				t.Errorf("%s: %q, want %q", name, failures, c.want)
			}
		}
	}
}

func TestPrint(t *testing.T) {
	values := []any{nil, 0, 1, int8(1), "", "a", []string{"a", "b"}, []string{"ab"}, []string{"b", "a"}, []string(nil), []string{},
		map[string]int{"a": 1}, map[string]int{"a": 2}, map[string]int{"b": 1}, [2]bool{true}, [2]bool{false, true}, 1.5, complex(0, 1),
		struct{ a, b any }{1, nil}, struct{ a, b any }{nil, 1}, new(1), new(2), TestPrint}
	seen := map[uint64]int{}
	for i, v := range values {
		print := informertest.Print(v)
		if j, ok := seen[print]; ok {
			t.Errorf("%#v and %#v share a print", values[j], v)
		}
		if informertest.Print(v) != print {
			t.Errorf("%#v has two prints", v)
		}
		seen[print] = i
	}
	if informertest.Print(map[int]int{1: 2, 3: 4, 5: 6}) != informertest.Print(map[int]int{5: 6, 3: 4, 1: 2}) {
		t.Error("the order in a map counts")
	}
}
