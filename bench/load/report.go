package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// row is one line of the table of requests.
type row struct {
	name    string
	clients int
	rounds  map[kind][]figures
}

func (r *row) add(k kind, f figures) {
	if r.rounds == nil {
		r.rounds = map[kind][]figures{}
	}
	r.rounds[k] = append(r.rounds[k], f)
}

// printRequests prints what every side made of every operation, and how many
// times as much planekit did as kube-apiserver on an etcd of the same kind.
func printRequests(out io.Writer, kinds []kind, rows []row) {
	compared := slices.Contains(kinds, stock)
	fmt.Fprintln(out, "\nEach cell: requests per second, latency p50 / p99, processor time of the server for each.")
	heading(out, kinds, "operation", "clients")
	for _, r := range rows {
		cells := []string{r.name, fmt.Sprint(r.clients)}
		for _, k := range kinds {
			f := median(r.rounds[k])
			cells = append(cells, fmt.Sprintf("%s/s, %s / %s ms, %s ms", number(f.perSecond), millis(f.p50), millis(f.p99), millis(f.cpu)))
		}
		if compared {
			ours, theirs := median(r.rounds[planekitOutside]), median(r.rounds[stock])
			cells = append(cells, ratio(ours.perSecond, theirs.perSecond), ratio(float64(theirs.cpu), float64(ours.cpu)))
		}
		printCells(out, cells)
	}
	last := rows[len(rows)-1]
	for _, k := range kinds {
		fmt.Fprintf(out, "\n%s: the last list has %d bytes.", k, median(last.rounds[k]).bytes)
	}
	fmt.Fprintln(out)
}

// heading prints the first two lines of a table with a column for each side.
func heading(out io.Writer, kinds []kind, columns ...string) {
	for _, k := range kinds {
		columns = append(columns, string(k))
	}
	if slices.Contains(kinds, stock) {
		columns = append(columns, "planekit : kube-apiserver", "CPU kube-apiserver : planekit")
	}
	fmt.Fprintln(out)
	printCells(out, columns)
	fmt.Fprintln(out, "|"+strings.Repeat("---|", len(columns)))
}

func printCells(out io.Writer, cells []string) {
	fmt.Fprintln(out, "| "+strings.Join(cells, " | ")+" |")
}

// fanRow is one line of the table of fan-out.
type fanRow struct {
	row
	watchers int
	floor    []time.Duration
}

func printFanOut(out io.Writer, kinds []kind, rows []fanRow, creates, size int) {
	fmt.Fprintf(out, "\nWatch fan-out of %d pod creations by 8 clients, protobuf, an event of %d bytes. Each cell: delivery p50 / p99 from the\n"+
		"sending of the create to the arrival of the event, deliveries per second, processor time of the server for all.\n", creates, size)
	heading(out, kinds, "watchers", "floor, CPU")
	all := func(each time.Duration) float64 { return each.Seconds() * float64(creates) }
	for _, r := range rows {
		slices.Sort(r.floor)
		cells := []string{fmt.Sprint(r.watchers), fmt.Sprintf("%.2f s", all(r.floor[len(r.floor)/2]))}
		for _, k := range kinds {
			f := median(r.rounds[k])
			cells = append(cells, fmt.Sprintf("%s / %s ms, %s/s, %.2f s", millis(f.p50), millis(f.p99), number(f.perSecond), all(f.cpu)))
		}
		if slices.Contains(kinds, stock) {
			ours, theirs := median(r.rounds[planekitOutside]), median(r.rounds[stock])
			cells = append(cells, ratio(ours.perSecond, theirs.perSecond), ratio(float64(theirs.cpu), float64(ours.cpu)))
		}
		printCells(out, cells)
	}
}

// memoryFigures are those of one server with a number of pods in it.
type memoryFigures struct {
	resident float64 // MiB
	list     figures
}

type memoryRow struct {
	pods int
	of   map[kind]memoryFigures
}

func (r *memoryRow) add(k kind, m memoryFigures) {
	if r.of == nil {
		r.of = map[kind]memoryFigures{}
	}
	r.of[k] = m
}

func printMemory(out io.Writer, kinds []kind, rows []memoryRow) {
	fmt.Fprintln(out, "\nEach cell: resident memory of the server, then one list of all pods in protobuf: p50, processor time. The last two columns are of the list.")
	heading(out, kinds, "pods")
	for _, r := range rows {
		cells := []string{fmt.Sprint(r.pods)}
		for _, k := range kinds {
			m := r.of[k]
			cells = append(cells, fmt.Sprintf("%.0f MiB, %s ms, %s ms", m.resident, millis(m.list.p50), millis(m.list.cpu)))
		}
		if slices.Contains(kinds, stock) {
			ours, theirs := r.of[planekitOutside].list, r.of[stock].list
			cells = append(cells, ratio(ours.perSecond, theirs.perSecond), ratio(float64(theirs.cpu), float64(ours.cpu)))
		}
		printCells(out, cells)
	}
}

func millis(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	if ms >= 10 {
		return fmt.Sprintf("%.0f", ms)
	}
	return fmt.Sprintf("%.2f", ms)
}

func number(n float64) string {
	if n >= 100 {
		return fmt.Sprintf("%.0f", n)
	}
	return fmt.Sprintf("%.1f", n)
}

// ratio says how many times b a is; times too short for the clock have none.
func ratio(a, b float64) string {
	if a == 0 || b == 0 {
		return "n/a"
	}
	return fmt.Sprintf("%.1f", a/b)
}
