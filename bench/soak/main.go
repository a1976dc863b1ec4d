package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// options are the command line.
type options struct {
	duration, sample time.Duration
	seed             uint64
	rate             float64
	kills            int
	runtime          string
	program          string // the cluster
	out, plot        string
	flags            []string // more flags of the cluster
}

func main() {
	o := options{}
	flag.DurationVar(&o.duration, "duration", time.Hour, "length of the run")
	flag.DurationVar(&o.sample, "sample", 10*time.Second, "time between samples")
	flag.Uint64Var(&o.seed, "seed", 0, "seed of the load; 0 takes one at random and prints it")
	flag.Float64Var(&o.rate, "rate", 60, "operations a second")
	flag.IntVar(&o.kills, "kills", 5, "how often the cluster is killed")
	flag.StringVar(&o.runtime, "runtime", "fake", "runtime of the cluster: fake or containerd")
	flag.StringVar(&o.program, "cluster", "../bin/cluster", "program of the cluster")
	flag.StringVar(&o.out, "out", filepath.Join(os.TempDir(), "planekit-soak"), "directory of data, logs, samples and plot; its cluster's data is removed first")
	flag.StringVar(&o.plot, "plot", "", "file of the plot (default soak.svg in -out)")
	more := flag.String("cluster-flags", "", "more flags of the cluster, separated by spaces")
	flag.Parse()
	o.flags = strings.Fields(*more)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

// run runs the stages, judges the samples and draws the plot.
func run(ctx context.Context, o options, out io.Writer) error {
	if o.seed == 0 {
		o.seed = rand.Uint64()
	}
	if o.plot == "" {
		o.plot = filepath.Join(o.out, "soak.svg")
	}
	fmt.Fprintf(out, "seed %d, %v at %g operations a second, runtime %s, data in %s\n", o.seed, o.duration, o.rate, o.runtime, o.out)
	s, err := newSoak(o, out)
	if err != nil {
		return err
	}
	failed := s.run(ctx)
	failed = errors.Join(failed, s.child.stop())
	failed = errors.Join(failed, s.tally.report(out))
	failed = errors.Join(failed, s.samples.write(o.csv()), writePlot(o.plot, s.samples, s.child.deaths()))
	if errors.Is(failed, context.Canceled) {
		return failed
	}
	return errors.Join(failed, s.samples.judge(out, o.settled()))
}

// csv returns the file of the samples, which is also written at intervals during the run.
func (o options) csv() string { return filepath.Join(o.out, "samples.csv") }

// stage is a stage of the run.
type stage string

const (
	idle   stage = "idle"
	kills  stage = "kills"
	steady stage = "steady"
	drain  stage = "drain"
	cool   stage = "cool"
)

// share is the part of the duration of each stage; draining has no limit.
var share = map[stage]float64{idle: 0.02, kills: 0.13, steady: 0.65, cool: 0.20}

func (o options) length(of stage) time.Duration {
	return time.Duration(share[of] * float64(o.duration))
}

// settled reports whether the stages are long enough to be judged: histories are kept for up to ten
// minutes, so that a shorter run has not settled when it ends.
func (o options) settled() bool { return o.length(cool) >= 11*time.Minute }
