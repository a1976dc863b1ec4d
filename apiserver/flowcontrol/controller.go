package flowcontrol

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Controller lets requests in by the decisions of a Core. It is safe for concurrent use.
type Controller struct {
	epoch time.Time
	// lingers has a value when Run must look at the lingering seats again. Its size of
	// one is enough, because Run looks at all of them.
	lingers chan struct{}

	mu   sync.Mutex
	core *Core // guarded by mu
}

// NewController returns a Controller. Run must be called for seats to be lent between
// levels and for lingering seats to be released while no request arrives or leaves.
func NewController(config Config) (*Controller, error) {
	core, err := New(config, 0)
	if err != nil {
		return nil, err
	}
	return &Controller{epoch: time.Now(), lingers: make(chan struct{}, 1), core: core}, nil
}

// now must be called with mu held, so that the core sees time in order.
func (c *Controller) now() time.Duration { return time.Since(c.epoch) }

// admit wakes the requests that have started. mu must be held.
func admit(started []*Ticket) {
	for _, t := range started {
		if t.admitted != nil {
			close(t.admitted)
		}
	}
}

// Enter returns when r may be handled. The caller must then call Leave once. The error
// is ErrQueueFull, ErrNoSeat, or wraps the cause of ctx, which bounds the time that r
// waits. The ticket of a request with an error only names its schema and level.
func (c *Controller) Enter(ctx context.Context, r *Request) (*Ticket, error) {
	c.mu.Lock()
	t, started, err := c.core.Arrive(c.now(), r)
	admit(started)
	if t.Waiting() {
		t.admitted = make(chan struct{})
	}
	admitted := t.admitted
	c.mu.Unlock()
	if err != nil || admitted == nil {
		return t, err
	}
	select {
	case <-admitted:
		return t, nil
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	started, cancelled := c.core.Cancel(c.now(), t)
	admit(started)
	if !cancelled {
		return t, nil // it was let in at the same moment
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.counts.TimedOut++
	} else {
		t.counts.Cancelled++
	}
	return t, fmt.Errorf("flowcontrol: wait in a queue of level %s: %w", t.level.Name, context.Cause(ctx))
}

// Leave reports whether the request of t was handled. It does nothing when it is called again.
func (c *Controller) Leave(t *Ticket) {
	c.mu.Lock()
	admit(c.core.Leave(c.now(), t))
	linger := t.state == lingering
	c.mu.Unlock()
	if linger {
		select {
		case c.lingers <- struct{}{}:
		default:
		}
	}
}

// Configure replaces the configuration while requests execute and wait, as
// Core.Configure does.
func (c *Controller) Configure(config Config) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	started, err := c.core.Configure(config, c.now())
	admit(started)
	return err
}

// Levels returns the state of all levels.
func (c *Controller) Levels() []LevelStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.core.Levels()
}

// Schemas returns the counts of all schemas.
func (c *Controller) Schemas() []SchemaStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.core.Schemas()
}

// Dump returns the queues of all levels and the requests in them.
func (c *Controller) Dump() []LevelDump {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.core.Dump(c.epoch)
}

// Run adjusts the limits of the levels and releases lingering seats until ctx ends. It
// returns nil. It must run once.
func (c *Controller) Run(ctx context.Context) error {
	adjust := time.NewTicker(AdjustPeriod)
	defer adjust.Stop()
	release := time.NewTimer(AdjustPeriod)
	defer release.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-adjust.C:
			c.mu.Lock()
			admit(c.core.Adjust(c.now()))
			c.mu.Unlock()
		case <-release.C:
		case <-c.lingers:
		}
		c.mu.Lock()
		admit(c.core.Advance(c.now()))
		wait := AdjustPeriod
		if at, ok := c.core.Next(); ok {
			wait = at - c.now()
		}
		c.mu.Unlock()
		release.Reset(wait)
	}
}
