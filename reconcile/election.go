package reconcile

import "time"

// LeaseRecord is the contents of a lease, as in coordination.k8s.io/v1.
type LeaseRecord struct {
	// Holder is the identity of the holder; empty if the lease was released.
	Holder string
	// Duration is how long the lease is valid after a renewal.
	Duration time.Duration
	// Acquired and Renewed are from the holder's clock and informative. Decisions depend only on
	// whether the record has changed.
	Acquired, Renewed time.Time
	// Transitions counts the changes of the holder.
	Transitions int
	// UID and Version are set by the store. UID distinguishes this lease from an earlier one of the
	// same name, Version a record from later ones. An empty Version means that there is no lease.
	UID, Version string
}

func (r LeaseRecord) equal(other LeaseRecord) bool {
	return r.Holder == other.Holder && r.Duration == other.Duration && r.Transitions == other.Transitions &&
		r.UID == other.UID && r.Acquired.Equal(other.Acquired) && r.Renewed.Equal(other.Renewed)
}

// election makes the decisions of an Elector, without IO. It knows what was seen of the lease and
// when, by a monotonic clock.
type election struct {
	identity        string
	lease, deadline time.Duration

	known bool
	seen  LeaseRecord
	// at is when the record was last seen to change. The holder has written it earlier, so the time
	// since then has also passed for the holder.
	at time.Duration
	// until is when the current leadership ends unless it is renewed.
	until time.Duration
	// held means that this candidate has the lease and has not seen another's record since. unsure
	// means that a write failed without a later read: it may have been stored.
	held, unsure bool
}

// recordRead records a record that was read by a response that arrived at now.
func (e *election) recordRead(r LeaseRecord, now time.Duration) {
	if !e.known || !e.seen.equal(r) {
		e.at = now
	}
	e.known, e.seen, e.unsure = true, r, false
	if r.Holder != e.identity {
		e.held = false
	}
}

// next returns the record to write now, if the lease is available or held. wall is the time of day.
func (e *election) next(now time.Duration, wall time.Time) (LeaseRecord, bool) {
	if !e.known {
		return LeaseRecord{}, false
	}
	r := LeaseRecord{Holder: e.identity, Duration: e.lease, Acquired: wall, Renewed: wall,
		Transitions: e.seen.Transitions, UID: e.seen.UID, Version: e.seen.Version}
	switch {
	case e.seen.Version == "":
		r.Transitions = 0
	case e.seen.Holder == e.identity:
		r.Acquired = e.seen.Acquired
		// The record must change with every renewal, even if this machine's clock stands still or
		// was set back, because other candidates check for changes. Candidates of client-go compare
		// whole seconds.
		if !r.Renewed.After(e.seen.Renewed) {
			r.Renewed = e.seen.Renewed.Add(time.Second)
		}
	case e.seen.Holder == "" || now >= e.expires():
		r.Transitions++
	default:
		return LeaseRecord{}, false
	}
	return r, true
}

// expires returns when another holder's lease may be taken.
func (e *election) expires() time.Duration {
	duration := e.seen.Duration
	if duration <= 0 {
		duration = e.lease
	}
	return e.at + duration
}

// recordWrite records that the result of next was stored by a request that began at start. No candidate can
// have seen it earlier, so none takes the lease within its duration from start.
func (e *election) recordWrite(r LeaseRecord, start time.Duration) {
	e.known, e.seen, e.at = true, r, start
	e.held, e.unsure, e.until = true, false, start+e.deadline
}

// fence returns the fencing token of the current leadership.
func (e *election) fence() Fence {
	return Fence{UID: e.seen.UID, Term: e.seen.Transitions, Holder: e.identity}
}

// leads reports whether this candidate leads at now.
func (e *election) leads(now time.Duration) bool { return e.held && now < e.until }

// released returns the record that releases a held lease, so that another candidate can take it at
// once, as in client-go.
func (e *election) released(wall time.Time) (LeaseRecord, bool) {
	r := e.seen
	r.Holder, r.Duration, r.Acquired, r.Renewed = "", time.Second, wall, wall
	return r, e.known && e.seen.Version != "" && e.seen.Holder == e.identity
}
