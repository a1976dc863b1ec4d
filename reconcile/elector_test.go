package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/planekit/planekit/reconcile"
)

// sharedLease is a lease that candidates share, and the writes made under it.
type sharedLease struct {
	mu      sync.Mutex
	record  reconcile.LeaseRecord
	version int
	uid     int            // of the current or last lease
	term    int            // the highest term of a write
	terms   map[int]string // the holder of each term
	refused int
}

func (l *sharedLease) put(r reconcile.LeaseRecord) (reconcile.LeaseRecord, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Version != l.record.Version {
		return reconcile.LeaseRecord{}, reconcile.ErrLeaseConflict
	}
	if l.record.Version == "" {
		l.uid++
	}
	l.version++
	r.UID, r.Version = fmt.Sprint(l.uid), fmt.Sprint(l.version)
	l.record = r
	return r, nil
}

func (l *sharedLease) get() reconcile.LeaseRecord {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.record
}

// write is a leader's write, which is refused if a later leader has written.
func (l *sharedLease) write(t *testing.T, f reconcile.Fence) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if whose, ok := l.terms[f.Term]; ok && whose != f.Holder {
		t.Errorf("term %d is of %s and of %s", f.Term, whose, f.Holder)
	}
	l.terms[f.Term] = f.Holder
	if f.Term < l.term {
		l.refused++
		return
	}
	l.term = f.Term
}

// wire is one candidate's connection to the lease. It is slow and loses requests and replies until
// it is healed. The candidate's clock is off by skew.
type wire struct {
	*sharedLease
	random func(n int) int
	skew   time.Duration
	healed func() bool
}

func (w *wire) seconds(n int) time.Duration {
	return time.Duration(w.random(n*1000)) * time.Millisecond
}

// ask sends a request, which may take effect after its caller has given up.
func (w *wire) ask(ctx context.Context, request func()) error {
	if w.healed() {
		request()
		return nil
	}
	arrived := make(chan struct{})
	there, back, lost := w.seconds(1), w.seconds(1), w.random(10)
	if w.random(5) == 0 {
		there = w.seconds(14)
	}
	time.AfterFunc(there, func() {
		if lost > 0 {
			request()
		}
		close(arrived)
	})
	select {
	case <-arrived:
	case <-ctx.Done():
		return ctx.Err()
	}
	if lost <= 1 {
		<-ctx.Done()
		return ctx.Err()
	}
	time.Sleep(back)
	return ctx.Err()
}

func (w *wire) Get(ctx context.Context) (r reconcile.LeaseRecord, err error) {
	var got reconcile.LeaseRecord
	if err := w.ask(ctx, func() { got = w.get() }); err != nil {
		return r, err
	}
	return got, nil
}

func (w *wire) Put(ctx context.Context, r reconcile.LeaseRecord) (reconcile.LeaseRecord, error) {
	var put reconcile.LeaseRecord
	var conflict error
	r.Renewed, r.Acquired = r.Renewed.Add(w.skew), r.Acquired.Add(w.skew)
	if err := w.ask(ctx, func() { put, conflict = w.put(r) }); err != nil {
		return r, err
	}
	return put, conflict
}

// TestElectors: candidates with faulty wires, with clocks an hour off, and with work that takes
// seconds to end, never lead at the same time. When the wires are healed, one leads soon.
func TestElectors(t *testing.T) {
	seeded(t, 60, func(t *testing.T, r *rand.Rand) {
		if refused := electors(t, r, false); refused > 0 {
			t.Errorf("%d writes came too late", refused)
		}
	})
}

// TestElectorsPaused: processes pause for minutes between checking that they lead and writing. A
// write that is too late is refused.
func TestElectorsPaused(t *testing.T) {
	refused := 0
	seeded(t, 60, func(t *testing.T, r *rand.Rand) { refused += electors(t, r, true) })
	if refused == 0 {
		t.Error("nothing was ever written too late")
	}
}

func electors(t *testing.T, r *rand.Rand, pauses bool) (refused int) {
	var mu sync.Mutex
	random := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return r.IntN(n)
	}
	lease := &sharedLease{terms: map[int]string{}}
	start, faulty := time.Now(), 10*time.Minute
	leading, changes, last := map[string]bool{}, 0, ""
	tell := func(who string, leads bool) {
		mu.Lock()
		defer mu.Unlock()
		delete(leading, who)
		if leads {
			if len(leading) > 0 && !pauses {
				t.Errorf("%v: %s leads beside %v", time.Since(start), who, leading)
			}
			leading[who] = true
			if who != last {
				changes++
			}
			last = who
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range 2 + random(2) {
		who := fmt.Sprint("candidate-", i)
		w := &wire{lease, random, time.Duration(random(7200)-3600) * time.Second, func() bool { return time.Since(start) > faulty }}
		work := func(ctx context.Context) error {
			fence, _ := reconcile.FenceOf(ctx)
			tell(who, true)
			defer tell(who, false)
			for ctx.Err() == nil {
				if pauses && random(20) == 0 && !w.healed() {
					time.Sleep(w.seconds(120))
				}
				lease.write(t, fence)
				select {
				case <-time.After(w.seconds(2)):
				case <-ctx.Done():
					time.Sleep(w.seconds(5)) // the 5 s between deadline and expiry
				}
				if random(200) == 0 {
					return errors.New("it failed")
				}
			}
			return ctx.Err()
		}
		elector, err := reconcile.NewElector(reconcile.ElectorConfig{Identity: who, Lease: w, Work: work})
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			for ctx.Err() == nil {
				some, stop := context.WithTimeout(ctx, faulty/20+w.seconds(200))
				if w.healed() {
					some, stop = context.WithCancel(ctx)
				}
				if err := elector.Run(some); err != nil && err.Error() != "it failed" {
					t.Error(err)
				}
				stop()
			}
		})
	}
	// Any lease lasts 15 s, a retry takes 4.4 s, the longest request 14 s, and a paused process
	// needs two minutes.
	time.Sleep(faulty + 3*time.Minute)
	mu.Lock()
	if len(leading) != 1 {
		t.Errorf("when all is well %v lead", leading)
	}
	if changes == 0 {
		t.Error("nobody ever led")
	}
	mu.Unlock()
	cancel()
	all.Wait()
	if holder := lease.get().Holder; holder != "" {
		t.Errorf("%s holds the lease of nobody", holder)
	}
	return lease.refused
}
