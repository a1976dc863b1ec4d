package reconcile

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/go-logr/logr"
)

// ErrLeaseConflict is returned by LeaseStore.Put if the record is not the newest.
var ErrLeaseConflict = errors.New("the lease was changed by another process")

// LeaseStore is a lease that candidates share. Package lease implements it with Kubernetes' Lease
// objects. It is called by one goroutine at a time.
type LeaseStore interface {
	// Get returns the newest record, or the zero one if there is none.
	Get(context.Context) (LeaseRecord, error)
	// Put replaces the record with the same Version, or creates the first if Version is empty, and
	// returns the record with its UID and new Version. If there is a newer record, it returns
	// ErrLeaseConflict. After other errors the record may have been stored.
	Put(context.Context, LeaseRecord) (LeaseRecord, error)
}

// ElectorConfig configures an Elector. Identity, Lease and Work are required.
type ElectorConfig struct {
	// Identity identifies this process. It must differ from those of all other and earlier
	// processes.
	Identity string
	Lease    LeaseStore
	// Work is the leader's work. It must return soon after its context has ended. The context ends
	// when the lease is lost, RenewDeadline after its last renewal, which leaves LeaseDuration -
	// RenewDeadline before another candidate can lead. FenceOf returns the fencing token of the
	// context.
	Work func(context.Context) error
	// LeaseDuration is how long other candidates wait after a renewal, RenewDeadline how long the
	// work continues after one, and RetryPeriod the time between attempts, up to 2.2 times as long
	// for candidates. Zero means 15 s, 10 s and 2 s, as in Kubernetes.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	// Observe, if set, is called with each new holder.
	Observe func(holder string)
	// Log receives gains, losses and failures. The zero Logger discards them.
	Log logr.Logger
}

// Elector runs Work while it holds a lease. At most one process leads as long as Work ends in time,
// whatever the clocks say: decisions use only the monotonic clock. That clock stops while a machine
// is suspended, and a deleted lease is free at once. For these cases, and for writes that are
// delayed, use the [Fence].
type Elector struct {
	config ElectorConfig
	base   time.Time
	holder string
}

// jitter is the maximum relative difference of candidates' retry periods, as in Kubernetes.
const jitter = 1.2

// NewElector returns an elector. It starts nothing.
func NewElector(c ElectorConfig) (*Elector, error) {
	if c.LeaseDuration == 0 {
		c.LeaseDuration = 15 * time.Second
	}
	if c.RenewDeadline == 0 {
		c.RenewDeadline = 10 * time.Second
	}
	if c.RetryPeriod == 0 {
		c.RetryPeriod = 2 * time.Second
	}
	switch {
	case c.Identity == "":
		return nil, errors.New("reconcile: elector: no Identity")
	case c.Lease == nil:
		return nil, errors.New("reconcile: elector: no Lease")
	case c.Work == nil:
		return nil, errors.New("reconcile: elector: no Work")
	case c.LeaseDuration < 0 || c.RenewDeadline < 0 || c.RetryPeriod < 0:
		return nil, errors.New("reconcile: elector: negative LeaseDuration, RenewDeadline or RetryPeriod")
	case c.LeaseDuration <= c.RenewDeadline:
		return nil, errors.New("reconcile: elector: LeaseDuration must be longer than RenewDeadline")
	case float64(c.RenewDeadline) <= jitter*float64(c.RetryPeriod):
		return nil, errors.New("reconcile: elector: RenewDeadline must be longer than RetryPeriod with its jitter")
	}
	return &Elector{config: c, base: time.Now()}, nil
}

// Run waits for the lease, runs the work while it holds the lease, and waits again after losing it.
// When ctx is done, it cancels the work, waits for it with the lease held, releases the lease and
// returns nil. If the work ends by itself, Run returns its error. Run may then be called again. It
// does not recover from panics of the work.
func (e *Elector) Run(ctx context.Context) error {
	for {
		state := &election{identity: e.config.Identity, lease: e.config.LeaseDuration, deadline: e.config.RenewDeadline}
		if !e.acquire(ctx, state) {
			e.release(ctx, state) // the lease may be held although the response was lost
			return nil
		}
		e.config.Log.Info("leading", "identity", e.config.Identity, "term", state.seen.Transitions)
		ended, err := e.lead(ctx, state)
		e.config.Log.Info("no longer leading", "identity", e.config.Identity, "term", state.seen.Transitions)
		e.release(ctx, state)
		if ended {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

func (e *Elector) now() time.Duration { return time.Since(e.base) }

// acquire tries to get the lease until state leads. It returns false when ctx is done.
func (e *Elector) acquire(ctx context.Context, state *election) bool {
	for ctx.Err() == nil {
		e.attempt(ctx, state, e.now()+e.config.RenewDeadline)
		if state.leads(e.now()) {
			return true
		}
		pause(ctx, time.Duration(float64(e.config.RetryPeriod)*(1+jitter*rand.Float64())))
	}
	return false
}

// attempt reads the lease, unless it is held, and writes it if possible, until the given time. A
// leader that finds the lease changed reads it at once.
func (e *Elector) attempt(ctx context.Context, state *election, by time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, max(by-e.now(), time.Millisecond))
	defer cancel()
	if conflict := e.request(ctx, state); conflict && state.held {
		e.request(ctx, state)
	}
}

// request makes one request of an attempt. It reports whether another process has changed the lease
// since it was read.
func (e *Elector) request(ctx context.Context, state *election) (conflict bool) {
	if !state.held || state.unsure {
		r, err := e.config.Lease.Get(ctx)
		if err != nil {
			e.failed(ctx, err, "cannot read the lease")
			return false
		}
		state.recordRead(r, e.now())
		e.observe(r.Holder)
	}
	start := e.now()
	r, ok := state.next(start, time.Now())
	if !ok {
		return false
	}
	put, err := e.config.Lease.Put(ctx, r)
	if err == nil {
		state.recordWrite(put, start)
		e.observe(put.Holder)
		return false
	}
	// The record may have been stored or not: the next request reads it. The current leadership is
	// valid until its deadline.
	state.unsure = true
	if errors.Is(err, ErrLeaseConflict) {
		return true
	}
	e.failed(ctx, err, "cannot write the lease")
	return false
}

func (e *Elector) failed(ctx context.Context, err error, message string) {
	if !errors.Is(ctx.Err(), context.Canceled) {
		e.config.Log.Error(err, message)
	}
}

func (e *Elector) observe(holder string) {
	if holder != e.holder && e.config.Observe != nil {
		e.config.Observe(holder)
	}
	e.holder = holder
}

func pause(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
