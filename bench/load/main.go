package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
	case o.floor:
		err = serveFloor()
	default:
		err = measure(ctx, o, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

// A part is measured with servers of its own.
type part struct {
	name string
	// sections are the names for selecting the part or pieces of it; empty means its name.
	sections []string
	run      func(*bench, context.Context) error
}

func parts() []part {
	return []part{
		{"size", nil, (*bench).size},
		{"start", nil, (*bench).startTimes},
		{"constructor", nil, (*bench).constructors},
		{"requests", []string{"create", "get", "update", "patch", "list"}, (*bench).requests},
		{"fan-out", nil, (*bench).fanOut},
		{"memory", nil, (*bench).memory},
		{"curve", nil, (*bench).curve},
	}
}

func (p part) offers() []string {
	if p.sections == nil {
		return []string{p.name}
	}
	return p.sections
}

// sections returns all names that can be selected.
func sections() []string {
	var all []string
	for _, p := range parts() {
		all = append(all, p.offers()...)
	}
	return all
}

// bench is one run of this program.
type bench struct {
	options
	// out receives the report.
	out io.Writer
	// dir is the directory of this run; programs are in bin, or in options.bin.
	dir   string
	kinds []kind
	// part is the name of the current part.
	part string
	// lives counts the started servers and gives each a directory.
	lives   int
	results results
}

// results holds the figures for the bars.
type results struct {
	sizes        map[string]int64
	constructors map[kind]time.Duration
	requests     []row
	fanOut       []fanRow
	memory       []memoryRow
	pods         []pointOfPods
	watchers     []pointOfWatchers
}

func measure(ctx context.Context, o options, out io.Writer) error {
	dir, err := os.MkdirTemp("", "planekit-load-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{options: o, out: out, dir: dir, kinds: o.sides}
	if len(b.kinds) == 0 {
		b.kinds = defaultSides
	}
	if err := b.build(ctx); err != nil {
		return err
	}
	begin := time.Now()
	fmt.Fprintf(out, "%d processors, %s/%s, %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	if average, err := os.ReadFile("/proc/loadavg"); err == nil {
		fmt.Fprintf(out, "; load average at the beginning %s", strings.Fields(string(average))[0])
	}
	fmt.Fprintln(out, ".")
	if o.short {
		fmt.Fprintln(out, "\nThis is the short form: a tenth of the load, one round. It shows that everything works, not how fast.")
	}
	for _, p := range parts() {
		if !slices.ContainsFunc(p.offers(), b.wants) {
			continue
		}
		b.part = p.name
		if err := p.run(b, ctx); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	printBars(out, b.results, b.scale)
	fmt.Fprintf(out, "\nMeasured in %v.\n", time.Since(begin).Round(time.Second))
	return nil
}

// wants reports whether a section is measured.
func (b *bench) wants(section string) bool {
	return len(b.only) == 0 || slices.Contains(b.only, section)
}

// scale returns n, or less in the short form.
func (b *bench) scale(n int) int {
	if b.short {
		return max(n/10, 1)
	}
	return n
}

// lasting returns d, or less in the short form.
func (b *bench) lasting(d time.Duration) time.Duration {
	if b.short {
		return d / 10
	}
	return d
}
