package flowcontrol

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// server handles requests of one queueSet in virtual time.
type server struct {
	set       *queueSet
	now       time.Duration
	durations func(*Ticket) time.Duration
	ends      lingerHeap // by release, which is unused while a request executes
	starts    []*Ticket
}

func (s *server) start(started []*Ticket) {
	for _, t := range started {
		t.release = s.now + s.durations(t)
		heap.Push(&s.ends, t)
		s.starts = append(s.starts, t)
	}
}

// run handles requests that end until the given time.
func (s *server) run(until time.Duration) {
	for len(s.ends) > 0 && s.ends[0].release <= until {
		t := heap.Pop(&s.ends).(*Ticket)
		s.now = t.release
		s.start(s.set.leave(s.now, t))
	}
	s.now = max(s.now, until)
}

// A flow with a thousand requests does not delay another flow's single request by more
// than four turns of the queues that it can fill, whatever requests take. One turn is not
// enough, since a request is charged its duration only at its end.
func TestAGreedyFlowDelaysAnotherLittle(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 4))
	const hand = 6
	rounds, worst := 3000, 0.0
	if raceEnabled {
		rounds = 300
	}
	for round := range rounds {
		limit := 1 + random.IntN(20)
		duration := time.Duration(1+random.IntN(2000)) * time.Millisecond
		set := newQueueSet(Level{Queues: 64, HandSize: hand, QueueLength: 1000}, limit, 0)
		s := &server{set: set, durations: func(*Ticket) time.Duration { return duration/2 + time.Duration(random.Int64N(int64(duration/2))) }}
		greedy := flowHash("s", fmt.Sprint("greedy", round))
		arrive := func(hash uint64) *Ticket {
			ticket := newTicket(&Request{}, &Schema{}, hash, &flowCounts{}, 0)
			started, err := set.arrive(s.now, ticket)
			if err != nil {
				t.Fatal(err)
			}
			s.start(started)
			return ticket
		}
		for range 1000 {
			arrive(greedy)
		}
		s.run(time.Duration(random.Int64N(int64(20 * duration))))
		before, since := len(s.starts), s.now
		modest := arrive(flowHash("s", fmt.Sprint("modest", round)))
		for !modest.Executing() {
			if len(s.ends) == 0 {
				t.Fatal("nothing executes and a request waits")
			}
			s.run(s.ends[0].release)
		}
		overtaken, turn := len(s.starts)-before, duration+duration*hand/time.Duration(limit)
		worst = max(worst, float64(modest.since-since)/float64(turn))
		if overtaken > 5*(limit+hand) || modest.since-since > 4*turn {
			t.Errorf("round %d: with %d seats, %d requests of up to %v came before, for %v", round, limit, overtaken, duration, modest.since-since)
		}
	}
	t.Logf("the longest wait was %.2f turns", worst)
}

// Flows that always have requests waiting have equal seat-time, whatever their durations
// and widths.
func TestSeatTimeIsEqual(t *testing.T) {
	ms := time.Millisecond
	t.Run("durations", func(t *testing.T) {
		seatTimes(t, [4]time.Duration{5 * ms, 50 * ms, 20 * ms, 100 * ms}, [4]int{1, 1, 1, 1}, 0.03)
	})
	// Seats are free at times, while the widest request waits for its last one. The
	// narrowest requests bear that loss.
	t.Run("widths", func(t *testing.T) {
		seatTimes(t, [4]time.Duration{50 * ms, 50 * ms, 50 * ms, 50 * ms}, [4]int{1, 2, 3, 4}, 0.15)
	})
}

// seatTimes fails if a flow's part of the seat-time differs from a quarter by more than
// the given fraction of it.
func seatTimes(t *testing.T, durations [4]time.Duration, widths [4]int, tolerance float64) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 5))
	const flows, limit, length = 4, 12, 200
	set := newQueueSet(Level{Queues: flows, HandSize: 1, QueueLength: length}, limit, 0)
	var used [flows]float64
	s := &server{set: set}
	s.durations = func(ticket *Ticket) time.Duration {
		flow := ticket.hash
		d := durations[flow]/2 + time.Duration(random.Int64N(int64(durations[flow])))
		used[flow] += d.Seconds() * float64(ticket.charged)
		return d
	}
	for s.now < 200*time.Second {
		for flow := range uint64(flows) {
			for q := set.queues[int(flow)]; q == nil || q.length < length; q = set.queues[int(flow)] {
				started, err := set.arrive(s.now, newTicket(&Request{Seats: widths[flow]}, &Schema{}, flow, &flowCounts{}, 0))
				if err != nil {
					t.Fatal(err)
				}
				s.start(started)
			}
		}
		s.run(s.ends[0].release)
	}
	total := 0.0
	for _, u := range used {
		total += u
	}
	for flow, u := range used {
		if share := u / total * flows; share < 1-tolerance || share > 1+tolerance {
			t.Errorf("flow %d has %.2f of its part of the seats: %v", flow, share, used)
		}
	}
	if total < 0.85*limit*200 {
		t.Errorf("%.0f seat-seconds of %d were used", total, limit*200)
	}
	t.Logf("seat-seconds %.0f", used)
}
