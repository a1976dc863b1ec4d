package reconcile_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/reconcile"
)

// Get and Put implement LeaseStore without faults.
func (l *sharedLease) Get(ctx context.Context) (reconcile.LeaseRecord, error) {
	return l.get(), ctx.Err()
}

func (l *sharedLease) Put(ctx context.Context, r reconcile.LeaseRecord) (reconcile.LeaseRecord, error) {
	if ctx.Err() != nil {
		return r, ctx.Err()
	}
	return l.put(r)
}

// broken is a lease that cannot be reached once it is cut. Its requests then fail late, whatever
// their contexts say.
type broken struct {
	*sharedLease
	cut atomic.Bool
}

func (b *broken) Get(context.Context) (reconcile.LeaseRecord, error) {
	if b.cut.Load() {
		time.Sleep(time.Minute)
		return reconcile.LeaseRecord{}, errors.New("cut")
	}
	return b.get(), nil
}

func (b *broken) Put(_ context.Context, r reconcile.LeaseRecord) (reconcile.LeaseRecord, error) {
	if b.cut.Load() {
		time.Sleep(time.Minute)
		return reconcile.LeaseRecord{}, errors.New("cut")
	}
	return b.put(r)
}

func newElector(t *testing.T, who string, lease reconcile.LeaseStore, work func(context.Context) error) *reconcile.Elector {
	t.Helper()
	e, err := reconcile.NewElector(reconcile.ElectorConfig{Identity: who, Lease: lease, Work: work})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestElectorConfig(t *testing.T) {
	work := func(context.Context) error { return nil }
	for name, c := range map[string]reconcile.ElectorConfig{
		"no identity":           {Lease: &sharedLease{}, Work: work},
		"no lease":              {Identity: "a", Work: work},
		"no work":               {Identity: "a", Lease: &sharedLease{}},
		"deadline after expiry": {Identity: "a", Lease: &sharedLease{}, Work: work, RenewDeadline: 15 * time.Second},
		"one retry at most":     {Identity: "a", Lease: &sharedLease{}, Work: work, RetryPeriod: 9 * time.Second},
		"negative":              {Identity: "a", Lease: &sharedLease{}, Work: work, RetryPeriod: -1},
	} {
		if _, err := reconcile.NewElector(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestLeaseIsKeptWhileWorkEnds: a cancelled elector keeps the lease while its work ends, and then
// releases it.
func TestLeaseIsKeptWhileWorkEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := &sharedLease{}
		elector := newElector(t, "a", lease, func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(time.Minute)
			if r := lease.get(); r.Holder != "a" || time.Since(r.Renewed) > 3*time.Second {
				t.Errorf("while the work ends the lease is %+v", r)
			}
			return ctx.Err()
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := elector.Run(ctx); err != nil {
			t.Error(err)
		}
		if r := lease.get(); r.Holder != "" || r.Transitions != 0 || r.Duration != time.Second {
			t.Errorf("released, the lease is %+v", r)
		}
	})
}

// TestWorkEndsByItself: Run returns the work's error and releases the lease.
func TestWorkEndsByItself(t *testing.T) {
	for _, want := range []error{nil, errors.New("no")} {
		synctest.Test(t, func(t *testing.T) {
			lease := &sharedLease{}
			if err := newElector(t, "a", lease, func(context.Context) error { return want }).Run(t.Context()); err != want {
				t.Error(err)
			}
			if r := lease.get(); r.Holder != "" {
				t.Errorf("the lease is %+v", r)
			}
		})
	}
}

// TestCutOff: work ends at the renew deadline, and its context reports that even before its timer
// fires. Another candidate gets the lease when it has not changed for its duration, whatever the
// clocks say.
func TestCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &sharedLease{}
		mine := &broken{sharedLease: shared}
		start := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		a := newElector(t, "a", mine, func(ctx context.Context) error {
			if f, ok := reconcile.FenceOf(ctx); !ok || f != (reconcile.Fence{UID: "1", Term: 0, Holder: "a"}) {
				t.Errorf("fence %+v", f)
			}
			time.Sleep(3 * time.Second)
			mine.cut.Store(true) // the last renewal was at 2 s
			<-ctx.Done()
			if got := time.Since(start); got != 12*time.Second {
				t.Errorf("the context of the work ended after %v, want 12s", got)
			}
			return nil
		})
		var led time.Duration
		b := newElector(t, "b", shared, func(ctx context.Context) error {
			led = time.Since(start)
			if f, _ := reconcile.FenceOf(ctx); f.Term != 1 || f.Holder != "b" {
				t.Errorf("fence %+v", f)
			}
			<-ctx.Done()
			return nil
		})
		ended := make(chan error, 2)
		go func() { ended <- a.Run(ctx) }()
		synctest.Wait()
		go func() { ended <- b.Run(ctx) }()
		time.Sleep(time.Minute)
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if led < 17*time.Second || led > 17*time.Second+2*4400*time.Millisecond {
			t.Errorf("another led after %v, want 15s after the last renewal and at most two retries more", led)
		}
	})
}

// late is a lease whose replies are late.
type late struct {
	*broken
	by time.Duration
}

func (l *late) Put(ctx context.Context, r reconcile.LeaseRecord) (reconcile.LeaseRecord, error) {
	put, err := l.broken.Put(ctx, r)
	time.Sleep(l.by)
	return put, err
}

// TestLateReply: the renew deadline counts from before the request, because other candidates saw
// the write long before its reply arrived.
func TestLateReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine := &late{&broken{sharedLease: &sharedLease{}}, 6 * time.Second}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		start := time.Now()
		err := newElector(t, "a", mine, func(ctx context.Context) error {
			mine.cut.Store(true)
			<-ctx.Done()
			if got := time.Since(start); got != 10*time.Second {
				t.Errorf("the context of the work ended %v after the request, want 10s", got)
			}
			cancel()
			return nil
		}).Run(ctx)
		if err != nil {
			t.Error(err)
		}
	})
}

// TestReleaseKeepsAnothersLease: an elector does not release a lease that another candidate holds.
func TestReleaseKeepsAnothersLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := &sharedLease{}
		start := time.Now()
		runs := 0
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		err := newElector(t, "a", lease, func(ctx context.Context) error {
			runs++
			r := lease.get()
			r.Holder, r.Renewed = "b", time.Now()
			if _, err := lease.put(r); err != nil {
				t.Error(err)
			}
			<-ctx.Done()
			if got := time.Since(start); got != 2*time.Second {
				t.Errorf("the loss was found after %v: the first renewal conflicts, and then it is read", got)
			}
			return nil
		}).Run(ctx)
		if r := lease.get(); err != nil || r.Holder != "b" || runs != 1 {
			t.Errorf("%v, %d runs, and the lease is %+v", err, runs, r)
		}
	})
}

// TestReleaseReads: release uses the current record, not the last one written: another candidate
// may hold the lease now, or the lease may have a new label.
func TestReleaseReads(t *testing.T) {
	for name, test := range map[string]struct {
		change func(r *reconcile.LeaseRecord)
		want   string
	}{
		"another's": {func(r *reconcile.LeaseRecord) { r.Holder = "b" }, "b"},
		"labelled":  {func(*reconcile.LeaseRecord) {}, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			lease := &sharedLease{}
			err := newElector(t, "a", lease, func(context.Context) error {
				r := lease.get()
				test.change(&r)
				_, err := lease.put(r)
				return err
			}).Run(t.Context())
			if r := lease.get(); err != nil || r.Holder != test.want {
				t.Errorf("%s: %v, and the lease is %+v", name, err, r)
			}
		})
	}
}

// TestAnotherTerm: a leader that holds the lease again after it was deleted or held by another
// candidate has another term. The work ends, and begins again with the fence of that term.
func TestAnotherTerm(t *testing.T) {
	for name, test := range map[string]struct {
		change func(l *sharedLease)
		want   reconcile.Fence
	}{
		"deleted": {func(l *sharedLease) { l.record = reconcile.LeaseRecord{} }, reconcile.Fence{UID: "2", Term: 1, Holder: "a"}},
		"another's in between": {func(l *sharedLease) {
			l.record.Holder, l.record.Version = "", "b's"
			l.record.Transitions++
		}, reconcile.Fence{UID: "1", Term: 3, Holder: "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lease := &sharedLease{}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var fences []reconcile.Fence
				err := newElector(t, "a", lease, func(ctx context.Context) error {
					f, _ := reconcile.FenceOf(ctx)
					if fences = append(fences, f); len(fences) > 1 {
						cancel()
						return nil
					}
					start := time.Now()
					lease.mu.Lock()
					test.change(lease)
					lease.mu.Unlock()
					<-ctx.Done()
					if got := time.Since(start); got != 2*time.Second {
						t.Errorf("the context of the work ended after %v, want the next renewal", got)
					}
					time.Sleep(20 * time.Second)
					if r := lease.get(); r.Holder != "a" {
						t.Errorf("while the work ends the lease is %+v", r)
					}
					return nil
				}).Run(ctx)
				if err != nil || len(fences) != 2 || fences[0] != (reconcile.Fence{UID: "1", Holder: "a"}) || fences[1] != test.want {
					t.Errorf("%v, fences %+v, want the second to be %+v", err, fences, test.want)
				}
			})
		})
	}
}

// TestErrWithoutTimer: the context of the work ends at its deadline even if its timer has not
// fired.
func TestErrWithoutTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine := &broken{sharedLease: &sharedLease{}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := newElector(t, "a", mine, func(ctx context.Context) error {
			mine.cut.Store(true)
			time.AfterFunc(10*time.Second-1, func() {
				if ctx.Err() != nil {
					t.Error("it ended early")
				}
			})
			time.Sleep(10 * time.Second) // due at the same instant as the timer
			if ctx.Err() == nil {
				t.Error("it goes on")
			}
			cancel()
			return nil
		}).Run(ctx)
		if err != nil {
			t.Error(err)
		}
	})
}
