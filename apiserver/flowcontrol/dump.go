package flowcontrol

import (
	"maps"
	"slices"
	"time"
)

// LevelDump is a level with everything that is in it.
type LevelDump struct {
	LevelStatus
	// Direct requests execute and came through no queue.
	Direct []RequestDump
	// Queues are those with requests, by their index.
	Queues []QueueDump
}

// QueueDump is one queue.
type QueueDump struct {
	Index int
	// Waiting are in the order of their arrival, Executing in any.
	Waiting, Executing []RequestDump
	// SeatsInUse counts the seats of the queue's executing requests, SeatsWaiting those that its
	// waiting requests need. Work is the work of the waiting requests, in seat-seconds.
	SeatsInUse, SeatsWaiting int
	Work                     float64
	// NextR is the virtual time at which the first waiting request would start if all queues
	// were served at once, in seat-seconds.
	NextR float64
}

// RequestDump is one request. Request is shared and must not be changed.
type RequestDump struct {
	*Request
	Schema, Flow       string
	Seats, LingerSeats int
	Linger             time.Duration
	// Started is zero while the request waits.
	Arrived, Started time.Time
}

// Dump returns the queues of all levels and the requests in them. Times are those since epoch.
func (c *Core) Dump(epoch time.Time) []LevelDump {
	levels := c.Levels()
	out := make([]LevelDump, len(levels))
	for i, l := range c.order {
		out[i] = l.set.dump(levels[i], epoch)
	}
	return out
}

func (s *queueSet) dump(status LevelStatus, epoch time.Time) LevelDump {
	out := LevelDump{LevelStatus: status, Queues: make([]QueueDump, len(s.queues))}
	at := make(map[*queue]*QueueDump, len(s.queues))
	for i, index := range slices.Sorted(maps.Keys(s.queues)) {
		d, q := &out.Queues[i], s.queues[index]
		d.Index, d.Work, d.NextR = index, q.work, q.nextR
		for t := q.first; t != nil; t = t.next {
			d.Waiting = append(d.Waiting, t.dump(epoch))
			d.SeatsWaiting += t.width
		}
		at[q] = d
	}
	for t := s.first; t != nil; t = t.next {
		if d := at[t.queue]; d != nil {
			d.Executing = append(d.Executing, t.dump(epoch))
			d.SeatsInUse += t.charged
		} else {
			out.Direct = append(out.Direct, t.dump(epoch))
		}
	}
	return out
}

func (t *Ticket) dump(epoch time.Time) RequestDump {
	d := RequestDump{
		Request: t.request, Schema: t.schema.Name, Flow: t.flow, Seats: t.seats,
		Arrived: epoch.Add(t.arrived),
	}
	if t.linger > 0 {
		d.Linger, d.LingerSeats = t.linger, t.width
	}
	if t.state == executing {
		d.Started = epoch.Add(t.since)
	}
	return d
}
