// Command rollout measures from the create of a Deployment until its pods exist
// as objects, seen by a watch over the wire; no scheduler and no node take part.
//
//	go run ./rollout [--runs 5] [--bin directory] [--default-limits=false]
//
// Planekit's cluster on its embedded etcd stands beside stock etcd,
// kube-apiserver and kube-controller-manager on the same disk, and beside its own
// API server and controllers over a store in memory. The stock controllers may
// ask as often as they like; with the limits they have by default they are a row
// of their own.
//
// Each round makes a new Deployment, deletes it in the foreground and waits until
// nothing of it is left and the servers are quiet. The first round of each side
// is left out. Sides take turns; times are medians. It prints Markdown.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
)

// sizes are the numbers of replicas that are rolled out.
var sizes = []int{3, 500}

// options are the command line.
type options struct {
	runs, defaultRuns int
	bin               string
	kinds             []kind
	profile           string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if len(os.Args) > 1 && os.Args[1] == serveCommand {
		exit(serve(ctx, os.Args[2:]))
	}
	o := options{}
	names := ""
	flag.IntVar(&o.runs, "runs", 5, "how often each time is taken")
	flag.IntVar(&o.defaultRuns, "default-runs", 1, "how often each time is taken of the controllers with the limits they have by default, a minute a round; 0 is never")
	flag.StringVar(&o.bin, "bin", "", "directory of programs that are built already")
	flag.StringVar(&names, "sides", "", "what to measure, separated by commas: "+strings.Join(nameOf(kinds), ", ")+" (default all)")
	flag.StringVar(&o.profile, "profile", "", "file for a processor profile of "+string(planekitMemory))
	flag.Parse()
	var err error
	if o.kinds, err = chosen(names); err == nil {
		err = run(ctx, os.Stdout, o)
	}
	exit(err)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "rollout:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(ctx context.Context, out io.Writer, o options) error {
	dir, err := os.MkdirTemp("", "planekit-rollout-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{dir: dir, options: o, results: results{}}
	if err := b.build(ctx); err != nil {
		return err
	}
	if err := b.measure(ctx, o.kinds, o.runs); err != nil {
		return err
	}
	if o.defaultRuns > 0 && slices.Contains(o.kinds, stock) {
		if err := b.measure(ctx, []kind{stockLimited}, o.defaultRuns); err != nil {
			return err
		}
	}
	b.results.print(out, append(slices.Clone(o.kinds), stockLimited))
	return nil
}

// bench is one run of this program.
type bench struct {
	options
	dir     string
	results results
}

// measure starts sides of the kinds, and rolls Deployments out on one after the
// other.
func (b *bench) measure(ctx context.Context, kinds []kind, runs int) (err error) {
	var sides []*side
	defer func() {
		for _, s := range sides {
			if stopErr := s.stop(); err == nil {
				err = stopErr
			}
		}
	}()
	for _, k := range kinds {
		s, err := b.start(ctx, k, filepath.Join(b.dir, strings.ReplaceAll(string(k), " ", "-")))
		if err != nil {
			return fmt.Errorf("start %s: %w", k, err)
		}
		sides = append(sides, s)
	}
	for _, replicas := range sizes {
		for round := range runs + 1 {
			for _, s := range sides {
				f, err := s.rollOut(ctx, fmt.Sprintf("web-%d-%d", replicas, round), replicas)
				if err != nil {
					return fmt.Errorf("%d replicas on %s: %w", replicas, s.kind, err)
				}
				if warmUp := round == 0; !warmUp {
					b.results.add(s.kind, replicas, f)
				}
			}
			slices.Reverse(sides)
		}
	}
	return nil
}
