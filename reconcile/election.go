package reconcile

import "time"

// LeaseRecord is what a lease says. It is that of coordination.k8s.io/v1.
type LeaseRecord struct {
	// Holder is the identity of who has it. Empty is nobody: it was released.
	Holder string
	// Duration is for how long it is the holder's after a renewal.
	Duration time.Duration
	// Acquired and Renewed are by the holder's clock, for people to read: nothing
	// is decided by them but whether the record has changed.
	Acquired, Renewed time.Time
	// Transitions is how often it went from one holder to another.
	Transitions int
	// UID and Version are the store's: they tell this lease from an earlier one of
	// its name, and a record from later ones. An empty Version is no lease.
	UID, Version string
}

func (r LeaseRecord) says(other LeaseRecord) bool {
	return r.Holder == other.Holder && r.Duration == other.Duration && r.Transitions == other.Transitions &&
		r.UID == other.UID && r.Acquired.Equal(other.Acquired) && r.Renewed.Equal(other.Renewed)
}

// election decides. It knows what was seen of the lease and when, by a monotonic
// clock, and does nothing by itself.
type election struct {
	identity        string
	lease, deadline time.Duration

	known bool
	seen  LeaseRecord
	// at is when what the lease says was seen to change. Its holder wrote it before
	// that, so what has lasted since then has lasted for the holder as well.
	at time.Duration
	// until is when the leadership won last ends, if it is not won again.
	until time.Duration
	// held says that we won and have seen nobody else's record since, unsure that a
	// write failed and nothing was read since: it may have been written.
	held, unsure bool
}

// saw takes note of a record that was read, the reply having come at now.
func (e *election) saw(r LeaseRecord, now time.Duration) {
	if !e.known || !e.seen.says(r) {
		e.at = now
	}
	e.known, e.seen, e.unsure = true, r, false
	if r.Holder != e.identity {
		e.held = false
	}
}

// next is what to write now, if anything: the lease is to be had, or is ours. wall
// is the time of day.
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
		// Others see that we are there by the record's changing, which it must do even
		// where our clock stands or has been set back. Candidates of client-go compare
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

// expires is when somebody else's lease may be taken.
func (e *election) expires() time.Duration {
	duration := e.seen.Duration
	if duration <= 0 {
		duration = e.lease
	}
	return e.at + duration
}

// won takes note that what next said was written, by a request that began at
// start: nobody can have seen it before, nor take the lease a duration after.
func (e *election) won(r LeaseRecord, start time.Duration) {
	e.known, e.seen, e.at = true, r, start
	e.held, e.unsure, e.until = true, false, start+e.deadline
}

// fence marks what is written under the record that was won last.
func (e *election) fence() Fence {
	return Fence{UID: e.seen.UID, Term: e.seen.Transitions, Holder: e.identity}
}

// leads says whether work may go on at now.
func (e *election) leads(now time.Duration) bool { return e.held && now < e.until }

// released is what to write to give up the lease that seen says is ours: as
// client-go does, so that others take it at once.
func (e *election) released(wall time.Time) (LeaseRecord, bool) {
	r := e.seen
	r.Holder, r.Duration, r.Acquired, r.Renewed = "", time.Second, wall, wall
	return r, e.known && e.seen.Version != "" && e.seen.Holder == e.identity
}
