package flowcontrol

import (
	"container/heap"
	"time"
)

// queueSet holds the queues and seats of one level. Each operation returns the
// requests that it started, in a slice that is valid until the next operation.
type queueSet struct {
	level Level
	limit int
	// queues are those with requests that wait or execute, by their index. An index may be
	// beyond level.Queues after these were made fewer. active are the same in any order.
	queues map[int]*queue
	active []*queue
	// now is the time of the last operation and r the virtual time, in seat-seconds
	// for each active queue. r starts again at zero when no queue is active.
	now time.Duration
	r   float64

	executing, waiting int
	// first is a request that executes, the others follow it.
	first *Ticket
	// inUse counts seats of executing and lingering requests, waitingSeats those that
	// waiting requests need, and queueSeats the part of inUse that came from queues.
	inUse, waitingSeats, queueSeats int
	lingering                       lingerHeap
	// arrivals and robin break ties in turn: between the queues of a hand, and between
	// queues that may dispatch.
	arrivals, robin int
	demand          integrator
	started         []*Ticket
}

func newQueueSet(level Level, limit int, now time.Duration) *queueSet {
	return &queueSet{level: level, limit: limit, queues: map[int]*queue{}, now: now, demand: integrator{since: now, at: now}}
}

// arrive starts t, puts it into a queue, or rejects it.
func (s *queueSet) arrive(now time.Duration, t *Ticket) (started []*Ticket, err error) {
	s.begin(now)
	t.set, t.arrived = s, s.now
	switch {
	case s.level.Exempt:
		s.start(t)
	case s.level.Queues > 0:
		at := s.chooseQueue(t.hash)
		if q := s.queues[at]; q == nil || q.length < s.level.QueueLength {
			s.enqueue(at, t)
		} else {
			t.counts.QueueFull++
			err = ErrQueueFull
		}
	// Requests may still wait here from the time when the level had queues.
	case s.waiting == 0 && s.fits(t):
		s.start(t)
	default:
		t.counts.NoSeat++
		err = ErrNoSeat
	}
	return s.finish(), err
}

// leave ends the execution of t. Its seats are free when they have lingered.
func (s *queueSet) leave(now time.Duration, t *Ticket) []*Ticket {
	s.begin(now)
	if t.state != executing {
		return s.finish()
	}
	s.unlink(t)
	if q := t.queue; q != nil {
		q.executing--
		q.nextR += float64(t.seats) * (s.now - t.since - estimatedDuration).Seconds()
		q.bound()
		s.release(q)
	}
	if t.linger > 0 {
		t.state, t.release = lingering, s.now+t.linger
		heap.Push(&s.lingering, t)
	} else {
		s.free(t)
	}
	return s.finish()
}

// cancel removes t from its queue. It returns false if t does not wait.
func (s *queueSet) cancel(now time.Duration, t *Ticket) ([]*Ticket, bool) {
	s.begin(now)
	if t.state != waiting {
		return s.finish(), false
	}
	q := t.queue
	s.dequeue(t)
	t.state = done
	q.bound()
	s.release(q)
	return s.finish(), true
}

// advance releases the seats that have lingered.
func (s *queueSet) advance(now time.Duration) []*Ticket {
	s.begin(now)
	return s.finish()
}

func (s *queueSet) setLimit(now time.Duration, limit int) []*Ticket {
	s.begin(now)
	s.limit = limit
	return s.finish()
}

// configure replaces the configuration of the level. Requests that wait keep their
// places.
func (s *queueSet) configure(now time.Duration, level Level) []*Ticket {
	s.begin(now)
	s.level = level
	return s.finish()
}

func (s *queueSet) idle() bool { return s.inUse == 0 && s.waiting == 0 }

// begin brings the virtual time and the statistics to now. Time that runs backwards
// counts as standing still.
func (s *queueSet) begin(now time.Duration) {
	clear(s.started)
	s.started = s.started[:0]
	for len(s.lingering) > 0 && s.lingering[0].release <= now {
		t := heap.Pop(&s.lingering).(*Ticket)
		s.passTo(t.release)
		s.free(t)
		s.demand.set(s.inUse + s.waitingSeats)
	}
	s.passTo(now)
}

func (s *queueSet) passTo(now time.Duration) {
	if now <= s.now {
		return
	}
	if len(s.active) > 0 {
		seats := min(s.queueSeats+s.waitingSeats, s.limit)
		s.r += (now - s.now).Seconds() * float64(seats) / float64(len(s.active))
	}
	s.now = now
	s.demand.passTo(now)
}

// finish dispatches what fits and returns all requests that the operation started.
func (s *queueSet) finish() []*Ticket {
	for s.waiting > 0 {
		q := s.nextQueue()
		t := q.first
		if !s.fits(t) {
			break
		}
		s.robin = q.index
		s.dequeue(t)
		s.start(t)
		q.nextR += t.work
		q.bound()
	}
	s.demand.set(s.inUse + s.waitingSeats)
	return s.started
}

// fits reports whether t can start. A request that is wider than the level can start
// when the level is empty, and is then charged all seats.
func (s *queueSet) fits(t *Ticket) bool {
	return s.limit > 0 && s.inUse+min(t.width, s.limit) <= s.limit
}

// chooseQueue returns the index of the queue with the least waiting work of the hand.
func (s *queueSet) chooseQueue(hash uint64) int {
	var space [maxHand]int
	hand := dealHand(hash, s.level.Queues, s.level.HandSize, &space)
	s.arrivals++
	offset := s.arrivals % len(hand)
	best, least := -1, 0.0
	for i := range hand {
		at, work := hand[(offset+i)%len(hand)], 0.0
		if q := s.queues[at]; q != nil {
			work = q.work
		}
		if best < 0 || work < least {
			best, least = at, work
		}
	}
	return best
}

// nextQueue returns the queue whose first request would finish first in virtual time.
// A request must be waiting.
func (s *queueSet) nextQueue() *queue {
	var best *queue
	finish := 0.0
	for _, q := range s.active {
		if q.first == nil {
			continue
		}
		f := q.nextR + q.first.work
		if best == nil || f < finish || f == finish && s.turn(q) < s.turn(best) {
			best, finish = q, f
		}
	}
	return best
}

// turn orders the queues from the one after robin on.
func (s *queueSet) turn(q *queue) int { return (q.index - s.robin - 1 + maxQueues) % maxQueues }

func (s *queueSet) enqueue(at int, t *Ticket) {
	if len(s.active) == 0 {
		s.r = 0
	}
	q := s.queues[at]
	if q == nil {
		q = &queue{index: at, position: len(s.active), nextR: s.r}
		s.queues[at] = q
		s.active = append(s.active, q)
	}
	t.state, t.queue, t.arrivedR = waiting, q, s.r
	q.push(t)
	q.bound()
	s.waiting++
	t.counts.Waiting++
	s.waitingSeats += t.width
	t.counts.SeatsWaiting += t.width
}

func (s *queueSet) dequeue(t *Ticket) {
	t.queue.remove(t)
	s.waiting--
	t.counts.Waiting--
	s.waitingSeats -= t.width
	t.counts.SeatsWaiting -= t.width
}

// link adds t to the requests that execute.
func (s *queueSet) link(t *Ticket) {
	if t.next = s.first; s.first != nil {
		s.first.prev = t
	}
	s.first = t
	s.executing++
	t.counts.Executing++
	t.counts.Dispatched++
}

// unlink removes t from the requests that execute.
func (s *queueSet) unlink(t *Ticket) {
	if t.next != nil {
		t.next.prev = t.prev
	}
	if t.prev != nil {
		t.prev.next = t.next
	} else {
		s.first = t.next
	}
	t.prev, t.next = nil, nil
	s.executing--
	t.counts.Executing--
}

func (s *queueSet) start(t *Ticket) {
	t.state, t.since, t.charged = executing, s.now, t.width
	if !s.level.Exempt {
		t.charged = min(t.width, s.limit)
	}
	s.link(t)
	s.inUse += t.charged
	t.counts.SeatsInUse += t.charged
	if t.queue != nil {
		t.queue.executing++
		s.queueSeats += t.charged
	}
	s.started = append(s.started, t)
}

// free returns the seats of t.
func (s *queueSet) free(t *Ticket) {
	t.state = done
	s.inUse -= t.charged
	t.counts.SeatsInUse -= t.charged
	if t.queue != nil {
		s.queueSeats -= t.charged
		t.queue = nil
	}
}

// release forgets q if no request of it waits or executes. Seats that linger do not need it.
func (s *queueSet) release(q *queue) {
	if q.length+q.executing > 0 {
		return
	}
	delete(s.queues, q.index)
	last := len(s.active) - 1
	s.active[q.position] = s.active[last]
	s.active[q.position].position = q.position
	s.active[last] = nil
	s.active = s.active[:last]
}
