package flowcontrol

import (
	"container/heap"
	"errors"
	"time"
)

// Why a request is rejected. A server answers both with 429 Too Many Requests.
var (
	// ErrQueueFull means that the queue of the request's flow is full.
	ErrQueueFull = errors.New("flowcontrol: the queue is full")
	// ErrNoSeat means that the level has no free seat and no queues.
	ErrNoSeat = errors.New("flowcontrol: no free seat, and the level has no queues")
)

// state is where a request is between its arrival and its end.
type state int

const (
	rejected state = iota
	waiting
	executing
	lingering
	done
)

// Ticket is one request between its arrival and its end. Only Schema, Level and Seats
// may be called for a ticket of a Controller, which changes the rest under its lock.
type Ticket struct {
	request       *Request
	schema, level Ref
	flow          string
	set           *queueSet
	counts        *flowCounts
	state         state
	hash          uint64
	seats         int
	// width is the larger of seats and those that linger. charged is what is counted
	// while the request executes or lingers: the width, or all seats of the level.
	width, charged int
	linger         time.Duration
	// work is the estimated work, in seat-seconds.
	work float64
	// queue is nil where the level has no queues.
	queue *queue
	// prev and next link the requests that wait in a queue, or those that execute.
	prev, next *Ticket
	arrivedR   float64
	// arrived is when the request came, since when it began to execute.
	arrived, since time.Duration
	// release is when lingering seats are free.
	release time.Duration
	// admitted is closed when a Controller lets the request in. It is nil unless the
	// request waited.
	admitted chan struct{}
}

// Ref names a schema or a level. UID is empty where no object of the API configures it.
type Ref struct{ Name, UID string }

// Schema returns the schema that matched the request.
func (t *Ticket) Schema() Ref { return t.schema }

// Level returns the request's priority level.
func (t *Ticket) Level() Ref { return t.level }

// Seats returns how many seats the request takes, those that linger included.
func (t *Ticket) Seats() int { return t.width }

// Executing reports whether the request has its seats and has not finished.
func (t *Ticket) Executing() bool { return t.state == executing }

// Waiting reports whether the request waits in a queue.
func (t *Ticket) Waiting() bool { return t.state == waiting }

// estimatedDuration is charged for a request until it finishes.
const estimatedDuration = 3 * time.Millisecond

// newTicket returns the ticket of r on a level where a request may take maxSeats, or
// any number if that is zero. Where lingering seats are cut, they linger longer.
func newTicket(r *Request, schema *Schema, hash uint64, counts *flowCounts, maxSeats int) *Ticket {
	t := &Ticket{
		request: r, schema: Ref{schema.Name, schema.UID}, counts: counts,
		hash: hash, seats: max(1, min(r.Seats, maxNumber)),
	}
	lingerSeats := 0
	if r.LingerSeats > 0 && r.Linger > 0 {
		lingerSeats, t.linger = min(r.LingerSeats, maxNumber), r.Linger
	}
	if maxSeats > 0 {
		t.seats = min(t.seats, maxSeats)
		if lingerSeats > maxSeats {
			t.linger = time.Duration(min(float64(t.linger)*float64(lingerSeats)/float64(maxSeats), float64(maxLinger)))
			lingerSeats = maxSeats
		}
	}
	t.linger = min(t.linger, maxLinger)
	t.width = max(t.seats, lingerSeats)
	t.work = float64(t.seats)*estimatedDuration.Seconds() + float64(lingerSeats)*t.linger.Seconds()
	return t
}

// maxLinger bounds how long seats are kept, whatever an estimate says.
const maxLinger = time.Minute

// lingerHeap holds tickets whose seats linger, the first to be released at the top.
type lingerHeap []*Ticket

var _ heap.Interface = (*lingerHeap)(nil)

func (h lingerHeap) Len() int           { return len(h) }
func (h lingerHeap) Less(i, j int) bool { return h[i].release < h[j].release }
func (h lingerHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *lingerHeap) Push(t any)        { *h = append(*h, t.(*Ticket)) }

func (h *lingerHeap) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return t
}
