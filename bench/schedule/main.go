package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// options holds the values of the flags.
type options struct {
	nodes, pods int
	workload    string
	limit       time.Duration
}

func main() {
	var o options
	flag.IntVar(&o.nodes, "nodes", 1000, "how many nodes there are")
	flag.IntVar(&o.pods, "pods", 2000, "how many pods are placed")
	flag.StringVar(&o.workload, "workload", "all", "which workload is run")
	flag.DurationVar(&o.limit, "limit", 0, "how long pods are placed at most; 0 means until all are")
	flag.Parse()
	if err := run(os.Stdout, o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
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

// run measures the chosen workloads and writes the table.
func run(out io.Writer, o options) error {
	list, err := chosen(o.workload)
	if err != nil {
		return err
	}
	if o.nodes < 2 || o.pods < 1 {
		return fmt.Errorf("%d nodes and %d pods: at least 2 and 1 are needed", o.nodes, o.pods)
	}
	header(out)
	for _, w := range list {
		pods := o.pods
		if w.name == "preemption" {
			pods = min(pods, o.nodes*highPods)
		}
		f, err := runCore(newOwnCore(), w.make(o.nodes, pods), o.limit)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		row(out, w.name, o.nodes, f)
	}
	return nil
}
