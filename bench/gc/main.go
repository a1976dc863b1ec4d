// Command gc times the start of garbage collection over many objects that have their owners, with
// planekit's collector and with that of kube-controller-manager, in one process one after the
// other, and prints a Markdown table.
//
//	go run ./gc
//
// Both begin with full local caches of the same objects in memory, so the figures are the
// collectors' own: the additional heap, the time until the last of a few objects without an owner
// has been deleted, and the number of reads from the API.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"time"
)

// sides lists the collectors. The result of make runs a collector over s until ctx is done.
var sides = []struct {
	name string
	make func(ctx context.Context, s *stock) (start func(context.Context), err error)
}{
	{"planekit", ours},
	{"kube-controller-manager", theirs},
}

// These are planekit's own bars at full size.
const (
	startBar = 5 * time.Second
	heapBar  = 120 // bytes an object, besides names, which the caches have
)

func main() {
	objects := flag.Int("objects", 180_000, "how many objects there are, one in six the owner of five")
	lost := flag.Int("lost", 200, "how many more there are whose owner is gone")
	rounds := flag.Int("rounds", 5, "rounds of each side, of which the medians are told")
	flag.Parse()
	if err := run(os.Stdout, *objects, *lost, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// figures holds the results of one start.
type figures struct {
	took  time.Duration
	heap  float64 // bytes an object
	reads int64   // of owners
}

func run(out io.Writer, objects, lost, rounds int) error {
	fmt.Fprintf(out, "%d objects, %d of them without their owner; medians of %d rounds. Bars of planekit: %v, %d B.\n\n", objects+lost, lost, rounds, startBar, heapBar)
	fmt.Fprintln(out, "| collector | start to the last deletion | heap an object | reads of owners |\n|---|---:|---:|---:|")
	results := make([][]figures, len(sides))
	for range rounds {
		for i, side := range sides {
			f, err := measure(side.make, objects, lost)
			if err != nil {
				return fmt.Errorf("%s: %w", side.name, err)
			}
			results[i] = append(results[i], f)
		}
	}
	for i, side := range sides {
		f := median(results[i])
		fmt.Fprintf(out, "| %s | %v | %.0f B | %d |\n", side.name, f.took.Round(time.Millisecond), f.heap, f.reads)
	}
	return nil
}

func measure(make func(context.Context, *stock) (func(context.Context), error), objects, lost int) (figures, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := newStock(objects, lost)
	start, err := make(ctx, s)
	if err != nil {
		return figures{}, err
	}
	before := heap()
	ended := newEnded()
	began := time.Now()
	go func() {
		defer close(ended)
		start(ctx)
	}()
	select {
	case <-s.collected:
	case <-time.After(5 * time.Minute):
		return figures{}, fmt.Errorf("%d of %d deleted after 5 minutes", s.deletions.Load(), lost)
	}
	f := figures{took: time.Since(began), reads: s.reads.Load()}
	f.heap = float64(heap()-before) / float64(objects+lost)
	if n := s.deletions.Load(); n != int64(lost) {
		return figures{}, fmt.Errorf("%d deletions, of %d objects without their owner", n, lost)
	}
	cancel()
	<-ended
	runtime.KeepAlive(s)
	return f, nil
}

func newEnded() chan struct{} { return make(chan struct{}) }

// heap returns the size of the heap after a collection, in bytes.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// median returns the median of each figure separately.
func median(all []figures) figures {
	at := func(less func(a, b figures) int) figures {
		sorted := slices.SortedFunc(slices.Values(all), less)
		return sorted[len(sorted)/2]
	}
	return figures{
		took:  at(func(a, b figures) int { return int(a.took - b.took) }).took,
		heap:  at(func(a, b figures) int { return int(a.heap - b.heap) }).heap,
		reads: at(func(a, b figures) int { return int(a.reads - b.reads) }).reads,
	}
}
