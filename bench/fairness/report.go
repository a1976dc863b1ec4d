package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// bar is the maximum 99th percentile of well-behaved clients beside greedy ones.
const bar = 100 * time.Millisecond

// latencies holds the latencies of one kind of sender.
type latencies struct {
	name string

	mu     sync.Mutex
	all    []time.Duration // guarded by mu
	failed int             // guarded by mu
}

func (l *latencies) add(took time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, took)
	if !ok {
		l.failed++
	}
}

// at returns the latency below which the given part of all latencies is.
func (l *latencies) at(part float64) time.Duration {
	if len(l.all) == 0 {
		return 0
	}
	slices.Sort(l.all)
	return l.all[min(len(l.all)-1, int(part*float64(len(l.all))))]
}

// report holds the results of one side.
type report struct {
	side          string
	alone, beside []latencies
	// served, rejected and broken count requests of the greedy clients in lasted seconds.
	served, rejected, broken int
	lasted                   float64
	cpu                      time.Duration
	resident                 float64 // MiB
}

func (r *report) print(w io.Writer) {
	for _, part := range []struct {
		title string
		of    []latencies
	}{{"alone", r.alone}, {"beside the greedy", r.beside}} {
		for i := range part.of {
			l := &part.of[i]
			fmt.Fprintf(w, "| %s, %s | %s | %d | %d | %s | %s | %s |\n", r.side, part.title, l.name, len(l.all), l.failed, short(l.at(0.5)), short(l.at(0.99)), short(l.at(1)))
		}
	}
	fmt.Fprintf(w, "\n%s: of the greedy %.0f requests a second were served, %.0f rejected and %.0f failed; the server took %.1f s of processor time and %.0f MiB.\n\n",
		r.side, float64(r.served)/r.lasted, float64(r.rejected)/r.lasted, float64(r.broken)/r.lasted, r.cpu.Seconds(), r.resident)
}

// judge returns an error that lists the missed bars.
func (r *report) judge() error {
	var errs []error
	for i := range r.beside {
		if l := &r.beside[i]; l.at(0.99) > bar || l.failed > 0 {
			errs = append(errs, fmt.Errorf("%s: p99 is %s, at most %v is wanted, and %d failed", l.name, short(l.at(0.99)), bar, l.failed))
		}
	}
	return errors.Join(errs...)
}

func short(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }
