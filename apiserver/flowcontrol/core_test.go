package flowcontrol

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// randomConfig has between one and five levels besides the mandatory ones, and a schema
// for each that matches the user of its name.
func randomConfig(random *rand.Rand) Config {
	config := Mandatory(1 + random.IntN(60))
	for i := range 1 + random.IntN(5) {
		l := Level{Name: fmt.Sprint("level", random.IntN(2), i), Shares: random.IntN(30), LendablePercent: random.IntN(101)}
		if random.IntN(4) > 0 {
			l.Queues, l.HandSize, l.QueueLength = 1+random.IntN(20), 1, 1+random.IntN(10)
		}
		config.Levels = append(config.Levels, l)
		config.Schemas = append(config.Schemas, Schema{
			Name: l.Name, Precedence: 2 + random.IntN(100), Level: l.Name, Distinguisher: ByNamespace,
			Rules: []Rule{everything(Rule{Users: []string{fmt.Sprint("user", i)}})},
		})
	}
	return config
}

// Requests arrive and leave while the configuration changes: none is lost, no level has
// more seats than its limit but for what executed when the limit was lowered, and the
// limits add up.
func TestConfigureWhileRequestsAreInside(t *testing.T) {
	steps := 1_000_000
	if testing.Short() || raceEnabled {
		steps = 100_000
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 6))
	core, err := New(randomConfig(random), 0)
	if err != nil {
		t.Fatal(err)
	}
	var now time.Duration
	inside := map[*Ticket]bool{} // waiting or executing
	var order []*Ticket
	allowed := map[string]int{} // seats that were in use when a limit was lowered
	startedCount, retired := 0, 0
	note := func(started []*Ticket) {
		for _, ticket := range started {
			if !inside[ticket] || !ticket.Executing() {
				t.Fatalf("%+v started", ticket)
			}
			startedCount++
		}
	}
	end := func(i int) {
		ticket := order[i]
		order[i] = order[len(order)-1]
		order = order[:len(order)-1]
		if ticket.Waiting() {
			started, ok := core.Cancel(now, ticket)
			if !ok {
				t.Fatal("a waiting request cannot be cancelled")
			}
			delete(inside, ticket)
			note(started)
			return
		}
		if !ticket.Executing() {
			t.Fatalf("%+v got lost", ticket)
		}
		started := core.Leave(now, ticket)
		delete(inside, ticket)
		note(started)
	}
	check := func() {
		executing, waiting, nominal, sum, exempt := 0, 0, 0, 0, 0
		status := core.Levels()
		for _, l := range status {
			executing, waiting, nominal = executing+l.Executing, waiting+l.Waiting, nominal+l.Nominal
			if l.Retired {
				retired++
			}
			if l.Name == ExemptName {
				exempt = l.Limit
				continue
			}
			sum += l.Limit
			allowed[l.Name] = min(allowed[l.Name], l.SeatsInUse)
			if l.SeatsInUse > max(l.Limit, allowed[l.Name]) {
				t.Fatalf("%+v, and it had at most %d when the limit was lowered", l, allowed[l.Name])
			}
		}
		if executing+waiting != len(inside) {
			t.Fatalf("%d execute and %d wait, want %d", executing, waiting, len(inside))
		}
		if sum > nominal+len(status)/2 || exempt == 0 && sum < nominal-len(status)/2 {
			t.Fatalf("the limits add up to %d, the nominal ones to %d: %+v", sum, nominal, status)
		}
	}
	lower := func() {
		for _, l := range core.Levels() {
			allowed[l.Name] = l.SeatsInUse
		}
	}
	for range steps {
		now += time.Duration(random.ExpFloat64() * float64(10*time.Millisecond))
		switch n := random.IntN(1000); {
		case n < 480:
			r := Request{User: fmt.Sprint("user", random.IntN(7)), Namespace: fmt.Sprint(random.IntN(5)), Path: "/", Seats: random.IntN(5)}
			if random.IntN(20) == 0 {
				r.Groups = []string{"system:masters"}
			}
			if random.IntN(5) == 0 {
				r.LingerSeats, r.Linger = random.IntN(5), time.Duration(random.IntN(100))*time.Millisecond
			}
			ticket, started, err := core.Arrive(now, &r)
			if err == nil {
				inside[ticket] = true
				order = append(order, ticket)
			}
			note(started)
		case n < 990 && len(order) > 0:
			end(random.IntN(len(order)))
		case n < 996:
			note(core.Advance(now))
		case n < 998:
			note(core.Advance(now))
			lower()
			note(core.Adjust(now))
		case random.IntN(4) == 0:
			note(core.Advance(now))
			lower()
			started, err := core.Configure(randomConfig(random), now)
			if err != nil {
				t.Fatal(err)
			}
			note(started)
		}
		check()
	}
	for len(order) > 0 {
		now += time.Second
		end(len(order) - 1)
	}
	if startedCount < steps/10 || retired < 10 {
		t.Errorf("%d started, %d retired levels seen: the test shows little", startedCount, retired)
	}
	core.Adjust(now + 2*time.Minute)
	for _, l := range core.Levels() {
		if l.Retired || l.SeatsInUse+l.Executing+l.Waiting != 0 {
			t.Errorf("after all left: %+v", l)
		}
	}
	if _, ok := core.Next(); ok {
		t.Error("seats linger for ever")
	}
}

func TestInvalidConfigurationChangesNothing(t *testing.T) {
	core, err := New(Default(600), 0)
	if err != nil {
		t.Fatal(err)
	}
	before := fmt.Sprint(core.Levels())
	if _, err := core.Configure(Config{}, time.Second); err == nil {
		t.Error("an empty configuration is accepted")
	}
	if after := fmt.Sprint(core.Levels()); after != before {
		t.Errorf("the levels are %s, were %s", after, before)
	}
}

func BenchmarkArriveLeave(b *testing.B) {
	core, err := New(Default(600), 0)
	if err != nil {
		b.Fatal(err)
	}
	r := Request{User: "system:serviceaccount:ns:default", Groups: []string{"system:serviceaccounts", "system:authenticated"}, Verb: "get", Resource: "pods", Namespace: "ns"}
	b.ReportAllocs()
	var now time.Duration
	for b.Loop() {
		now += time.Microsecond
		t, _, err := core.Arrive(now, &r)
		if err != nil || !t.Executing() {
			b.Fatal(err)
		}
		core.Leave(now, t)
	}
}

// Without priorities and queues, requests that read and others have seats of their own.
func TestInFlight(t *testing.T) {
	core, err := New(InFlight(2, 1), 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, test := range []struct {
		request Request
		want    error
	}{
		{Request{User: "a", Verb: "list", Resource: "pods"}, nil},
		{Request{User: "a", Verb: "get", Path: "/version"}, nil},
		{Request{User: "b", Verb: "watch", Resource: "pods"}, ErrNoSeat},
		{Request{User: "a", Verb: "create", Resource: "pods"}, nil},
		{Request{User: "b", Verb: "post", Path: "/x"}, ErrNoSeat},
		{Request{User: "root", Groups: []string{"system:masters"}, Verb: "create", Resource: "pods"}, nil},
	} {
		if _, _, err := core.Arrive(0, &test.request); err != test.want {
			t.Errorf("request %d: %v, want %v", i, err, test.want)
		}
	}
	core, err = New(InFlight(0, 0), 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 10_000 {
		if _, _, err := core.Arrive(0, &Request{User: "a", Verb: "list", Resource: "pods"}); err != nil {
			t.Fatal(err)
		}
	}
	core.Adjust(AdjustPeriod)
}

// Queues cost nothing until they are used.
func TestMostQueues(t *testing.T) {
	config := Mandatory(1)
	config.Levels[1].Queues, config.Levels[1].HandSize, config.Levels[1].QueueLength = maxQueues, 2, 10
	core, err := New(config, 0)
	if err != nil {
		t.Fatal(err)
	}
	var tickets []*Ticket
	for i := range 1000 {
		ticket, _, err := core.Arrive(0, &Request{User: fmt.Sprint("user-", i), Verb: "get", Path: "/"})
		if err != nil {
			t.Fatal(err)
		}
		tickets = append(tickets, ticket)
	}
	executed := 1
	for now := time.Duration(1); executed < len(tickets); now++ {
		for _, ticket := range tickets {
			if ticket.Executing() {
				executed += len(core.Leave(now, ticket))
			}
		}
	}
	if set := core.levels[CatchAllName].set; len(set.queues) > 1 || cap(set.active) > 2000 {
		t.Errorf("%d queues at the end", len(set.queues))
	}
}
