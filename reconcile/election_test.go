package reconcile

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// candidate is an election and its one request in progress.
type candidate struct {
	election
	skew time.Duration // offset of its wall clock
	wake time.Duration // time of its next action
	// The request takes effect at arrives. Its reply, unless it is lost, arrives at wake.
	request  string
	began    time.Duration
	arrives  time.Duration
	lost     bool
	put, got LeaseRecord
	conflict bool
}

// lone is the lease that candidates share in a simulation.
type lone struct {
	record  LeaseRecord
	version int
	late    []LeaseRecord // puts whose callers have given up, which will still take effect
}

func (l *lone) write(r LeaseRecord) (LeaseRecord, bool) {
	if r.Version != l.record.Version {
		return LeaseRecord{}, false
	}
	l.version++
	r.UID, r.Version = "1", fmt.Sprint(l.version)
	l.record = r
	return r, true
}

// TestElectionByTheMillion simulates candidates whose requests are slow or lost, that pause for
// minutes, and whose clocks differ by hours and jump. Two of them must never lead at the same time.
func TestElectionByTheMillion(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	steps, changes := 0, 0
	for i := uint64(0); steps < 1_000_000; i++ {
		r := rand.New(rand.NewPCG(seed, i))
		n, c := simulate(t, r, 2+int(i%2), 2000)
		steps, changes = steps+n, changes+c
		if t.Failed() {
			t.Fatalf("in run %d", i)
		}
	}
	if changes < steps/1000 {
		t.Errorf("the leader changed %d times only in %d steps", changes, steps)
	}
}

func simulate(t *testing.T, r *rand.Rand, n, steps int) (done, changes int) {
	seconds := func(most float64) time.Duration { return time.Duration(r.Float64() * most * float64(time.Second)) }
	lease := &lone{}
	all := make([]*candidate, n)
	for i := range all {
		all[i] = &candidate{election: election{identity: fmt.Sprint("candidate-", i), lease: 15 * time.Second, deadline: 10 * time.Second},
			skew: seconds(7200) - time.Hour, wake: seconds(5)}
	}
	leader := -1
	for range steps {
		now, who := time.Duration(1<<62), all[0]
		for _, c := range all { // the one that acts first
			if c.request != "" && c.arrives >= 0 && c.arrives < now {
				now, who = c.arrives, c
			}
			if c.wake < now {
				now, who = c.wake, c
			}
		}
		if len(lease.late) > 0 && r.IntN(5) == 0 {
			lease.write(lease.late[0])
			lease.late = lease.late[1:]
		}
		leading := 0
		for i, c := range all {
			if c.leads(now) {
				if leading++; leader != i {
					leader = i
					changes++
				}
			}
		}
		if leading > 1 {
			t.Errorf("at %v %d lead", now, leading)
			return
		}
		if who.request != "" && now == who.arrives {
			who.arrive(lease)
			continue
		}
		who.act(r, lease, now, seconds)
	}
	return steps, changes
}

// arrive applies the request to the lease.
func (c *candidate) arrive(l *lone) {
	c.arrives = -1
	if c.request == "get" {
		c.got = l.record
		return
	}
	written, ok := l.write(c.put)
	c.got, c.conflict = written, !ok
}

// act handles the reply, if there is one, and makes the next request.
func (c *candidate) act(r *rand.Rand, l *lone, now time.Duration, seconds func(float64) time.Duration) {
	arrived := c.arrives < 0
	request := c.request
	c.request = ""
	if request == "put" && !arrived {
		l.late = append(l.late, c.put)
	}
	switch {
	case request == "put" && (c.lost || !arrived || c.conflict):
		c.unsure = true
	case request == "put":
		c.recordWrite(c.got, c.began)
	case request == "get" && arrived && !c.lost:
		c.recordRead(c.got, now)
	}
	if r.IntN(50) == 0 {
		c.skew = seconds(7200) - time.Hour
	}
	if r.IntN(40) == 0 { // it pauses, and then continues
		c.wake = now + seconds(60)
		return
	}
	if r.IntN(100) == 0 { // its work ends, and it tries again
		c.held = false
	}
	ask := request == "" || request == "put" && c.unsure
	if !ask {
		put, ok := c.next(now, time.Unix(1_800_000_000, 0).Add(now+c.skew))
		if ok && c.known {
			c.request, c.put = "put", put
		}
	} else {
		c.request = "get"
	}
	c.began, c.conflict, c.lost = now, false, r.IntN(10) == 0
	c.arrives = now + seconds(4)
	c.wake = c.arrives + seconds(4)
	if r.IntN(8) > 0 { // it is usually quick
		c.arrives = now + seconds(0.1)
		c.wake = c.arrives + seconds(2)
	}
	if r.IntN(50) == 0 { // it gives up before its request takes effect
		c.wake = now + (c.arrives-now)/2
	}
	if c.request == "" {
		c.arrives, c.wake = -1, now+seconds(3)
	}
}

// TestRenewal: a renewal keeps the time of acquisition and the number of transitions, and
// candidates that compare whole seconds, as client-go's do, see it whatever the local clock does.
func TestRenewal(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)
	first := LeaseRecord{Holder: "a", Duration: 15 * time.Second, Acquired: start, Renewed: start, Transitions: 3, UID: "1", Version: "7"}
	for name, wall := range map[string]time.Time{
		"goes on": start.Add(2 * time.Second), "stands": start, "set back by a moment": start.Add(-time.Millisecond),
		"set back": start.Add(-time.Hour), "set forward": start.Add(time.Hour),
	} {
		e := &election{identity: "a", lease: 15 * time.Second, deadline: 10 * time.Second}
		e.recordWrite(first, 0)
		seen := first
		for i := range 3 {
			now := time.Duration(i) * 2 * time.Second
			r, ok := e.next(now, wall.Add(now/1000))
			if !ok || !r.Acquired.Equal(start) || r.Transitions != 3 || r.Holder != "a" || r.UID != "1" || r.Version != "7" {
				t.Fatalf("%s: renewed as %+v, %v", name, r, ok)
			}
			if i == 0 && r.Renewed.Unix() == seen.Renewed.Unix() || !r.Renewed.After(seen.Renewed) {
				t.Errorf("%s: renewed at %v after %v", name, r.Renewed, seen.Renewed)
			}
			e.recordWrite(r, now)
			seen = r
		}
	}
}
