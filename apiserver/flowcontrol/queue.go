package flowcontrol

// queue is a list of waiting requests in the order of their arrival.
type queue struct {
	first, last *Ticket
	length      int
	// work is the work of the waiting requests, in seat-seconds.
	work float64
	// executing counts requests of the queue that execute.
	executing int
	// index is the place of the queue among the queues of the level, position its place in active.
	index, position int
	// nextR is the virtual time at which the first waiting request would start if all
	// queues were served at once in equal parts.
	nextR float64
}

func (q *queue) push(t *Ticket) {
	t.prev = q.last
	if q.last == nil {
		q.first = t
	} else {
		q.last.next = t
	}
	q.last = t
	q.length++
	q.work += t.work
}

func (q *queue) remove(t *Ticket) {
	if t.prev == nil {
		q.first = t.next
	} else {
		t.prev.next = t.next
	}
	if t.next == nil {
		q.last = t.prev
	} else {
		t.next.prev = t.prev
	}
	t.prev, t.next = nil, nil
	q.length--
	q.work -= t.work
	if q.length == 0 {
		q.work = 0 // without what rounding left
	}
}

// bound keeps the first waiting request from starting, in virtual time, before it
// arrived, so that a queue gains nothing from the time in which it was empty.
func (q *queue) bound() {
	if q.first != nil {
		q.nextR = max(q.nextR, q.first.arrivedR)
	}
}
