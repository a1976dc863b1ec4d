package controllers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/reconcile"
	"github.com/planekit/planekit/reconcile/controllers"
)

// playhouse is a table of controllers under the control of the test.
type playhouse struct {
	mu sync.Mutex
	// started counts by name; running are those that run now.
	started, running map[string]int
	// end, by name, ends a run when something is sent: an error, or a panic.
	end map[string]chan error
}

var errPanic = errors.New("panic")

func newPlayhouse(names ...string) (*playhouse, []controllers.Registration) {
	s := &playhouse{started: map[string]int{}, running: map[string]int{}, end: map[string]chan error{}}
	var table []controllers.Registration
	for _, name := range names {
		s.end[name] = make(chan error)
		table = append(table, controllers.Registration{Name: name + "-controller", Alias: name, Start: func() (controllers.Runner, error) {
			return runner(func(ctx context.Context) error { return s.run(ctx, name) }), nil
		}})
	}
	return s, table
}

func (s *playhouse) run(ctx context.Context, name string) error {
	s.count(name, 1)
	defer s.count(name, -1)
	select {
	case <-ctx.Done():
		return nil
	case err := <-s.end[name]:
		if errors.Is(err, errPanic) {
			panic("out of order")
		}
		return err
	}
}

func (s *playhouse) count(name string, more int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started[name] += max(0, more)
	s.running[name] += more
}

// runs is which controllers run, by name, with how often they were started.
func (s *playhouse) runs() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []string
	for name, n := range s.running {
		if n > 0 {
			list = append(list, fmt.Sprintf("%s:%d/%d", name, n, s.started[name]))
		}
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// TestManagerChoice has the rules of kube-controller-manager's --controllers.
func TestManagerChoice(t *testing.T) {
	for _, test := range []struct{ choose, want string }{
		{"*", "a b c"}, {"nil", "a b c"}, {"", ""},
		{"a", "a"}, {"a-controller", "a"}, {"c a", "a c"},
		{"* -b", "a c"}, {"-b *", "a c"}, {"* -b-controller", "a c"},
		{"-a", ""}, {"b -b *", "a b c"}, {"-b b *", "a c"},
		{"* d", "!d"}, {"* -d", "!d"}, {"--a", "!-a"},
	} {
		choose := strings.Fields(test.choose)
		if choose == nil {
			choose = []string{}
		}
		if test.choose == "nil" {
			choose = nil
		}
		_, table := newPlayhouse("a", "b", "c")
		m, err := controllers.NewManager(controllers.ManagerConfig{Controllers: table, Choose: choose})
		if err != nil {
			if got := "!" + strings.Split(err.Error(), `"`)[1]; got != test.want {
				t.Errorf("NewManager() with Choose %q: %v, want %q, where ! means an error about the name", test.choose, err, test.want)
			}
			continue
		}
		if got := strings.ReplaceAll(strings.Join(m.Names(), " "), "-controller", ""); got != test.want {
			t.Errorf("%q: %q, want %q", test.choose, got, test.want)
		}
	}
}

func TestManagerConfig(t *testing.T) {
	_, table := newPlayhouse("a", "b")
	for name, controllersTable := range map[string][]controllers.Registration{
		"none": nil, "no name": {{Start: table[0].Start}}, "no start": {{Name: "a"}},
		"a name twice": {table[0], table[0]}, "an alias that is a name": {table[0], {Name: "a", Start: table[0].Start}},
	} {
		if _, err := controllers.NewManager(controllers.ManagerConfig{Controllers: controllersTable}); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// A controller that fails, panics or ends is said to, waits, and runs again; the
// others run on.
func TestManagerRestarts(t *testing.T) {
	for name, end := range map[string]error{"broken": errors.New("broken"), "panic: out of order": errPanic, "ended by itself": nil} {
		synctest.Test(t, func(t *testing.T) {
			s, table := newPlayhouse("a", "b")
			m := must[*controllers.Manager](t)(controllers.NewManager(controllers.ManagerConfig{Controllers: table}))
			p := launch(t, func(context.Context) []controllers.Runner { return []controllers.Runner{m} })
			synctest.Wait()
			if got := s.runs(); got != "a:1/1 b:1/1" || m.Check() != nil {
				t.Errorf("%s: at first %s, %v", name, got, m.Check())
			}
			for i, wait := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
				s.end["a"] <- end
				time.Sleep(wait*time.Second - time.Millisecond)
				synctest.Wait()
				if got := s.runs(); got != "b:1/1" {
					t.Errorf("%s: %s after failure %d", name, got, i)
				}
				time.Sleep(2 * time.Millisecond)
				synctest.Wait()
				if got, want := s.runs(), fmt.Sprintf("a:1/%d b:1/1", i+2); got != want {
					t.Errorf("%s: %s after failure %d, want %s", name, got, i, want)
				}
				if err := m.Check(); err == nil || !strings.Contains(err.Error(), "a-controller: "+name) {
					t.Errorf("%s: check: %v", name, err)
				}
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if err := m.Check(); err != nil {
				t.Errorf("%s: it runs well and is said not to: %v", name, err)
			}
			s.end["a"] <- end
			time.Sleep(time.Second + time.Millisecond)
			synctest.Wait()
			if got := s.runs(); got != "a:1/10 b:1/1" {
				t.Errorf("%s: %s: after it ran well it waits as at first", name, got)
			}
			p.stop(t)
			if got := s.runs(); got != "" || m.Check() != nil {
				t.Errorf("%s: %s run when Run has ended, %v", name, got, m.Check())
			}
		})
	}
}

// One that cannot be made ends the manager, at first and later.
func TestManagerCannotMake(t *testing.T) {
	for _, at := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			s, table := newPlayhouse("a", "b")
			start, n := table[1].Start, 0
			table[1].Start = func() (controllers.Runner, error) {
				if n++; n > at {
					return nil, errors.New("no such thing")
				}
				return start()
			}
			m := must[*controllers.Manager](t)(controllers.NewManager(controllers.ManagerConfig{Controllers: table}))
			done := make(chan error, 1)
			go func() { done <- m.Run(t.Context()) }()
			synctest.Wait()
			if at > 0 {
				s.end["b"] <- nil
				time.Sleep(time.Second)
			}
			synctest.Wait()
			select {
			case err := <-done:
				if err == nil || err.Error() != "controllers: b-controller: no such thing" || s.runs() != "" {
					t.Errorf("%v, and %s run", err, s.runs())
				}
			default:
				t.Fatal("it goes on")
			}
		})
	}
}

// sharedLease is a lease in memory, which cannot be reached while it is cut off.
type sharedLease struct {
	mu     sync.Mutex
	record reconcile.LeaseRecord
	cut    map[string]bool // by identity
}

type leaseOf struct {
	*sharedLease
	identity string
}

func (l leaseOf) Get(context.Context) (reconcile.LeaseRecord, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut[l.identity] {
		return reconcile.LeaseRecord{}, errLost
	}
	return l.record, nil
}

func (l leaseOf) Put(_ context.Context, r reconcile.LeaseRecord) (reconcile.LeaseRecord, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.cut[l.identity]:
		return reconcile.LeaseRecord{}, errLost
	case r.Version != l.record.Version:
		return reconcile.LeaseRecord{}, reconcile.ErrLeaseConflict
	}
	r.UID, r.Version = "lease", r.Version+"1"
	l.record = r
	return r, nil
}

// TestManagerBehindElection has two processes share a lease: the controllers of one run, and when
// it is cut off from the lease, or ends, those of the other; never those of both. A process that
// leads again makes new controllers.
func TestManagerBehindElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &sharedLease{cut: map[string]bool{}}
		stages, stop := map[string]*playhouse{}, map[string]func(){}
		for _, name := range []string{"one", "two"} {
			s, table := newPlayhouse("a", "b")
			stages[name] = s
			m := must[*controllers.Manager](t)(controllers.NewManager(controllers.ManagerConfig{Controllers: table}))
			e := must[*reconcile.Elector](t)(reconcile.NewElector(reconcile.ElectorConfig{Identity: name, Lease: leaseOf{shared, name}, Work: m.Run}))
			p := launch(t, func(context.Context) []controllers.Runner { return []controllers.Runner{e} })
			stop[name] = func() { p.stop(t) }
			synctest.Wait()
		}
		want := func(step, one, two string) {
			t.Helper()
			synctest.Wait()
			if got1, got2 := stages["one"].runs(), stages["two"].runs(); got1 != one || got2 != two {
				t.Errorf("%s: %q and %q run", step, got1, got2)
			}
		}
		cut := func(name string, is bool) {
			shared.mu.Lock()
			defer shared.mu.Unlock()
			shared.cut[name] = is
		}
		// watched lets time go by and sees to it that never both run.
		watched := func(d time.Duration) {
			t.Helper()
			for range d / (100 * time.Millisecond) {
				time.Sleep(100 * time.Millisecond)
				synctest.Wait()
				if stages["one"].runs() != "" && stages["two"].runs() != "" {
					t.Fatal("both run")
				}
			}
		}
		watched(time.Minute)
		want("at first", "a:1/1 b:1/1", "")
		cut("one", true)
		watched(time.Minute)
		want("one is cut off", "", "a:1/1 b:1/1")
		cut("one", false)
		watched(time.Minute)
		want("one is back", "", "a:1/1 b:1/1")
		stop["two"]()
		watched(10 * time.Second)
		want("two has ended", "a:1/2 b:1/2", "")
		stop["one"]()
	})
}
