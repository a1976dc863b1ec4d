// Command load puts the same load on planekit's API server and on a stock
// kube-apiserver with the same etcd, and prints what each made of it: requests
// per second, latency, processor time, memory.
//
//	go run ./load [-short] [-rounds 3] [-peers=false] [-only list]
//
// It prints Markdown. All servers run side by side and are measured in turn,
// round by round; figures are medians of the rounds. Clients are one connection
// each with one request at a time (package wire), on the same machine, so that
// server, etcd and clients share its processors.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"syscall"

	"github.com/planekit/planekit/bench/peer"
)

// options are the command line.
type options struct {
	short, peers bool
	rounds       int
	// most is how many pods the memory of servers is measured with at most.
	most int
	only *regexp.Regexp
	// operations are those of the part requests that are measured; nil is all.
	operations   *regexp.Regexp
	bin, profile string
	floor        bool
}

func main() {
	var o options
	var only, operations string
	flag.BoolVar(&o.short, "short", false, "a tenth of the load and one round, to see that everything works")
	flag.BoolVar(&o.peers, "peers", true, "measure kube-apiserver too")
	flag.IntVar(&o.rounds, "rounds", 3, "how often each figure is taken")
	flag.IntVar(&o.most, "most", 100_000, "how many pods to fill servers with, at most, for their memory")
	flag.StringVar(&only, "only", "", "measure only what matches this: "+fmt.Sprint(partNames()))
	flag.StringVar(&o.bin, "bin", "", "directory with apiserver, apiserver-noembed, etcd and kube-apiserver; empty builds them")
	flag.StringVar(&operations, "operations", "", "measure only the requests that match this, such as 'create pod'")
	flag.StringVar(&o.profile, "profile", "", "directory for CPU profiles of planekit's servers")
	flag.BoolVar(&o.floor, "floor", false, "be the server that only writes (used by this program itself)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if o.short || o.rounds < 1 {
		o.rounds = 1
	}
	var err1, err2 error
	o.only, err1 = regexp.Compile(only)
	o.operations, err2 = regexp.Compile(operations)
	err := errors.Join(err1, err2)
	switch {
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

// A part is one table of the report.
type part struct {
	name string
	run  func(*bench, context.Context) error
}

var parts = []part{
	{"size", (*bench).size},
	{"start", (*bench).startTimes},
	{"requests", (*bench).requests},
	{"fan-out", (*bench).fanOut},
	{"memory", (*bench).memory},
}

func partNames() []string {
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	return names
}

// bench is one run of this program.
type bench struct {
	options
	// out gets the report.
	out io.Writer
	// dir is the run's own, bin has the programs in it.
	dir, bin string
	kinds    []kind
	// lives counts the servers that were started, to give each a directory.
	lives int
}

func measure(ctx context.Context, o options, out io.Writer) error {
	dir, err := os.MkdirTemp("", "planekit-load-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{options: o, out: out, dir: dir, bin: o.bin, kinds: []kind{planekitInside, planekitOutside}}
	if o.peers {
		b.kinds = append(b.kinds, stock)
	}
	if b.bin == "" {
		b.bin = filepath.Join(dir, "bin")
		if err := build(ctx, b.bin, o.peers); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "%d processors, %s/%s, %s.\n", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	for _, p := range parts {
		if !o.only.MatchString(p.name) {
			continue
		}
		if err := p.run(b, ctx); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// build compiles what is measured.
func build(ctx context.Context, bin string, peers bool) error {
	module, err := peer.Module(ctx)
	if err != nil {
		return err
	}
	programs := []string{"./cmd/etcd"}
	if peers {
		programs = append(programs, "./cmd/kube-apiserver")
	}
	if err := peer.Build(ctx, bin, module, programs...); err != nil {
		return err
	}
	planekit := filepath.Dir(module)
	if err := peer.Build(ctx, bin, planekit, "./examples/apiserver"); err != nil {
		return err
	}
	return peer.BuildAs(ctx, filepath.Join(bin, withoutEtcd), planekit, "noembed", "./examples/apiserver")
}

// scale is a number of things to do, less of them in the short form.
func (b *bench) scale(n int) int {
	if b.short {
		return max(n/10, 1)
	}
	return n
}
