package flowcontrol

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// oneLevel gives nearly all seats to a level that takes every request of users.
func oneLevel(seats int, l Level) Config {
	config := Mandatory(seats)
	l.Name, l.Shares = "work", 1_000_000
	config.Levels = append(config.Levels, l)
	config.Schemas = append(config.Schemas, Schema{
		Name: "work", Precedence: 2, Level: "work", Distinguisher: ByUser,
		Rules: []Rule{everything(Rule{Users: []string{All}})},
	})
	return config
}

func startController(t *testing.T, config Config) *Controller {
	t.Helper()
	c, err := NewController(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestEnterWaitsForASeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startController(t, oneLevel(2, Level{Queues: 8, HandSize: 2, QueueLength: 50}))
		begin := time.Now()
		var wait sync.WaitGroup
		for range 10 {
			wait.Go(func() {
				ticket, err := c.Enter(t.Context(), &Request{User: "a", Path: "/"})
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Second)
				c.Leave(ticket)
			})
		}
		wait.Wait()
		if took := time.Since(begin); took != 5*time.Second {
			t.Errorf("ten seconds of work with two seats took %v, want 5 s", took)
		}
	})
}

func TestEnterEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startController(t, oneLevel(1, Level{Queues: 1, HandSize: 1, QueueLength: 1}))
		first, err := c.Enter(t.Context(), &Request{User: "a", Path: "/"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() {
			time.Sleep(time.Second)
			if ticket, err := c.Enter(t.Context(), &Request{User: "b", Path: "/"}); !errors.Is(err, ErrQueueFull) || ticket.Schema().Name != "work" || ticket.Level().Name != "work" {
				t.Errorf("a full queue gives %v for %+v", err, ticket)
			}
		}()
		begin := time.Now()
		_, err = c.Enter(ctx, &Request{User: "a", Path: "/"})
		for _, s := range c.Schemas() {
			if s.Schema == "work" && s != (SchemaStatus{Schema: "work", Level: "work", Executing: 1, SeatsInUse: 1, Dispatched: 1, QueueFull: 1, TimedOut: 1}) {
				t.Errorf("counted are %+v", s)
			}
		}
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Minute {
			t.Errorf("%v after %v, want the deadline after a minute", err, time.Since(begin))
		}
		c.Leave(first)
		if ticket, err := c.Enter(ctx, &Request{User: "a", Path: "/"}); err != nil {
			t.Errorf("the free seat is lost: %v", err)
		} else {
			c.Leave(ticket)
		}
	})
}

func TestSeatsLingerAndAreReleasedByRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startController(t, oneLevel(10, Level{Queues: 1, HandSize: 1, QueueLength: 9}))
		var tickets []*Ticket
		for range 10 {
			ticket, err := c.Enter(t.Context(), &Request{User: "a", Path: "/", LingerSeats: 1, Linger: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			tickets = append(tickets, ticket)
		}
		for _, ticket := range tickets {
			c.Leave(ticket)
		}
		begin := time.Now()
		ticket, err := c.Enter(t.Context(), &Request{User: "a", Path: "/"})
		if err != nil || time.Since(begin) != time.Second {
			t.Fatalf("%v after %v, want a seat after 1 s", err, time.Since(begin))
		}
		c.Leave(ticket)
	})
}

// A level that may borrow gets the seats of idle levels at the next adjustment.
func TestRunLendsSeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := oneLevel(20, Level{Queues: 4, HandSize: 1, QueueLength: 50})
		config.Levels[2].Shares = 5
		config.Levels = append(config.Levels, Level{Name: "lender", Shares: 90, LendablePercent: 100})
		c := startController(t, config)
		time.Sleep(time.Second)
		for range 16 {
			go func() {
				ticket, err := c.Enter(t.Context(), &Request{User: "a", Path: "/"})
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Minute)
				c.Leave(ticket)
			}()
		}
		synctest.Wait()
		of := func() LevelStatus { return c.Levels()[2] }
		if s := of(); s.Executing >= 16 {
			t.Fatalf("%+v: nothing waits, so that the test shows nothing", s)
		}
		time.Sleep(AdjustPeriod)
		synctest.Wait()
		if s := of(); s.Executing != 16 || s.Waiting != 0 {
			t.Errorf("%+v, want all 16 executing with borrowed seats", s)
		}
		time.Sleep(2 * time.Minute)
	})
}

// Everything at once, with the race detector: the seats are never exceeded and all come
// back.
func TestConcurrentUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		level := Level{Queues: 16, HandSize: 4, QueueLength: 20}
		c := startController(t, oneLevel(5, level))
		var mu sync.Mutex
		inside, most := 0, 0
		var wait sync.WaitGroup
		for g := range 40 {
			wait.Go(func() {
				for i := range 50 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+i%7)*10*time.Millisecond)
					ticket, err := c.Enter(ctx, &Request{User: fmt.Sprint(g % 9), Path: "/"})
					if err == nil {
						mu.Lock()
						inside++
						most = max(most, inside)
						mu.Unlock()
						time.Sleep(time.Duration(1+(g+i)%5) * time.Millisecond)
						mu.Lock()
						inside--
						mu.Unlock()
						c.Leave(ticket)
					}
					cancel()
				}
			})
		}
		wait.Go(func() {
			for i := range 20 {
				time.Sleep(3 * time.Millisecond)
				level.Queues = 4 + i
				if err := c.Configure(oneLevel(5, level)); err != nil {
					t.Error(err)
				}
			}
		})
		wait.Wait()
		// One seat more by rounding, because nominal limits are rounded up.
		if most < 5 || most > 6 {
			t.Errorf("%d requests were inside at once, want 5 or 6", most)
		}
		for _, l := range c.Levels() {
			if l.Executing+l.Waiting+l.SeatsInUse != 0 {
				t.Errorf("at the end %+v", l)
			}
		}
	})
}

func BenchmarkEnterLeave(b *testing.B) {
	c, err := NewController(Default(600))
	if err != nil {
		b.Fatal(err)
	}
	r := Request{User: "system:serviceaccount:ns:default", Groups: []string{"system:serviceaccounts", "system:authenticated"}, Verb: "get", Resource: "pods", Namespace: "ns"}
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		t, err := c.Enter(ctx, &r)
		if err != nil {
			b.Fatal(err)
		}
		c.Leave(t)
	}
}
