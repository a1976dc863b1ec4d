package usagering_test

import (
	"testing"
	"time"

	"github.com/planekit/planekit/admission/initialresources"
	"github.com/planekit/planekit/admission/initialresources/usagering"
	corev1 "k8s.io/api/core/v1"
)

const day = 24 * time.Hour

// TestSpan adds samples for 100 days, more and then fewer of them, to rings that
// must reach back 30: they hold the days evenly, whatever the pace was.
func TestSpan(t *testing.T) {
	const samples = 720
	for _, pace := range []struct {
		name          string
		before, after time.Duration // between samples
		least         int64         // samples of the last 30 days
	}{
		{"as many as it holds", time.Hour, time.Hour, samples - 1},
		{"one a minute", time.Minute, time.Minute, samples/2 - 1},
		{"fewer than it holds", 5 * time.Hour, 5 * time.Hour, 144},
		{"busy and then calm", time.Minute, 30 * time.Minute, samples/2 - 1},
		{"calm and then busy", day, 2 * time.Minute, samples/2 - 1},
	} {
		ring, err := usagering.New(usagering.Config{Samples: samples, Span: 30 * day})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Unix(1_800_000_000, 0)
		at, change, end := begin, begin.Add(50*day), begin.Add(100*day)
		for at.Before(end) {
			// The usage is the number of the day.
			ring.Add(usagering.Sample{Image: "a", Time: at, CPU: int64(at.Sub(begin)/day) + 1})
			if at.Before(change) {
				at = at.Add(pace.before)
			} else {
				at = at.Add(pace.after)
			}
		}
		count := func(days int) (median, n int64) {
			t.Helper()
			median, n, err := ring.Usage(t.Context(), initialresources.Query{
				Resource: corev1.ResourceCPU, Percentile: 50, Image: "a", Start: end.Add(-time.Duration(days) * day), End: end,
			})
			if err != nil {
				t.Fatal(err)
			}
			return median, n
		}
		median, n := count(30)
		if n < pace.least || n > samples {
			t.Errorf("%s: %d samples of 30 days, want %d to %d", pace.name, n, pace.least, samples)
		}
		if median < 84 || median > 87 {
			t.Errorf("%s: the median of 30 days is of day %d, want 85 or 86", pace.name, median)
		}
		if week, of := count(7); of < n*7/30-2 || week < 96 || week > 98 {
			t.Errorf("%s: %d of %d samples are of the last week, their median of day %d", pace.name, of, n, week)
		}
		if _, all := count(200); all > samples {
			t.Errorf("%s: %d samples are kept, want at most %d", pace.name, all, samples)
		}
	}
}

// TestSpanOfFew: nothing is thinned before the ring is full, and a ring of one
// sample has the last.
func TestSpanOfFew(t *testing.T) {
	for size, want := range map[int]int64{1: 1, 9: 9, 10: 10, 20: 10} {
		ring, err := usagering.New(usagering.Config{Samples: size, Span: day})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Unix(1_800_000_000, 0)
		for i := range int64(min(size, 10)) {
			ring.Add(usagering.Sample{Image: "a", Time: begin.Add(time.Duration(i) * time.Second), CPU: i + 1})
		}
		if size == 1 {
			ring.Add(usagering.Sample{Image: "a", Time: begin.Add(day), CPU: 7})
		}
		last, n, err := ring.Usage(t.Context(), initialresources.Query{
			Resource: corev1.ResourceCPU, Percentile: 100, Image: "a", Start: begin, End: begin.Add(day),
		})
		if err != nil || n != want || last != max(want, 7*int64(1/size)) {
			t.Errorf("of %d: %d samples up to %d, %v", size, n, last, err)
		}
	}
	if _, err := usagering.New(usagering.Config{Span: -1}); err == nil {
		t.Error("a negative span is accepted")
	}
}

// TestSpanIsEven looks at every day of a steady pace: the samples of 30 days are as
// close together in the first half as in the second.
func TestSpanIsEven(t *testing.T) {
	for _, pace := range []time.Duration{40 * time.Second, 100 * time.Second, 29 * time.Minute, 59 * time.Minute} {
		ring, err := usagering.New(usagering.Config{Samples: 720, Span: 30 * day})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Unix(1_800_000_000, 0)
		looked := 30 * day
		for at := time.Duration(0); at < 100*day; at += pace {
			ring.Add(usagering.Sample{Image: "a", Time: begin.Add(at)})
			if at < looked {
				continue
			}
			looked += day
			between := func(from, to time.Duration) int64 {
				_, n, err := ring.Usage(t.Context(), initialresources.Query{
					Resource: corev1.ResourceCPU, Percentile: 50, Image: "a", Start: begin.Add(from + 1), End: begin.Add(to),
				})
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
			if first, second := between(at-30*day, at-15*day), between(at-15*day, at); first-second > 2 || second-first > 2 {
				t.Errorf("every %v, on day %d: %d samples of the first half, %d of the second", pace, at/day, first, second)
			}
		}
	}
}
