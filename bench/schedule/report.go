package main

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"
)

// modes says how the figures of each mode are taken.
var modes = map[string]string{
	"core": "Each scheduler decides about the pods one after another, without an API server. The heap a pod of the\n" +
		"stock scheduler includes its copy of the pod, which it keeps until the pod is bound.",
	"cluster": "Each scheduler binds the pods of a planekit API server in memory, over TLS, from the first to the last one.\n" +
		"The processor time includes that of the API server.",
}

// header writes what the mode is and the head of its table.
func header(out io.Writer, mode string) {
	fmt.Fprintf(out, "\n%s\n\n", modes[mode])
	fmt.Fprintln(out, "| workload | scheduler | nodes | pods | pods a second | p50 | p99 | processor time a pod | heap a pod | heap a node |")
	fmt.Fprintln(out, "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|")
}

// row writes the figures of a run. What was not measured is a dash.
func row(out io.Writer, workload, peer string, nodes int, f figures) {
	rate := float64(f.placed) / f.took.Seconds()
	perPod := f.cpu / time.Duration(max(1, f.placed))
	p50, p99 := "-", "-"
	if f.decisions != nil {
		p50, p99 = short(percentile(f.decisions, 50)).String(), short(percentile(f.decisions, 99)).String()
	}
	fmt.Fprintf(out, "| %s | %s | %d | %d | %.0f | %s | %s | %v | %s | %s |\n",
		workload, peer, nodes, f.placed, rate, p50, p99, short(perPod), bytesOf(f.podHeap), bytesOf(f.nodeHeap))
}

func bytesOf(n float64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f B", n)
}

// short rounds a duration to about three digits.
func short(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}

// document returns a page with the tables, what the workloads are, and how to run it again.
func document(o options, tables string) []byte {
	var b strings.Builder
	fmt.Fprintln(&b, "# Scheduling")
	fmt.Fprintln(&b)
	fmt.Fprintln(&b, "The stock kube-scheduler v1.36 runs twice: it looks at all nodes, as planekit does, and with its default,")
	fmt.Fprintln(&b, "which in large clusters stops when it has found enough nodes that fit.")
	fmt.Fprintf(&b, "The machine has %d processors (%s).\n%s", runtime.NumCPU(), runtime.GOARCH, tables)
	fmt.Fprint(&b, "\n| workload | what its pods need |\n|---|---|\n")
	for _, w := range workloads() {
		fmt.Fprintf(&b, "| %s | %s |\n", w.name, w.is)
	}
	nodes := strings.Trim(strings.ReplaceAll(fmt.Sprint(o.nodes), " ", ","), "[]")
	fmt.Fprintf(&b, "\nTo run it again:\n\n```\ncd bench\ngo run ./schedule --mode %s --nodes %s --pods %d --workload %s --peer %s --limit %v\n```\n",
		o.mode, nodes, o.pods, o.workload, o.peer, o.limit)
	return []byte(b.String())
}
