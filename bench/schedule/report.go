package main

import (
	"fmt"
	"io"
	"time"
)

// header writes the head of the table.
func header(out io.Writer) {
	fmt.Fprintln(out, "| workload | nodes | pods | pods a second | p50 | p99 | processor time a pod | heap a pod | heap a node |")
	fmt.Fprintln(out, "|---|---:|---:|---:|---:|---:|---:|---:|---:|")
}

// row writes the figures of a run.
func row(out io.Writer, name string, nodes int, f figures) {
	rate := float64(f.placed) / f.took.Seconds()
	perPod := f.cpu / time.Duration(max(1, f.placed))
	podHeap := "-"
	if f.podHeap != 0 {
		podHeap = fmt.Sprintf("%.0f B", f.podHeap)
	}
	fmt.Fprintf(out, "| %s | %d | %d | %.0f | %v | %v | %v | %s | %.0f B |\n", name, nodes, f.placed, rate,
		short(percentile(f.decisions, 50)), short(percentile(f.decisions, 99)), short(perPod), podHeap, f.nodeHeap)
}

// short rounds a duration to about three digits.
func short(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}
