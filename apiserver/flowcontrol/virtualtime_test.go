package flowcontrol

import (
	"math"
	"testing"
	"time"
)

// twoQueues returns a server whose flows 0 and 1 have a queue each, with requests that
// take a second unless long says otherwise.
func twoQueues(t *testing.T, limit int) (s *server, long map[*Ticket]time.Duration, arrive func(flow uint64, seats int) *Ticket) {
	long = map[*Ticket]time.Duration{}
	s = &server{set: newQueueSet(Level{Queues: 2, HandSize: 1, QueueLength: 1000}, limit, 0)}
	s.durations = func(t *Ticket) time.Duration {
		if d := long[t]; d > 0 {
			return d
		}
		return time.Second
	}
	return s, long, func(flow uint64, seats int) *Ticket {
		ticket := newTicket(&Request{Seats: seats}, &Schema{}, flow, &flowCounts{}, 0)
		if seats > 1 {
			long[ticket] = 100 * time.Second
		}
		started, err := s.set.arrive(s.now, ticket)
		if err != nil {
			t.Fatal(err)
		}
		s.start(started)
		return ticket
	}
}

// shares counts which flow started since the given number of starts.
func shares(s *server, since int) (counts [2]int) {
	for _, ticket := range s.starts[since:] {
		counts[ticket.hash]++
	}
	return counts
}

func TestAnIdleFlowGainsNothing(t *testing.T) {
	s, _, arrive := twoQueues(t, 1)
	for range 300 {
		arrive(0, 1)
	}
	s.run(100 * time.Second)
	for range 300 {
		arrive(1, 1)
	}
	since := len(s.starts)
	s.run(140 * time.Second)
	if got := shares(s, since); got[0] < 18 || got[1] < 18 {
		t.Errorf("after 100 s without a request, the flows started %v of 40 requests, want 20 each", got)
	}
}

// A flow whose only request takes long is not charged for it yet. Requests that follow
// must not use that.
func TestALongRequestLeavesNoCredit(t *testing.T) {
	s, long, arrive := twoQueues(t, 2)
	first := newTicket(&Request{}, &Schema{}, 1, &flowCounts{}, 0)
	long[first] = time.Hour
	started, err := s.set.arrive(0, first)
	if err != nil {
		t.Fatal(err)
	}
	s.start(started)
	for range 300 {
		arrive(0, 1)
	}
	s.run(100 * time.Second)
	for range 300 {
		arrive(1, 1)
	}
	since := len(s.starts)
	s.run(140 * time.Second)
	if got := shares(s, since); got[0] < 18 || got[1] < 18 {
		t.Errorf("the flows started %v of 40 requests, want 20 each", got)
	}
}

// A flow that took all seats for 100 s while another one waited, and then had nothing to
// do, owes nothing. It only waits until the other flow has had its part of that time, 100
// seat-seconds: not until that flow has had 200.
func TestAnIdleFlowOwesNothing(t *testing.T) {
	s, _, arrive := twoQueues(t, 2)
	arrive(1, 2)
	for range 500 {
		arrive(0, 1)
	}
	s.run(101 * time.Second)
	next := arrive(1, 1)
	s.run(145 * time.Second)
	if next.Executing() {
		t.Error("the other flow had less than its part")
	}
	s.run(157 * time.Second)
	if next.Waiting() {
		t.Error("the flow waits for longer than its part took")
	}
}

// Of queues that are equal, each is the first in turn.
func TestEqualQueuesTakeTurns(t *testing.T) {
	const queues = 5
	set := newQueueSet(Level{Queues: queues, HandSize: 1, QueueLength: 1}, 0, 0)
	var first [queues]int
	for range queues * 3 {
		var tickets []*Ticket
		for flow := range uint64(queues) {
			ticket := newTicket(&Request{}, &Schema{}, flow, &flowCounts{}, 0)
			if _, err := set.arrive(0, ticket); err != nil {
				t.Fatal(err)
			}
			tickets = append(tickets, ticket)
		}
		started := set.setLimit(0, 1)
		if len(started) != 1 {
			t.Fatalf("%d started with one seat", len(started))
		}
		first[started[0].hash]++
		set.setLimit(0, 0)
		for _, ticket := range tickets {
			set.cancel(0, ticket)
			set.leave(0, ticket)
		}
	}
	if first != [queues]int{3, 3, 3, 3, 3} {
		t.Errorf("queues were first %v times, want 3 each", first)
	}
}

func TestWidthIsCut(t *testing.T) {
	r := Request{Seats: 9, LingerSeats: 20, Linger: time.Second}
	if cut := newTicket(&r, &Schema{}, 0, &flowCounts{}, 5); cut.seats != 5 || cut.width != 5 || cut.linger != 4*time.Second {
		t.Errorf("with 5 seats at most: %d seats, width %d, lingers %v", cut.seats, cut.width, cut.linger)
	}
	if whole := newTicket(&r, &Schema{}, 0, &flowCounts{}, 0); whole.seats != 9 || whole.width != 20 || whole.linger != time.Second || math.Abs(whole.work-20.027) > 1e-9 {
		t.Errorf("without a bound: %+v", whole)
	}
	if none := newTicket(&Request{LingerSeats: 3, Seats: -1}, &Schema{}, 0, &flowCounts{}, 0); none.width != 1 || none.linger != 0 {
		t.Errorf("without a time to linger: %+v", none)
	}
	r = Request{Seats: math.MaxInt, LingerSeats: math.MaxInt, Linger: math.MaxInt64}
	if huge := newTicket(&r, &Schema{}, 0, &flowCounts{}, 5); huge.width != 5 || huge.linger != maxLinger || math.IsInf(huge.work, 0) {
		t.Errorf("the largest numbers: %+v", huge)
	}
}

// A request that is wider than its level runs alone and is charged the whole level.
func TestAWideRequestRunsAlone(t *testing.T) {
	s, _, arrive := twoQueues(t, 3)
	narrow := arrive(0, 1)
	wide := arrive(1, 50)
	if !narrow.Executing() || wide.Executing() {
		t.Fatal("the wide request started beside another one")
	}
	behind := arrive(1, 1)
	s.run(time.Second)
	if !wide.Executing() || s.set.inUse != 3 || behind.Executing() {
		t.Fatalf("%d seats of 3 in use; wide %v, behind %v", s.set.inUse, wide.state, behind.state)
	}
	s.run(101 * time.Second)
	if !behind.Executing() {
		t.Error("the request behind the wide one does not start")
	}
}

// A cancelled request that held others back lets them start.
func TestCancelLetsOthersStart(t *testing.T) {
	s, _, arrive := twoQueues(t, 3)
	arrive(0, 1)
	wide, behind := arrive(1, 3), arrive(1, 1)
	started, ok := s.set.cancel(0, wide)
	if !ok || len(started) != 1 || started[0] != behind {
		t.Errorf("cancel starts %v", started)
	}
	if _, again := s.set.cancel(0, wide); again {
		t.Error("a request can be cancelled twice")
	}
}

// Time that runs backwards stands still.
func TestTimeRunsBackwards(t *testing.T) {
	s, _, arrive := twoQueues(t, 1)
	s.now = time.Minute
	first := arrive(0, 1)
	second := arrive(1, 1)
	if started := s.set.leave(time.Second, first); len(started) != 1 || started[0] != second {
		t.Errorf("leave starts %v", started)
	}
	if s.set.now != time.Minute || s.set.r < 0 {
		t.Errorf("the time is %v, the virtual one %v", s.set.now, s.set.r)
	}
}
