package informer_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/informer"
)

func TestConfig(t *testing.T) {
	good := informer.Config[*object]{
		Source:   newServer(),
		Key:      func(o *object) string { return o.key },
		Revision: func(*object) string { return "1" },
	}
	if _, err := informer.New(good); err != nil {
		t.Errorf("good config: %v", err)
	}
	for name, spoil := range map[string]func(*informer.Config[*object]){
		"no source":   func(c *informer.Config[*object]) { c.Source = nil },
		"no key":      func(c *informer.Config[*object]) { c.Key = nil },
		"no revision": func(c *informer.Config[*object]) { c.Revision = nil },
	} {
		bad := good
		spoil(&bad)
		if _, err := informer.New(bad); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestRelistIsADiff compacts the history while the informer is disconnected.
func TestRelistIsADiff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		for _, key := range []string{"same", "changed", "gone", "replaced"} {
			s.put(key)
		}
		inf := newInformer(t, s)
		stop := start(t, inf)
		<-inf.Synced()
		same, _ := inf.Get("same")
		var calls []string
		inf.Subscribe(func(old, new *object) {
			switch {
			case old == nil:
				calls = append(calls, "add "+new.key)
			case new == nil:
				calls = append(calls, "delete "+old.key)
			default:
				calls = append(calls, "change "+new.key)
			}
		})
		synctest.Wait()
		calls = nil

		s.refuse = 3
		s.disconnect()
		synctest.Wait()
		s.put("changed")
		s.remove("gone")
		s.remove("replaced")
		s.put("replaced")
		s.put("new")
		s.mu.Lock()
		// The next list has a copy of the unchanged object, like one from a decoder.
		twin := *same
		s.history[0].object = &twin
		s.mu.Unlock()
		s.compact()
		time.Sleep(time.Minute)
		synctest.Wait()

		if got, _ := inf.Get("same"); got != same {
			t.Error("an unchanged object got another pointer")
		}
		slices.Sort(calls)
		want := []string{"add new", "add replaced", "change changed", "delete gone", "delete replaced"}
		if !slices.Equal(calls, want) {
			t.Errorf("calls %v, want %v", calls, want)
		}
		if s.lists != 2 {
			t.Errorf("%d lists, want 2", s.lists)
		}
		stop()
	})
}

// TestReconnect measures the delays between attempts.
func TestReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempts []time.Time
		var froms []string
		source := sourceFunc(func(ctx context.Context, from string, sink informer.Sink[*object]) error {
			attempts, froms = append(attempts, time.Now()), append(froms, from)
			if len(attempts) == 1 {
				sink.Replace("7", nil)
				sink.Bookmark("9")
			}
			return errors.New("broken")
		})
		inf := newInformer(t, source)
		stop := start(t, inf)
		time.Sleep(10 * time.Minute)
		stop()
		if froms[0] != "" || froms[1] != "9" {
			t.Errorf("resumed from %q", froms[:2])
		}
		least := []time.Duration{0, 800 * time.Millisecond, 1600 * time.Millisecond, 3200 * time.Millisecond,
			6400 * time.Millisecond, 12800 * time.Millisecond, 25600 * time.Millisecond, 30 * time.Second, 30 * time.Second}
		for i, low := range least {
			high := max(2*low, 100*time.Millisecond)
			if wait := attempts[i+1].Sub(attempts[i]); wait < low || wait > high {
				t.Errorf("wait %d was %v, want %v to %v", i+1, wait, low, high)
			}
		}
	})
}

type sourceFunc func(ctx context.Context, from string, sink informer.Sink[*object]) error

func (f sourceFunc) Sync(ctx context.Context, from string, sink informer.Sink[*object]) error {
	return f(ctx, from, sink)
}

// TestNeverBackwards feeds old lists and old events.
func TestNeverBackwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := func(key string, revision int) *object { return &object{key: key, revision: revision} }
		source := sourceFunc(func(ctx context.Context, _ string, sink informer.Sink[*object]) error {
			sink.Replace("10", []*object{at("a", 4), at("b", 9)})
			sink.Remove("12", at("b", 12))
			sink.Put("9", at("b", 9))                              // outdated by its deletion
			sink.Put("3", at("a", 3))                              // older than the cached one
			sink.Put("13", at("a", 3))                             // new revision, old object
			sink.Remove("4", at("a", 4))                           // older than the view
			sink.Replace("11", []*object{at("b", 9), at("c", 11)}) // a lagging list
			sink.Bookmark("2")                                     // an old bookmark
			sink.Put("14", at("d", 14))                            // new
			<-ctx.Done()
			return ctx.Err()
		})
		inf := newInformer(t, source)
		stop := start(t, inf)
		synctest.Wait()
		var keys []string
		for o := range inf.All() {
			keys = append(keys, o.String())
		}
		slices.Sort(keys)
		if want := []string{"a@4", "d@14"}; !slices.Equal(keys, want) || inf.Snapshot().Revision() != "14" {
			t.Errorf("%v at %s, want %v at 14", keys, inf.Snapshot().Revision(), want)
		}
		stop()
	})
}

func TestWaitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.put("a")
		inf := newInformer(t, s)
		first := make(chan error, 1)
		go func() { first <- inf.WaitFor(t.Context(), "") }()
		synctest.Wait()
		if len(first) != 0 {
			t.Fatal("WaitFor returned before the first list")
		}
		stop := start(t, inf)
		if err := <-first; err != nil {
			t.Fatal(err)
		}
		if err := inf.WaitFor(t.Context(), "1"); err != nil {
			t.Fatal(err)
		}
		var waits sync.WaitGroup
		for revision := 2; revision < 10; revision++ {
			waits.Go(func() {
				if err := inf.WaitFor(t.Context(), strconv.Itoa(revision)); err != nil {
					t.Error(err)
				}
				if seen, _ := strconv.Atoi(inf.Snapshot().Revision()); seen < revision {
					t.Errorf("waited for %d, got %d", revision, seen)
				}
			})
		}
		for range 8 {
			synctest.Wait()
			s.put("a")
		}
		waits.Wait()

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := inf.WaitFor(ctx, "1000"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the deadline", err)
		}
		time.AfterFunc(time.Second, stop)
		if err := inf.WaitFor(t.Context(), "1000"); !errors.Is(err, informer.ErrStopped) {
			t.Errorf("got %v, want ErrStopped", err)
		}
	})
}

func TestRunTwice(t *testing.T) {
	inf := newInformer(t, newServer())
	start(t, inf)()
	if err := inf.Run(t.Context()); err == nil {
		t.Error("the second Run succeeded")
	}
	defer func() {
		if recover() == nil {
			t.Error("NewIndex after Run did not panic")
		}
	}()
	informer.NewIndex(inf, func(*object) []int { return nil })
}
