package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"
)

// options holds the values of the flags.
type options struct {
	nodes                []int
	pods                 int
	workload, peer, mode string
	limit                time.Duration
	out                  string
	// bin is the folder of the stock programs, and rounds how often pairs take turns.
	bin    string
	rounds int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := command(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// command runs what the arguments say.
func command(ctx context.Context, arguments []string) error {
	quiet()
	if len(arguments) > 0 && (arguments[0] == serveCommand || arguments[0] == scheduleCommand) {
		return part(ctx, arguments[0], arguments[1:])
	}
	var o options
	o.nodes = []int{1000}
	flag.Func("nodes", "how many nodes there are, or several such numbers with commas (default 1000)", func(text string) (err error) {
		o.nodes, err = numbers(text)
		return err
	})
	flag.IntVar(&o.pods, "pods", 0, "how many pods are placed; 0 means two for each node")
	flag.StringVar(&o.workload, "workload", "all", "which workload is run")
	flag.StringVar(&o.peer, "peer", "both", "whose scheduler is run: own, stock or both")
	flag.StringVar(&o.mode, "mode", "core", "what is measured: the decision core, a cluster with an API server, both, pair (an API server and a scheduler over an etcd), dryrun (the search for victims alone), growth (of the time of a decision with nodes, pods and classes), plot (the data of growth again), or quality (of packing and spreading)")
	flag.DurationVar(&o.limit, "limit", 0, "how long pods are placed at most in a run; 0 means until all are")
	flag.StringVar(&o.out, "out", "", "a Markdown file for the table, such as ../docs/benchmarks/schedule.md, or the data file of growth, beside which is its plot; empty writes none")
	flag.StringVar(&o.bin, "bin", "../bin/stock", "the folder of the stock etcd, kube-apiserver and kube-scheduler, for --mode pair")
	flag.IntVar(&o.rounds, "rounds", 1, "how often the pairs take turns, or how many traces there are of each shape")
	flag.Parse()
	switch o.mode {
	case "pair":
		return runPairs(ctx, os.Stdout, o)
	case "dryrun":
		return runDryRuns(ctx, os.Stdout, o)
	case "growth":
		return runGrowth(ctx, o)
	case "plot":
		return drawGrowth(o.out)
	case "quality":
		return runQuality(ctx, os.Stdout, o)
	}
	return run(ctx, os.Stdout, o)
}

// numbers returns the numbers in a list with commas.
func numbers(text string) (list []int, err error) {
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, nil
}

// chosen returns the workloads with a name, or all.
func chosen(name string) ([]workload, error) {
	all := workloads()
	if name == "all" {
		return all, nil
	}
	i := slices.IndexFunc(all, func(w workload) bool { return w.name == name })
	if i < 0 {
		return nil, fmt.Errorf("there is no workload %q", name)
	}
	return all[i : i+1], nil
}

// run measures the chosen workloads and peers, one after another, and writes the table.
func run(ctx context.Context, out io.Writer, o options) error {
	list, err := chosen(o.workload)
	if err != nil {
		return err
	}
	peers, err := chosenPeers(o.peer)
	if err != nil {
		return err
	}
	if slices.Min(o.nodes) < 2 || o.pods < 0 {
		return fmt.Errorf("%v nodes and %d pods: at least 2 nodes are needed", o.nodes, o.pods)
	}
	modes := []string{o.mode}
	switch o.mode {
	case "core", "cluster":
	case "both":
		modes = []string{"core", "cluster"}
	default:
		return fmt.Errorf("the mode is core, cluster or both, not %q", o.mode)
	}
	var page bytes.Buffer
	for _, mode := range modes {
		if err := table(ctx, io.MultiWriter(out, &page), o, mode, list, peers); err != nil {
			return err
		}
	}
	if o.out == "" {
		return nil
	}
	return os.WriteFile(o.out, document(o, page.String()), 0o644)
}

// table measures workloads by peers in one mode and writes a row for each.
func table(ctx context.Context, out io.Writer, o options, mode string, list []workload, peers []peer) error {
	header(out, mode)
	for _, w := range list {
		for _, nodes := range o.nodes {
			pods := o.pods
			if pods == 0 {
				pods = 2 * nodes
			}
			for _, p := range peers {
				f, err := measure(ctx, p, w.make(nodes, pods), mode, o.limit)
				if err != nil {
					return fmt.Errorf("%s, %s, %d nodes: %w", w.name, p.name, nodes, err)
				}
				row(out, w.name, p.name, nodes, f)
			}
		}
	}
	return nil
}

// measure runs one peer over a world.
func measure(ctx context.Context, p peer, w *world, mode string, limit time.Duration) (figures, error) {
	if mode == "cluster" {
		return runCluster(ctx, p, w, limit)
	}
	c, err := p.core(ctx)
	if err != nil {
		return figures{}, err
	}
	defer c.close()
	return runCore(c, w, limit)
}
