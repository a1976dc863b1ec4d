// Command informer compares planekit's informer with client-go's, and with controller-runtime's
// cache where that differs, on the same pods in one process, and prints a Markdown table.
//
//	cd bench && go run ./informer
//
// The sides alternate; the table has their medians. --short takes a minute with small numbers,
// which show only that the program works.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

func main() {
	rounds := flag.Int("rounds", 5, "rounds of each side, of which the table has the medians")
	small := flag.Bool("short", false, "small numbers of everything")
	only := flag.String("only", "", "measure only the parts whose names contain this: events, contention, wire, sync, lookups")
	flag.Parse()
	s := full
	if *small {
		s = short
	}
	if err := run(os.Stdout, s, *only, *rounds); err != nil {
		log.Fatal(err)
	}
}

// table prints lines as they are measured.
type table struct {
	out    io.Writer
	rounds int
}

func (t *table) line(name string, ours, theirs, more, ratio, bar string) {
	fmt.Fprintf(t.out, "| %s | %s | %s | %s | %s | %s |\n", name, ours, theirs, more, ratio, bar)
}

// turns measures both sides alternately and returns the results.
func turns[R any](rounds int, ours, theirs func() (R, error)) (a, b []R, err error) {
	for range rounds {
		for i, side := range []func() (R, error){ours, theirs} {
			runtime.GC()
			r, err := side()
			if err != nil {
				return nil, nil, err
			}
			if i == 0 {
				a = append(a, r)
			} else {
				b = append(b, r)
			}
		}
	}
	return a, b, nil
}

func median[R any, N cmp.Ordered](all []R, of func(R) N) N {
	var values []N
	for _, r := range all {
		values = append(values, of(r))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// parts lists the parts of the program, each with some lines of the table.
var parts = []struct {
	name  string
	print func(*table, sizes) error
}{{"events", printEvents}, {"contention", printContention}, {"wire", printWire}, {"sync", printSync}, {"lookups", printLookups}}

func run(out io.Writer, s sizes, only string, rounds int) error {
	// client-go logs that the server refuses initial events and ends watches.
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	ctrllog.SetLogger(logr.Discard())
	t := &table{out, rounds}
	t.line("", "planekit", "client-go", "controller-runtime", "ratio", "bar")
	t.line("---", "---", "---", "---", "---", "---")
	for _, part := range parts {
		if !strings.Contains(part.name, only) {
			continue
		}
		if err := part.print(t, s); err != nil {
			return err
		}
	}
	return nil
}

func perSecond(n float64) string { return fmt.Sprintf("%.0f/s", n) }
func times(r float64) string     { return fmt.Sprintf("%.1f", r) }

func printEvents(t *table, s sizes) error {
	for _, handlers := range []int{1, s.handlers} {
		pods := thin(s.pods)
		changes := updates(pods, s.events)
		a, b, err := turns(t.rounds, func() (eventRun, error) { return planekitEvents(pods, changes, handlers) },
			func() (eventRun, error) { return stockEvents(pods, changes, handlers) })
		if err != nil {
			return err
		}
		rate := func(r eventRun) float64 { return r.perSecond }
		allocs := func(r eventRun) float64 { return r.allocs }
		bar, allocBar := "", ""
		if handlers > 1 {
			bar, allocBar = "at least 5", "planekit under 0.6"
		}
		t.line(fmt.Sprintf("events to %d handlers, %d pods", handlers, s.pods), perSecond(median(a, rate)), perSecond(median(b, rate)), "", times(median(a, rate)/median(b, rate)), bar)
		t.line("allocations for each event and handler", fmt.Sprintf("%.3f", median(a, allocs)), fmt.Sprintf("%.3f", median(b, allocs)), "", "", allocBar)
	}
	return nil
}

func printContention(t *table, s sizes) error {
	pods := thin(s.readerPods)
	for _, greedy := range []bool{false, true} {
		changes, name, bars := updates(pods, s.readerEvents), "", [2]string{"at least 2", "at least 2"}
		if greedy {
			// The number is small for the slower side, but large enough that neither side finishes
			// within one time slice of the scheduler.
			changes, name, bars = changes[:min(len(changes), 40_000)], "greedy ", [2]string{}
		}
		a, b, err := turns(t.rounds, func() (contention, error) { return planekitContention(s, greedy, pods, changes) },
			func() (contention, error) { return stockContention(s, greedy, pods, changes) })
		if err != nil {
			return err
		}
		events, reads := func(c contention) float64 { return c.events }, func(c contention) float64 { return c.reads }
		t.line(fmt.Sprintf("events with %d %sreaders, %d pods", s.readers, name, s.readerPods), perSecond(median(a, events)), perSecond(median(b, events)), "", times(median(a, events)/median(b, events)), bars[0])
		t.line("reads by them, by key and by index in turn", perSecond(median(a, reads)), perSecond(median(b, reads)), "", times(median(a, reads)/median(b, reads)), bars[1])
	}
	return nil
}

// printWire measures pods that differ as real ones do.
func printWire(t *table, s sizes) error {
	pods := newPods(s.pods)
	changed := slices.Clone(pods)
	for i := 0; i < len(pods); i += 1000 {
		p := *pods[i]
		p.ResourceVersion = fmt.Sprint(1_500_000 + i)
		changed[i] = &p
	}
	first := pods[0]
	last, revision := key(first), changed[0].ResourceVersion
	lists := [][]*corev1.Pod{pods, changed}
	one := func(side func(*server) func() (func(string), func(), error), relist bool) func() (wireRun, error) {
		return func() (wireRun, error) {
			sv, err := newServer(lists...)
			if err != nil {
				return wireRun{}, err
			}
			defer sv.close()
			return over(sv, side(sv), relist, revision)
		}
	}
	ours := func(share bool) func(*server) func() (func(string), func(), error) {
		return func(sv *server) func() (func(string), func(), error) { return planekitOver(sv, share, last) }
	}
	theirs := func(sv *server) func() (func(string), func(), error) { return stockOver(sv, last) }
	took, heap, peak := func(r wireRun) time.Duration { return r.took }, func(r wireRun) float64 { return r.heap }, func(r wireRun) float64 { return r.peak }
	// The bars apply to the intended configuration for informers of pods.
	for _, share := range []bool{true, false} {
		name := fmt.Sprintf("first list of %d pods of %d templates over HTTP, ", s.pods, templates)
		speed, weight := "at least 2", "at least 2"
		if share {
			name += "decoded by intern.UnmarshalPod, as is meant for informers of pods"
		} else {
			name += "decoded by k8s.io/api alone"
			speed, weight = "", ""
		}
		a, b, err := turns(t.rounds, one(ours(share), false), one(theirs, false))
		if err != nil {
			return err
		}
		t.line(name, median(a, took).Round(time.Millisecond).String(), median(b, took).Round(time.Millisecond).String(), "",
			times(float64(median(b, took))/float64(median(a, took))), speed)
		t.line("heap of it", megabytes(median(a, heap)), megabytes(median(b, heap)), "", times(median(b, heap)/median(a, heap)), weight)
	}
	a, b, err := turns(min(t.rounds, 3), one(ours(true), true), one(theirs, true))
	if err != nil {
		return err
	}
	t.line("list again, 0.1 % changed: peak of the live heap against before", fmt.Sprintf("%.2f", median(a, peak)), fmt.Sprintf("%.2f", median(b, peak)), "", "", "planekit at most 1.15")
	return nil
}

func printSync(t *table, s sizes) error {
	pods := thin(s.pods)
	a, b, err := turns(t.rounds, func() (time.Duration, error) { return syncPlanekit(pods) }, func() (time.Duration, error) { return syncStock(pods) })
	if err != nil {
		return err
	}
	same := func(d time.Duration) time.Duration { return d }
	t.line(fmt.Sprintf("first list of %d pods at hand", s.pods), median(a, same).Round(time.Millisecond).String(), median(b, same).Round(time.Millisecond).String(), "",
		times(float64(median(b, same))/float64(median(a, same))), "at least 2")
	changes := updates(pods, s.pods)
	a, b, err = turns(t.rounds, func() (time.Duration, error) { return updatePlanekit(pods, changes) }, func() (time.Duration, error) { return updateStock(pods, changes) })
	if err != nil {
		return err
	}
	t.line("a change with two indexes (client-go: of the store alone)", median(a, same).String(), median(b, same).String(), "",
		times(float64(median(b, same))/float64(median(a, same))), "")
	return nil
}

func printLookups(t *table, s sizes) error {
	pods := thin(s.pods)
	all, end, err := lookups(s, pods)
	if err != nil {
		return err
	}
	defer end()
	for _, l := range all {
		var took [3][]time.Duration
		for range t.rounds {
			for i, side := range l.sides {
				if side != nil {
					took[i] = append(took[i], each(l.times, side))
				}
			}
		}
		cells := make([]string, 3)
		same := func(d time.Duration) time.Duration { return d }
		for i := range took {
			if took[i] != nil {
				cells[i] = median(took[i], same).String()
			}
		}
		t.line(l.name, cells[0], cells[1], cells[2], times(float64(median(took[1], same))/float64(median(took[0], same))), "")
	}
	return nil
}
