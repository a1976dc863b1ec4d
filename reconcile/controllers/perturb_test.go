package controllers_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A scenario is a world with controllers, and what users do to it.
type scenario struct {
	name string
	// set makes the world. What happens in it besides ends with ctx.
	set func(t *testing.T, ctx context.Context, r *rand.Rand) stage
}

// stage is a scenario that is about to begin. The checks of its collections fail on states that
// must not occur even for an instant.
type stage struct {
	*api
	// run starts new controllers with caches of their own.
	run func(l lag) *process
	// steps are the actions of users, some time after each other. No fault strikes them.
	steps []func()
	// wanted is asked at the end.
	wanted func()
}

// crashes is high enough for most scenarios; some write more than 200 times.
var crashes = flag.Int("crashes", 16, "at how many writes of each scenario the process is killed")

// pause is the longest time between steps: enough for some rollouts to end, and not for all.
const pause = 20 * time.Second

// TestPerturbed: whatever happens between the API and a controller, in the end
// there is what was asked for, and on the way never more nor less than may be.
func TestPerturbed(t *testing.T) {
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			for name, l := range map[string]lag{
				"stale":     {most: 3 * time.Second},
				"missed":    {most: 500 * time.Millisecond, relist: 60},
				"twice":     {most: 500 * time.Millisecond, twice: 50, late: 2 * time.Second},
				"all":       {most: 2 * time.Second, relist: 20, twice: 20, late: time.Second},
				"unbroken":  {},
				"lost":      {most: time.Second},
				"restarted": {most: time.Second, relist: 10},
			} {
				for range 2 {
					seed := rand.Uint64()
					t.Run(fmt.Sprintf("%s/seed=%d", name, seed), func(t *testing.T) {
						t.Parallel()
						synctest.Test(t, func(t *testing.T) { s.disturb(t, seed, l, name) })
					})
				}
			}
			s.crash(t)
		})
	}
}

// begin sets the scenario. end must be called when its process has stopped.
func (s scenario) begin(t *testing.T, seed uint64) (st stage, r *rand.Rand, end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	r = rand.New(rand.NewPCG(seed, 0))
	return s.set(t, ctx, rand.New(rand.NewPCG(seed, 1))), r, cancel
}

// disturb runs the scenario with copies that are as l says. By name, answers of
// writes are lost as well, or the process is replaced at any time.
func (s scenario) disturb(t *testing.T, seed uint64, l lag, name string) {
	st, r, end := s.begin(t, seed)
	defer end()
	l.random = r
	noFaults := func() {}
	if name == "lost" || name == "all" {
		noFaults = st.faults(r, 15)
	}
	p := st.run(l)
	for _, step := range st.steps {
		for range 3 {
			time.Sleep(time.Duration(r.Int64N(int64(pause) / 3)))
			if name == "restarted" || name == "all" {
				p.stop(t)
				p = st.run(l)
			}
		}
		step()
	}
	time.Sleep(time.Duration(r.Int64N(int64(pause))))
	noFaults()
	settle()
	st.wanted()
	p.stop(t)
	if len(st.blind) > 0 {
		t.Errorf("deleted without a UID: %v", st.blind)
	}
	if name == "lost" || name == "restarted" || name == "all" {
		return // the outcome is unknown
	}
	for _, write := range st.tooLate() {
		if strings.HasPrefix(write, "create ") {
			t.Errorf("%s: it exists, as its creator was told", write)
		}
	}
}

// crash kills the process at one of its writes, the write done or not, and starts another process. It does that for
// each write in turn or, if there are many, for some at equal distances.
func (s scenario) crash(t *testing.T) {
	var writes int
	synctest.Test(t, func(t *testing.T) { writes = s.writes(t) })
	step := max(1, (writes+*crashes-1)/(*crashes))
	for at := rand.IntN(step); at < writes; at += step {
		for _, applied := range []bool{false, true} {
			t.Run(fmt.Sprintf("crash/write=%d/applied=%t", at, applied), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { s.crashAt(t, at, applied) })
			})
		}
	}
}

// writes counts the writes of a run without faults.
func (s scenario) writes(t *testing.T) (n int) {
	st, _, end := s.begin(t, 1)
	defer end()
	st.mu.Lock()
	st.fault = func(string, string) (bool, error) { n++; return true, nil }
	st.mu.Unlock()
	p := st.run(lag{})
	for _, step := range st.steps {
		time.Sleep(pause)
		step()
	}
	settle()
	st.wanted()
	p.stop(t)
	if n == 0 {
		t.Error("nothing is written: there is nothing to disturb")
	}
	return n
}

func (s scenario) crashAt(t *testing.T, at int, applied bool) {
	st, r, end := s.begin(t, uint64(at))
	defer end()
	slow := lag{random: r, most: time.Second}
	dead := st.crash(at, applied)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, step := range st.steps {
			time.Sleep(pause)
			step()
		}
	}()
	p := st.run(slow)
	select {
	case <-dead:
	case <-time.After(time.Hour): // there were not so many writes
	}
	p.stop(t)
	st.mu.Lock()
	st.fault = nil
	st.mu.Unlock()
	p = st.run(slow)
	<-done
	settle()
	st.wanted()
	p.stop(t)
}
