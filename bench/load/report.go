package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

// compared reports whether both sides of the ratios were measured: the two on an etcd of the same
// kind.
func compared(kinds []kind) bool {
	return slices.Contains(kinds, stock) && slices.Contains(kinds, planekitOutside)
}

// printRequests prints the results of every side for every operation, and the ratio of planekit's
// to kube-apiserver's.
func printRequests(out io.Writer, kinds []kind, rows []row) {
	fmt.Fprintln(out, "\nEach cell: requests per second, latency p50 / p99, processor time of the server (+ of etcd, where it is outside) for each.")
	heading(out, kinds, []string{"operation", "clients"}, "planekit : kube-apiserver", "CPU kube-apiserver : planekit")
	for _, r := range rows {
		cells := []string{r.name, fmt.Sprint(r.clients)}
		for _, k := range kinds {
			f := median(r.rounds[k])
			used := millis(f.cpu)
			if f.etcd > 0 {
				used += " + " + millis(f.etcd)
			}
			cells = append(cells, fmt.Sprintf("%s/s, %s / %s ms, %s ms", number(f.perSecond), millis(f.p50), millis(f.p99), used))
		}
		if compared(kinds) {
			cells = append(cells, ratio(r.ratio(planekitOutside, stock, throughput)), ratio(r.ratio(stock, planekitOutside, cpu)))
		}
		printCells(out, cells)
	}
	fmt.Fprintln(out)
	last := rows[len(rows)-1]
	for _, k := range kinds {
		fmt.Fprintf(out, "%s: the last answer (%s) has %d bytes.\n", k, last.name, median(last.rounds[k]).bytes)
	}
}

// heading prints the first two lines of a table: names, a column for each side and, if there is a
// comparison, ratios.
func heading(out io.Writer, kinds []kind, names []string, ratios ...string) {
	for _, k := range kinds {
		names = append(names, string(k))
	}
	if compared(kinds) {
		names = append(names, ratios...)
	}
	fmt.Fprintln(out)
	printCells(out, names)
	fmt.Fprintln(out, "|"+strings.Repeat("---|", len(names)))
}

func printCells(out io.Writer, cells []string) {
	fmt.Fprintln(out, "| "+strings.Join(cells, " | ")+" |")
}

func printFanOut(out io.Writer, kinds []kind, rows []fanRow, size int) {
	fmt.Fprintf(out, "\nWatch fan-out of pod creations by %d clients, protobuf, an event of %d bytes. Each cell: delivery p50 / p99 from the\n"+
		"sending of the create (at a fixed rate, from when it was due) to the arrival of the event, deliveries per second, processor\n"+
		"time of the server for all. The floor is the processor time of writing as many events of that size to as many TLS connections.\n", creators, size)
	heading(out, kinds, []string{"watchers", "creations", "floor, CPU"}, "p99 kube-apiserver : planekit", "CPU kube-apiserver : planekit")
	for _, r := range rows {
		all := func(each time.Duration) float64 { return each.Seconds() * float64(r.creates) }
		cells := []string{fmt.Sprint(r.watchers), fmt.Sprintf("%d, %s", r.creates, r.pace()), fmt.Sprintf("%.3f s", all(middleOf(r.floor)))}
		for _, k := range kinds {
			f := median(r.rounds[k])
			cells = append(cells, fmt.Sprintf("%s / %s ms, %s/s, %.3f s", millis(f.p50), millis(f.p99), number(f.perSecond), all(f.cpu)))
		}
		if compared(kinds) {
			cells = append(cells, ratio(r.ratio(stock, planekitOutside, p99)), ratio(r.ratio(stock, planekitOutside, cpu)))
		}
		printCells(out, cells)
	}
}

func printMemory(out io.Writer, kinds []kind, rows []memoryRow, settled time.Duration) {
	fmt.Fprintf(out, "\nResident memory of the server, %v after all pods were created and listed once, in protobuf.\n", settled)
	heading(out, kinds, []string{"pods"}, "planekit : kube-apiserver")
	for _, r := range rows {
		cells := []string{fmt.Sprint(r.pods)}
		for _, k := range kinds {
			cells = append(cells, fmt.Sprintf("%.0f MiB", r.of[k].resident))
		}
		if compared(kinds) {
			cells = append(cells, fmt.Sprintf("%.2f", r.of[planekitOutside].resident/r.of[stock].resident))
		}
		printCells(out, cells)
	}
	last := rows[len(rows)-1]
	fmt.Fprintln(out)
	for _, k := range kinds {
		m := last.of[k]
		fmt.Fprintf(out, "%s: a list of all %d in protobuf takes %s ms (p50) and %s ms of the server's processor time; resident after lists in all forms: %.0f MiB.\n",
			k, last.pods, millis(m.list.p50), millis(m.list.cpu), m.inAllForms)
	}
}

func printCurveOfPods(out io.Writer, k kind, points []pointOfPods, settled time.Duration) {
	fmt.Fprintf(out, "\nGrowth with objects, %s. Creates by %s, lists of all pods in protobuf by one client, resident memory %v after the first of them.\n\n", k, count(fillers, "client"), settled)
	printCells(out, []string{"pods", "creates", "CPU of a create", "resident", "for each pod", "list p50", "list CPU", "list CPU for each pod"})
	fmt.Fprintln(out, "|"+strings.Repeat("---|", 8))
	for _, p := range points {
		creates, create, kept, list := "", "", "", ""
		if p.pods > 0 {
			creates, create = number(p.fill.perSecond)+"/s", millis(p.fill.cpu)+" ms"
			kept, list = fmt.Sprintf("%.2f KiB", p.above(points[0])), micros(p.listEach())
		}
		printCells(out, []string{fmt.Sprint(p.pods), creates, create, fmt.Sprintf("%.0f MiB", p.resident), kept,
			millis(p.list.p50) + " ms", millis(p.list.cpu) + " ms", list})
	}
}

func printCurveOfWatchers(out io.Writer, k kind, points []pointOfWatchers, pods int) {
	fmt.Fprintf(out, "\nGrowth with watchers, %s with %d pods: fan-out of %d creations at full speed, processor time of the server.\n\n", k, pods, points[0].creates)
	printCells(out, []string{"watchers", "for each creation", "for each delivery", "for each delivery to a further watcher", "floor for each delivery", "deliveries", "p50 / p99"})
	fmt.Fprintln(out, "|"+strings.Repeat("---|", 7))
	for i, p := range points {
		further := ""
		if i > 0 {
			further = micros(p.further(points[i-1]))
		}
		printCells(out, []string{fmt.Sprint(p.watchers), micros(p.cost.cpu), micros(p.each()), further, micros(p.floor / time.Duration(p.watchers)),
			number(p.cost.perSecond) + "/s", millis(p.cost.p50) + " / " + millis(p.cost.p99) + " ms"})
	}
}

func millis(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	if ms >= 10 {
		return fmt.Sprintf("%.0f", ms)
	}
	return fmt.Sprintf("%.2f", ms)
}

func micros(d time.Duration) string {
	return fmt.Sprintf("%.2f us", float64(d)/float64(time.Microsecond))
}

func number(n float64) string {
	if n >= 100 {
		return fmt.Sprintf("%.0f", n)
	}
	return fmt.Sprintf("%.1f", n)
}

// ratio formats a ratio. A measurement that is missing, or was too short, has none.
func ratio(times float64) string {
	if math.IsNaN(times) || math.IsInf(times, 0) || times == 0 {
		return "n/a"
	}
	return fmt.Sprintf("%.1f", times)
}
