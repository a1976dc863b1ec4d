package simulate

import (
	"bufio"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// row is one line of the table.
type row struct {
	name  string
	value func(*Result) string
}

var rows = []row{
	{"nodes", func(r *Result) string { return fmt.Sprint(r.Nodes) }},
	{"pods", func(r *Result) string { return fmt.Sprint(len(r.Pods)) }},
	{"pods never placed", func(r *Result) string { return fmt.Sprint(r.Count(Pending)) }},
	{"preemptions", func(r *Result) string { return fmt.Sprint(len(r.Preemptions)) }},
	{"decisions", func(r *Result) string { return fmt.Sprint(r.Decisions) }},
	{"virtual time", func(r *Result) string { return seconds(r.End) }},
	{"wait p50", func(r *Result) string { return seconds(r.Waits.P50) }},
	{"wait p99", func(r *Result) string { return seconds(r.Waits.P99) }},
	{"wait max", func(r *Result) string { return seconds(r.Waits.Max) }},
	{"nodes in use, mean", func(r *Result) string { return fmt.Sprintf("%.1f", r.Mean.NodesInUse) }},
	{"nodes in use, peak", func(r *Result) string { return fmt.Sprintf("%.0f", r.Peak.NodesInUse) }},
	{"pods pending, mean", func(r *Result) string { return fmt.Sprintf("%.1f", r.Mean.Pending) }},
	{"pods pending, peak", func(r *Result) string { return fmt.Sprintf("%.0f", r.Peak.Pending) }},
}

// seconds formats a time, to the thousandth of a second.
func seconds(d time.Duration) string { return d.Round(time.Millisecond).String() }

// WriteTable writes a table of results side by side, which must be of the same workload, and then why pods
// were never placed.
func WriteTable(w io.Writer, results ...*Result) error {
	buffer := bufio.NewWriter(w)
	t := tabwriter.NewWriter(buffer, 0, 0, 2, ' ', 0)
	line := func(name string, value func(*Result) string) {
		fmt.Fprint(t, name)
		for _, r := range results {
			fmt.Fprint(t, "\t", value(r))
		}
		fmt.Fprintln(t)
	}
	line("POLICY", func(r *Result) string { return r.Policy })
	for _, row := range rows {
		line(row.name, row.value)
	}
	if len(results) > 0 {
		for i, name := range results[0].Resources {
			line(string(name)+" requested, mean", share(func(r *Result) []float64 { return r.Mean.Requested }, i))
			line(string(name)+" requested, peak", share(func(r *Result) []float64 { return r.Peak.Requested }, i))
			line(string(name)+" fragmented, mean", share(func(r *Result) []float64 { return r.Mean.Fragmentation }, i))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, r := range results {
		for _, reason := range r.Unplaceable() {
			fmt.Fprintf(buffer, "%s: %d pods: %s\n", r.Policy, reason.Pods, reason.Message)
		}
	}
	return buffer.Flush()
}

// share returns the value of a row with the share of one resource.
func share(of func(*Result) []float64, i int) func(*Result) string {
	return func(r *Result) string {
		list := of(r)
		if i >= len(list) {
			return "-"
		}
		return fmt.Sprintf("%.1f%%", 100*list[i])
	}
}
