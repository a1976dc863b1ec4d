package flowcontrol

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// model drives a queueSet with random operations and keeps books of its own.
type model struct {
	*testing.T
	random             *rand.Rand
	set                *queueSet
	now                time.Duration
	waiting, executing []*Ticket
	// lingering seats are to be released at a time.
	lingering map[*Ticket]time.Duration
	lowered   bool
	counts    map[string]int
	flow      flowCounts
	dumps     int
}

func (m *model) note(started []*Ticket) {
	seen := map[*Ticket]bool{}
	for _, t := range started {
		if seen[t] {
			m.Fatal("a request started twice")
		}
		seen[t] = true
		found := false
		for i, w := range m.waiting {
			if w == t {
				// Of the requests of one queue, the first comes first.
				for _, before := range m.waiting[:i] {
					if before.queue == t.queue {
						m.Fatal("a request overtook another one of its queue")
					}
				}
				m.waiting = append(m.waiting[:i:i], m.waiting[i+1:]...)
				found = true
				break
			}
		}
		if !found || !t.Executing() || t.charged < 1 {
			m.Fatalf("started %+v, which did not wait", t)
		}
		m.executing = append(m.executing, t)
		m.counts["started"]++
	}
}

// pass releases the lingering seats whose time is over.
func (m *model) pass() {
	for t, at := range m.lingering {
		if at <= m.now {
			delete(m.lingering, t)
		}
	}
}

func (m *model) step() {
	m.now += time.Duration(m.random.ExpFloat64() * float64(2*time.Millisecond))
	m.pass()
	switch n := m.random.IntN(100); {
	case n < 48:
		r := Request{Seats: m.random.IntN(4)}
		if m.random.IntN(200) == 0 {
			r.Seats = 100
		}
		if m.random.IntN(8) == 0 {
			r.LingerSeats, r.Linger = m.random.IntN(6), time.Duration(m.random.IntN(20))*time.Millisecond
		}
		t := newTicket(&r, &Schema{}, flowHash("s", string(rune('a'+m.random.IntN(12)))), &m.flow, m.random.IntN(2)*10)
		m.arrive(t)
	case n < 90 && len(m.executing) > 0:
		i := m.random.IntN(len(m.executing))
		t := m.executing[i]
		m.executing = append(m.executing[:i], m.executing[i+1:]...)
		if t.linger > 0 {
			m.lingering[t] = m.now + t.linger
		}
		m.note(m.set.leave(m.now, t))
		if t.Executing() {
			m.Fatal("a request that left executes")
		}
		m.note(m.set.leave(m.now, t)) // once more does nothing
	case n < 95 && len(m.waiting) > 0:
		i := m.random.IntN(len(m.waiting))
		t := m.waiting[i]
		m.waiting = append(m.waiting[:i:i], m.waiting[i+1:]...)
		started, ok := m.set.cancel(m.now, t)
		if !ok {
			m.Fatal("a waiting request cannot be cancelled")
		}
		m.note(started)
		m.counts["cancelled"]++
	case n == 98 && m.random.IntN(20) == 0:
		m.note(m.set.setLimit(m.now, m.random.IntN(20)))
		m.lowered = true
	case n == 99 && m.random.IntN(20) == 0:
		level := Level{Name: "x"}
		if m.random.IntN(5) > 0 {
			level = Level{Name: "x", Queues: 4 + m.random.IntN(30), HandSize: 1 + m.random.IntN(4), QueueLength: 1 + m.random.IntN(8)}
		}
		m.note(m.set.configure(m.now, level))
	default:
		m.note(m.set.advance(m.now))
	}
	m.check()
}

func (m *model) arrive(t *Ticket) {
	m.waiting = append(m.waiting, t)
	started, err := m.set.arrive(m.now, t)
	switch {
	case err == nil:
	case errors.Is(err, ErrQueueFull) && m.set.level.Queues > 0, errors.Is(err, ErrNoSeat) && m.set.level.Queues == 0:
		if t.Waiting() || t.Executing() {
			m.Fatal("a rejected request waits or executes")
		}
		m.waiting = m.waiting[:len(m.waiting)-1]
		m.counts[err.Error()]++
	default:
		m.Fatal(err)
	}
	m.note(started)
	if err == nil && !t.Executing() && !t.Waiting() {
		m.Fatal("a request got lost")
	}
}

func (m *model) check() {
	s := m.set
	inUse := 0
	for _, t := range m.executing {
		inUse += t.charged
	}
	for t := range m.lingering {
		inUse += t.charged
	}
	if inUse != s.inUse || len(m.executing) != s.executing || len(m.waiting) != s.waiting {
		m.Fatalf("%d seats in use, %d executing, %d waiting; want %d, %d, %d", s.inUse, s.executing, s.waiting, inUse, len(m.executing), len(m.waiting))
	}
	if inUse <= s.limit {
		m.lowered = false
	}
	if inUse > s.limit && !m.lowered {
		m.Fatalf("%d seats in use of %d", inUse, s.limit)
	}
	needed := 0
	byQueue := map[*queue]int{}
	for _, t := range m.waiting {
		needed += t.width
		byQueue[t.queue]++
	}
	if needed != s.waitingSeats {
		m.Fatalf("%d seats are waited for, want %d", s.waitingSeats, needed)
	}
	for at, q := range s.queues {
		if q.length != byQueue[q] {
			m.Fatalf("a queue has %d requests, want %d", q.length, byQueue[q])
		}
		if q.length+q.executing == 0 || math.IsNaN(q.nextR) || q.index != at || s.active[q.position] != q {
			m.Fatalf("queue %+v", q)
		}
		delete(byQueue, q)
	}
	if len(byQueue) > 0 || len(s.active) != len(s.queues) {
		m.Fatalf("requests wait in %d queues that are gone; %d active queues, want %d", len(byQueue), len(s.active), len(s.queues))
	}
	if m.flow.Executing != s.executing || m.flow.Waiting != s.waiting {
		m.Fatalf("counted are %+v", m.flow)
	}
	if m.dumps++; m.dumps%500 == 0 {
		m.checkDump()
	}
	// Work conservation: the request that is next does not fit.
	if s.waiting > 0 {
		if next := s.nextQueue().first; s.limit > 0 && inUse+min(next.width, s.limit) <= s.limit {
			m.Fatalf("a request of %d seats waits while %d of %d are in use", next.width, inUse, s.limit)
		}
	}
}

// checkDump compares a dump with the books.
func (m *model) checkDump() {
	waiting, executing := map[*Request]bool{}, map[*Request]bool{}
	for _, t := range m.waiting {
		waiting[t.request] = true
	}
	for _, t := range m.executing {
		executing[t.request] = true
	}
	d := m.set.dump(LevelStatus{}, time.Unix(0, 0))
	remove := func(requests []RequestDump, from map[*Request]bool, started bool) {
		for _, r := range requests {
			if !from[r.Request] || r.Started.IsZero() == started {
				m.Fatalf("dumped is %+v", r)
			}
			delete(from, r.Request)
		}
	}
	remove(d.Direct, executing, true)
	for _, q := range d.Queues {
		remove(q.Executing, executing, true)
		remove(q.Waiting, waiting, false)
	}
	if len(waiting)+len(executing) > 0 {
		m.Fatalf("the dump lacks %d requests that wait and %d that execute", len(waiting), len(executing))
	}
}

func TestModel(t *testing.T) {
	steps := 1_000_000
	if testing.Short() || raceEnabled {
		steps = 100_000
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	m := &model{T: t, random: rand.New(rand.NewPCG(seed, 3)), lingering: map[*Ticket]time.Duration{}, counts: map[string]int{}}
	m.set = newQueueSet(Level{Queues: 16, HandSize: 3, QueueLength: 4}, 10, 0)
	for range steps {
		m.step()
	}
	for _, what := range []string{"started", "cancelled", ErrQueueFull.Error(), ErrNoSeat.Error()} {
		if m.counts[what] < 100 {
			t.Errorf("%d times %s, so that the test shows little", m.counts[what], what)
		}
	}
	if uint64(m.counts["started"]) != m.flow.Dispatched || uint64(m.counts[ErrQueueFull.Error()]) != m.flow.QueueFull || uint64(m.counts[ErrNoSeat.Error()]) != m.flow.NoSeat {
		t.Errorf("counted are %+v, want %v", m.flow.SchemaStatus, m.counts)
	}
	t.Logf("%v", m.counts)
	// At the end no seat is lost.
	m.note(m.set.setLimit(m.now, 1))
	m.note(m.set.advance(m.now))
	for len(m.executing)+len(m.lingering) > 0 {
		m.now += time.Minute
		m.pass()
		m.note(m.set.advance(m.now))
		if len(m.executing) > 0 {
			last := m.executing[len(m.executing)-1]
			m.executing = m.executing[:len(m.executing)-1]
			if last.linger > 0 {
				m.lingering[last] = m.now + last.linger
			}
			m.note(m.set.leave(m.now, last))
		}
	}
	if !m.set.idle() || len(m.set.active) != 0 || m.set.queueSeats != 0 || len(m.waiting) > 0 {
		t.Errorf("after all left: %+v", m.set)
	}
}
