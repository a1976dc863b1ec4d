//go:build linux

// Command cni compares ADD and DEL of a container: the reference library libcni with the reference
// plugins, planekit's invoker with the reference plugins, with planekit's as processes, and with
// planekit's in its own process. It needs root.
//
//	cd bench && go run ./cni
//
// Each side has a network namespace of its own that plays the host, and one container that stays. Rounds of the sides alternate. The
// exit status is 1 if a bar was missed.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"time"
)

func main() {
	rounds := flag.Int("rounds", 100, "containers that each side adds and deletes one at a time")
	at := flag.Int("concurrent", 100, "containers that each side adds and deletes at once")
	repeats := flag.Int("repeats", 3, "repetitions of the concurrent part")
	flag.Parse()
	held, err := report(context.Background(), os.Stdout, *rounds, *at, *repeats)
	if err != nil {
		log.Fatal(err)
	}
	if !held {
		log.Fatal("a bar was missed")
	}
}

// figures are the times of one command on one side.
type figures []time.Duration

func (f figures) quantile(q float64) time.Duration {
	if len(f) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(f))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// report prints one table for each network and reports whether all bars were reached.
func report(ctx context.Context, out io.Writer, rounds, at, repeats int) (bool, error) {
	dir, err := os.MkdirTemp("", "bench-cni")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	if err := build(ctx, dir); err != nil {
		return false, err
	}
	held := true
	for _, masquerade := range []bool{false, true} {
		ok, err := network(ctx, out, dir, masquerade, rounds, at, repeats)
		if err != nil {
			return false, err
		}
		held = held && ok
	}
	return held, nil
}

func network(ctx context.Context, out io.Writer, dir string, masquerade bool, rounds, at, repeats int) (held bool, err error) {
	sides, stop, err := open(ctx, dir, masquerade)
	if err != nil {
		return false, err
	}
	defer stop()
	for _, s := range sides { // a node has others: the last container of a bridge costs more
		path, err := makeNamespace()
		if err != nil {
			return false, err
		}
		defer deleteNamespace(path)
		if err := inside(s.host, func() error { return s.attach(ctx, container{"resident", path}) }); err != nil {
			return false, err
		}
	}
	for n := range rounds {
		for _, s := range sides {
			if err := s.one(n, 1); err != nil {
				return false, err
			}
		}
	}
	for n := range repeats {
		for _, s := range sides {
			if err := s.one(rounds+n*at, at); err != nil {
				return false, err
			}
		}
	}
	fmt.Fprintf(out, "\n| ipMasq %v, ms | ADD p50 | p99 | DEL p50 | p99 | %d at once: ADD p50 | p99 | all | DEL p50 | p99 | all | ADD : reference |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n", masquerade, at)
	reference := sides[0].add[0].quantile(0.5)
	for _, s := range sides {
		fmt.Fprintf(out, "| %s |", s.name)
		for _, f := range []figures{s.add[0], s.del[0]} {
			fmt.Fprintf(out, " %s | %s |", ms(f.quantile(0.5)), ms(f.quantile(0.99)))
		}
		for _, pair := range [][2]figures{{s.add[1], s.allAdd}, {s.del[1], s.allDel}} {
			fmt.Fprintf(out, " %s | %s | %s |", ms(pair[0].quantile(0.5)), ms(pair[0].quantile(0.99)), ms(pair[1].quantile(0.5)))
		}
		ratio := float64(s.add[0].quantile(0.5)) / float64(reference)
		fmt.Fprintf(out, " %.2f", ratio)
		if s.bar > 0 {
			held = ratio <= s.bar
			fmt.Fprintf(out, ", at most %.1f: %s", s.bar, map[bool]string{true: "held", false: "MISSED"}[held])
		}
		fmt.Fprintln(out, " |")
	}
	return held, nil
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d.Microseconds())/1000) }
