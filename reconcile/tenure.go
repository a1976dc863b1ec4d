package reconcile

import (
	"context"
	"sync/atomic"
	"time"
)

// A Fence is a fencing token for one term of leadership. A store must reject a write with a lower
// Term than it has seen for the same UID: it comes from a leader that was paused, or from a request
// that was delayed, until another process led.
type Fence struct {
	// UID is the UID of the lease. The terms of leases with different UIDs cannot be compared.
	UID string
	// Term is the lease's count of transitions. It is higher for each holder than for all before
	// it.
	Term int
	// Holder is the identity of the leader.
	Holder string
}

type fenceKey struct{}

// FenceOf returns the fencing token of the leader whose work has the context ctx.
func FenceOf(ctx context.Context) (Fence, bool) {
	f, ok := ctx.Value(fenceKey{}).(Fence)
	return f, ok
}

// tenure is the context of a leader's work. It ends at until, and Err does not depend on a timer:
// after a pause of the process, Err reports the end even if no timer has fired yet.
type tenure struct {
	context.Context
	cancel context.CancelFunc
	fence  Fence
	now    func() time.Duration
	until  atomic.Int64
	timer  *time.Timer
}

func (e *Elector) newTenure(ctx context.Context, state *election) *tenure {
	t := &tenure{fence: state.fence(), now: e.now}
	t.Context, t.cancel = context.WithCancel(context.WithValue(ctx, fenceKey{}, t.fence))
	t.until.Store(int64(state.until))
	t.timer = time.AfterFunc(state.until-e.now(), func() { _ = t.Err() })
	return t
}

// Err implements context.Context.
func (t *tenure) Err() error {
	if t.now() >= time.Duration(t.until.Load()) {
		t.cancel()
	}
	return t.Context.Err()
}

func (t *tenure) extend(until time.Duration) {
	t.until.Store(int64(until))
	t.timer.Reset(until - t.now())
}

func (t *tenure) end() {
	t.timer.Stop()
	t.cancel()
}

// lead runs the work and renews the lease until the work has returned, even after it was cancelled,
// because no other candidate may lead before that. byItself reports whether the work ended on its
// own.
func (e *Elector) lead(ctx context.Context, state *election) (byItself bool, err error) {
	t := e.newTenure(ctx, state)
	defer t.end()
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer stop()
		err = e.config.Work(t)
		byItself = t.Err() == nil
	}()
	tick := time.NewTicker(e.config.RetryPeriod)
	defer tick.Stop()
	for lost := false; ; {
		select {
		case <-ended:
			return byItself, err
		case <-tick.C:
		}
		if !state.held {
			continue
		}
		by := state.until
		if now := e.now(); by <= now {
			by = now + e.config.RenewDeadline
		}
		e.attempt(renewing, state, by)
		switch {
		case lost:
		case !state.leads(e.now()) || state.fence() != t.fence:
			// The lease may already be held again, after it was deleted or held by another
			// candidate. But that is another term than the fence of this work names.
			lost = true
			t.end()
			e.config.Log.Info("lost the lease: the work is to end", "identity", e.config.Identity, "term", t.fence.Term)
		case t.Err() == nil:
			t.extend(state.until)
		}
	}
}

// release releases the lease if the stored record has this candidate as its holder.
func (e *Elector) release(ctx context.Context, state *election) {
	if !state.held && !state.unsure {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.config.RenewDeadline)
	defer cancel()
	r, err := e.config.Lease.Get(ctx)
	if err != nil {
		e.failed(ctx, err, "cannot read the lease to release it")
		return
	}
	state.recordRead(r, e.now())
	if r, ok := state.released(time.Now()); ok {
		if _, err := e.config.Lease.Put(ctx, r); err != nil {
			e.failed(ctx, err, "cannot release the lease")
		}
	}
}
