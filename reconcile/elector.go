package reconcile

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/go-logr/logr"
)

// ErrLeaseConflict is what a LeaseStore's Put returns for a record that is not
// the newest.
var ErrLeaseConflict = errors.New("the lease was changed by somebody else")

// LeaseStore is one lease that candidates share. Package lease makes one of
// Kubernetes' Lease objects. It is asked by one goroutine at a time.
type LeaseStore interface {
	// Get returns the newest record, or the zero one if there is none.
	Get(context.Context) (LeaseRecord, error)
	// Put writes a record in the place of the one with its Version, or the first if
	// that is empty, and returns it with its UID and new Version. If there is a newer
	// one, the error is ErrLeaseConflict. After other errors it may be written.
	Put(context.Context, LeaseRecord) (LeaseRecord, error)
}

// LeadConfig describes an Elector. Identity, Lease and Work must be set.
type LeadConfig struct {
	// Identity is who we are. No two processes may have the same, nor a process that
	// of one before it.
	Identity string
	Lease    LeaseStore
	// Work is what the leader does. It must return soon after its context has ended:
	// that happens when the lease is lost, RenewDeadline after it was last renewed,
	// which leaves it LeaseDuration - RenewDeadline before somebody else leads.
	// FenceOf its context is what to mark writes with.
	Work func(context.Context) error
	// LeaseDuration is how long others wait after a renewal, RenewDeadline how long
	// the work goes on after one, and RetryPeriod the time between attempts, for
	// candidates up to 2.2 times as long. Zero is 15 s, 10 s and 2 s, as in Kubernetes.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	// Observe, if set, is told of each holder that is seen to be another than before.
	Observe func(holder string)
	// Log is told of gains, losses and failures. The zero Logger is silent.
	Log logr.Logger
}

// Elector does Work while it has a lease that no other has. At most one leads as
// long as work ends in time, however clocks are set: all times but those that
// people read are taken from the monotonic clock. That stands still while a machine
// is suspended, and a lease that people delete is free at once: for these, and for
// writes that are long on their way, there is the [Fence].
type Elector struct {
	config LeadConfig
	base   time.Time
	holder string
}

// jitter is by how much candidates' retry periods differ, in Kubernetes.
const jitter = 1.2

// NewElector checks config. It starts nothing.
func NewElector(c LeadConfig) (*Elector, error) {
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

// Run waits for the lease, does the work while it has it, and waits for it again
// when it was lost. When ctx is done, the work is cancelled and waited for, with
// the lease kept until it has ended, and the lease released. It returns nil then;
// if the work ended by itself, its error. It may be called again then. A panic of
// the work is not contained.
func (e *Elector) Run(ctx context.Context) error {
	for {
		state := &election{identity: e.config.Identity, lease: e.config.LeaseDuration, deadline: e.config.RenewDeadline}
		if !e.acquire(ctx, state) {
			e.release(ctx, state) // the lease may be ours though the reply was lost
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

// acquire tries until state leads. It returns false when ctx is done.
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

// attempt reads the lease, unless it was ours, and writes it if it may. It ends by
// the time given. Who leads and finds the lease changed looks at once whose it is.
func (e *Elector) attempt(ctx context.Context, state *election, by time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, max(by-e.now(), time.Millisecond))
	defer cancel()
	if conflict := e.request(ctx, state); conflict && state.held {
		e.request(ctx, state)
	}
}

// request is one of an attempt's. It reports whether the lease was changed by
// somebody else since it was read.
func (e *Elector) request(ctx context.Context, state *election) (conflict bool) {
	if !state.held || state.unsure {
		r, err := e.config.Lease.Get(ctx)
		if err != nil {
			e.failed(ctx, err, "cannot read the lease")
			return false
		}
		state.saw(r, e.now())
		e.observe(r.Holder)
	}
	start := e.now()
	r, ok := state.next(start, time.Now())
	if !ok {
		return false
	}
	put, err := e.config.Lease.Put(ctx, r)
	if err == nil {
		state.won(put, start)
		e.observe(put.Holder)
		return false
	}
	// It may be written, or be another's: the next request reads it. What was won
	// before holds until its deadline.
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
