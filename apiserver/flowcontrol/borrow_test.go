package flowcontrol

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestDivide(t *testing.T) {
	for _, test := range []struct {
		total  float64
		claims []claim
		want   []float64
	}{
		{10, []claim{{0, 10, 5}, {0, 10, 5}}, []float64{5, 5}},
		{9, []claim{{0, 10, 10}, {0, 10, 5}}, []float64{6, 3}},
		{10, []claim{{4, 10, 4}, {0, 10, 12}}, []float64{4, 6}},
		{10, []claim{{0, 2, 8}, {0, 10, 8}}, []float64{2, 8}},
		{10, []claim{{5, 9, 5}, {5, 9, 9}}, []float64{5, 5}},
		{18, []claim{{5, 9, 5}, {5, 9, 9}}, []float64{9, 9}},
		{10, []claim{{0, 20, 0}, {0, 20, 0}}, []float64{5, 5}},
		{10, []claim{{5, 9, 6}, {6, 9, 9}}, nil},
		{20, []claim{{5, 9, 6}, {6, 9, 9}}, nil},
		{10, []claim{{5, 20, 4}}, nil},
	} {
		got, err := divide(test.total, test.claims)
		if (err != nil) != (test.want == nil) || len(got) != len(test.want) {
			t.Fatalf("divide %v among %v: %v, %v", test.total, test.claims, got, err)
		}
		for i := range got {
			if math.Abs(got[i]-test.want[i]) > 1e-6 {
				t.Errorf("divide %v among %v is %v, want %v", test.total, test.claims, got, test.want)
			}
		}
	}
}

// Random levels: the limits add up to all seats, and no level is outside its bounds.
func TestAllotAddsUp(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 2))
	for step := range 300_000 {
		config := Config{Seats: 1 + random.IntN(2000)}
		for range 1 + random.IntN(10) {
			l := Level{Shares: random.IntN(100), LendablePercent: random.IntN(101)}
			if random.IntN(2) == 0 {
				p := random.IntN(300)
				l.BorrowingLimitPercent = &p
			}
			config.Levels = append(config.Levels, l)
		}
		needs := make([]need, len(config.Levels))
		total := 0
		for i, limits := range config.Limits() {
			needs[i] = need{Limits: limits, Demand: Demand{High: random.IntN(400), Smoothed: random.Float64() * 400 * float64(random.IntN(2))}}
			total += limits.Nominal
		}
		exempt := need{exempt: true, Demand: Demand{High: random.IntN(50) * random.IntN(2)}}
		limits := allot(append(needs, exempt))
		sum, floors := 0, 0
		for i, n := range needs {
			if limits[i] < n.Min || limits[i] > n.Max {
				t.Fatalf("step %d: limit %d of %+v", step, limits[i], n)
			}
			sum += limits[i]
			floors += n.floor()
		}
		if limits[len(needs)] != exempt.High {
			t.Fatalf("step %d: the exempt level has %d", step, limits[len(needs)])
		}
		// Each level is rounded by at most half a seat.
		if total-exempt.High > floors && math.Abs(float64(sum-total)) > float64(len(needs))/2 {
			t.Fatalf("step %d: limits %v add up to %d, want %d", step, limits, sum, total)
		}
		if sum > total+len(needs)/2 {
			t.Fatalf("step %d: limits %v add up to %d, more than %d", step, limits, sum, total)
		}
	}
}

func TestIdleLevelsLend(t *testing.T) {
	core, err := New(Default(600), 0)
	if err != nil {
		t.Fatal(err)
	}
	request := Request{User: "a", Groups: []string{"system:serviceaccounts"}, Verb: "list", Resource: "pods", Namespace: "x"}
	for range 290 {
		if _, _, err := core.Arrive(0, &request); err != nil {
			t.Fatal(err)
		}
	}
	status := func() LevelStatus {
		for _, l := range core.Levels() {
			if l.Name == "workload-low" {
				return l
			}
		}
		return LevelStatus{}
	}
	core.Adjust(AdjustPeriod)
	busy := status()
	if busy.Limit < 290 || busy.Executing != 290 || busy.Waiting != 0 {
		t.Errorf("the only busy level has %+v, want a limit above its nominal one and nobody waiting", busy)
	}
	if busy.Average != 290 || busy.High != 290 || busy.Deviation > 0.001 {
		t.Errorf("demand %+v, want 290 all the time", busy.Demand)
	}
}

func TestDemandFallsSlowly(t *testing.T) {
	var d Demand
	var i integrator
	i.set(100)
	i.passTo(5 * time.Second)
	i.set(0)
	i.passTo(10 * time.Second)
	i.reset(&d)
	if d.High != 100 || math.Abs(d.Average-50) > 1e-9 || math.Abs(d.Deviation-50) > 1e-9 || math.Abs(d.Smoothed-100) > 1e-9 {
		t.Errorf("demand %+v, want 50 on average with a deviation of 50", d)
	}
	for period := range 30 {
		i.passTo(time.Duration(period+2) * 10 * time.Second)
		i.reset(&d)
	}
	if d.High != 0 || math.Abs(d.Smoothed-50) > 1 {
		t.Errorf("after five minutes of rest %+v, want half of 100", d)
	}
	i.set(7)
	i.reset(&d)
	if i.reset(&d); d.High != 7 {
		t.Errorf("the maximum of a period that began with 7 is %d", d.High)
	}
}
