package flowcontrol

import (
	"slices"
	"time"
)

// AdjustPeriod is how often Adjust is called.
const AdjustPeriod = 10 * time.Second

// Core decides which requests start and which wait. It is not safe for concurrent use.
//
// The parameter now is the time since any fixed moment. Operations return the requests
// that they started; the slice is valid until the next operation.
type Core struct {
	seats      int
	classifier *classifier
	levels     map[string]*level
	// counts holds the counts of each of the classifier's schemas, in its order.
	counts []*flowCounts
	// order holds the levels in the order of the configuration, then the retired ones:
	// those that are no longer configured and still have requests.
	order []*level
}

// level is a priority level in use.
type level struct {
	Limits
	demand   Demand
	set      *queueSet
	retired  bool
	maxSeats int
}

// New returns a Core without requests. It returns an error that names each wrong field
// if config is not valid.
func New(config Config, now time.Duration) (*Core, error) {
	c := &Core{levels: map[string]*level{}}
	if _, err := c.Configure(config, now); err != nil {
		return nil, err
	}
	return c, nil
}

// Configure replaces the configuration. Requests keep their seats and their places. A
// level that is no longer configured keeps its share until its last request has left.
// An invalid configuration changes nothing.
func (c *Core) Configure(config Config, now time.Duration) (started []*Ticket, err error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	old := c.order
	c.seats, c.classifier, c.order = config.Seats, newClassifier(config.Schemas), nil
	for _, l := range c.levels {
		l.retired = true
	}
	for i := range config.Levels {
		name := config.Levels[i].Name
		l := c.levels[name]
		if l == nil {
			l = &level{set: newQueueSet(config.Levels[i], 0, now)}
			c.levels[name] = l
		} else {
			started = append(started, l.set.configure(now, config.Levels[i])...)
		}
		l.retired = false
		c.order = append(c.order, l)
	}
	for _, l := range old {
		if l.retired {
			c.order = append(c.order, l)
		}
	}
	c.setNominal()
	c.setCounts()
	return append(started, c.Adjust(now)...), nil
}

// setNominal divides the seats of the server by shares.
func (c *Core) setNominal() {
	config := Config{Seats: c.seats}
	for _, l := range c.order {
		config.Levels = append(config.Levels, l.set.level)
	}
	for i, limits := range config.Limits() {
		c.order[i].Limits = limits
		c.order[i].maxSeats = c.order[i].set.level.maxSeats(limits.Nominal)
	}
}

// Adjust lends seats between levels by their demand since the last call.
func (c *Core) Adjust(now time.Duration) (started []*Ticket) {
	for _, l := range c.order {
		started = append(started, l.set.advance(now)...)
	}
	if c.removeRetired() {
		c.setNominal()
	}
	needs := make([]need, len(c.order))
	for i, l := range c.order {
		l.set.demand.reset(&l.demand)
		needs[i] = need{l.Limits, l.demand, l.set.level.Exempt}
	}
	for i, limit := range allot(needs) {
		started = append(started, c.order[i].set.setLimit(now, limit)...)
	}
	return started
}

// removeRetired forgets retired levels without requests. It reports whether there were
// any.
func (c *Core) removeRetired() bool {
	before := len(c.order)
	c.order = slices.DeleteFunc(c.order, func(l *level) bool {
		gone := l.retired && l.set.idle()
		if gone {
			delete(c.levels, l.set.level.Name)
		}
		return gone
	})
	return len(c.order) < before
}

// Classify returns the schema of r and the flow distinguisher within the schema.
func (c *Core) Classify(r *Request) (schema *Schema, flow string) {
	schema = c.classifier.schemas[c.classifier.classify(r)]
	return schema, schema.Flow(r)
}

// Arrive classifies r and starts it, lets it wait, or rejects it with ErrQueueFull or
// ErrNoSeat. It returns a ticket in each case. The started requests include r if it did
// not have to wait. The caller must call Leave for each request that has started and may
// call Cancel for one that waits.
func (c *Core) Arrive(now time.Duration, r *Request) (t *Ticket, started []*Ticket, err error) {
	at := c.classifier.classify(r)
	schema := c.classifier.schemas[at]
	l := c.levels[schema.Level]
	flow := schema.Flow(r)
	t = newTicket(r, schema, flowHash(schema.Name, flow), c.counts[at], l.maxSeats)
	t.flow, t.level = flow, Ref{l.set.level.Name, l.set.level.UID}
	started, err = l.set.arrive(now, t)
	return t, started, err
}

// Leave ends the execution of t. It does nothing if t does not execute.
func (c *Core) Leave(now time.Duration, t *Ticket) (started []*Ticket) {
	return t.set.leave(now, t)
}

// Cancel removes t from its queue, because its time is up or its client has gone. It
// returns false if t does not wait.
func (c *Core) Cancel(now time.Duration, t *Ticket) (started []*Ticket, ok bool) {
	return t.set.cancel(now, t)
}

// Advance releases seats that have lingered.
func (c *Core) Advance(now time.Duration) (started []*Ticket) {
	for _, l := range c.order {
		started = append(started, l.set.advance(now)...)
	}
	return started
}

// Next returns when Advance next has seats to release, or false if none linger.
func (c *Core) Next() (at time.Duration, ok bool) {
	for _, l := range c.order {
		if h := l.set.lingering; len(h) > 0 && (!ok || h[0].release < at) {
			at, ok = h[0].release, true
		}
	}
	return at, ok
}

// LevelStatus is the state of one level.
type LevelStatus struct {
	Name string
	Limits
	// Demand is the demand in the period before the last adjustment.
	Demand
	// Limit is the current limit. It does not bind an exempt level.
	Limit int
	// Executing and Waiting count requests. SeatsInUse includes lingering seats.
	Executing, Waiting, SeatsInUse int
	// SeatsWaiting counts the seats that the waiting requests need.
	SeatsWaiting int
	// Retired levels are no longer configured and still have requests.
	Retired bool
}

// Levels returns the state of all levels.
func (c *Core) Levels() []LevelStatus {
	var out []LevelStatus
	for _, l := range c.order {
		s := l.set
		out = append(out, LevelStatus{s.level.Name, l.Limits, l.demand, s.limit, s.executing, s.waiting, s.inUse, s.waitingSeats, l.retired})
	}
	return out
}
