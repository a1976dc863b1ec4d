package main

import (
	"fmt"
	"io"
	"math"
	"slices"
)

// A bar is a target for a figure.
type bar struct {
	what string
	// limit is the minimum of the figure or, with most set, its maximum.
	limit float64
	most  bool
	// unit follows the figure.
	unit   string
	figure float64 // NaN if it was not measured
}

// reached reports whether the figure is good enough and, if not, by how much of the limit it
// misses.
func (b bar) reached() (ok bool, missing float64) {
	missing = (b.limit - b.figure) / b.limit
	if b.most {
		missing = -missing
	}
	return missing <= 0, missing
}

// linear is the maximum ratio between the costs of one more object or watcher among many and among
// few that counts as linear growth.
const linear = 1.25

// bars returns all bars of the server with the figures of this run. scale converts numbers to those
// of this run.
func (r results) bars(scale func(int) int) []bar {
	var all []bar
	least := func(what string, limit, figure float64) { all = append(all, bar{what, limit, false, "", figure}) }
	most := func(what string, limit float64, unit string, figure float64) {
		all = append(all, bar{what, limit, true, unit, figure})
	}
	throughputOf := func(name string, clients int, limit float64) {
		row := r.request(name, clients)
		least(fmt.Sprintf("%s, %s: throughput to kube-apiserver's", name, count(clients, "client")), limit, row.ratio(planekitOutside, stock, throughput))
	}
	for _, media := range medias {
		for _, clients := range []int{1, 4} {
			name := listName(scale(largePods), media.name)
			throughputOf(name, clients, 10)
			throughputOf(name+fromCache, clients, 10)
			if media.accept != asTable {
				throughputOf(name+zipped, clients, 10)
			}
		}
	}
	for _, perSecond := range []int{0, pacedLoads[len(pacedLoads)-1].perSecond} {
		row := r.fan(1000, perSecond)
		what := "fan-out to 1000 watchers, " + fanLoad{perSecond: perSecond}.pace() + ": "
		least(fmt.Sprintf("%sserver CPU of kube-apiserver to planekit's (to the floor's: %s)", what, ratio(row.toFloor(stock))),
			3, row.ratio(stock, planekitOutside, cpu))
		most(what+"p99 to kube-apiserver's", 1, "", row.ratio(planekitOutside, stock, p99))
	}
	throughputOf(getPod, 64, 3)
	throughputOf(getPod+fromCache, 64, 3)
	throughputOf(createPod, 64, 2.5)
	create64, create1 := r.request(createPod, 64), r.request(createPod, 1)
	most(createPod+", 64 clients: server CPU to kube-apiserver's", 0.25, "", create64.ratio(planekitOutside, stock, cpu))
	most(createPod+", 1 client: p50 to kube-apiserver's", 0.6, "", create1.ratio(planekitOutside, stock, p50))
	throughputOf(updatePod, 64, 3)
	throughputOf(patchPod, 64, 3)
	most(fmt.Sprintf("memory at %d pods to kube-apiserver's", scale(50_000)), 1./3, "", r.resident(50_000, planekitOutside)/r.resident(50_000, stock))
	most("memory idle", 40, " MiB", r.resident(0, planekitOutside))
	most("API server binary, stripped", 30, " MB", r.megabytes(withoutEtcd))
	most("constructor to ready, memory", 50, " ms", r.constructor(planekitMemory))
	most("constructor to ready, embedded etcd", 250, " ms", r.constructor(planekitInside))
	return append(all, r.linearity()...)
}

// linearity compares the cost of one pod and one watcher at the end of the curve with the cost at a
// tenth of the way or less.
func (r results) linearity() []bar {
	pods, watchers := r.pods, r.watchers
	lists, kept, fanned := math.NaN(), math.NaN(), math.NaN()
	at := slices.IndexFunc(pods, func(p pointOfPods) bool { return p.asked == largePods })
	what := "pod"
	if last := len(pods) - 1; at > 0 && last > at {
		what = fmt.Sprintf("pod of %d to one of %d", pods[last].pods, pods[at].pods)
		lists = float64(pods[last].listEach()) / float64(pods[at].listEach())
		kept = pods[last].above(pods[0]) / pods[at].above(pods[0])
	}
	if n := len(watchers); n > 2 {
		fanned = float64(watchers[n-1].further(watchers[n-2])) / float64(watchers[n-2].further(watchers[n-3]))
	}
	return []bar{
		{"linear: CPU of a list for each " + what, linear, true, "", lists},
		{"linear: memory for each " + what, linear, true, "", kept},
		{"linear: CPU of a delivery to a further watcher, up to 1000 to up to 100", linear, true, "", fanned},
	}
}

// request returns the row of an operation, which is empty if it was not measured.
func (r results) request(name string, clients int) row {
	for _, row := range r.requests {
		if row.name == name && row.clients == clients {
			return row
		}
	}
	return row{}
}

// fan returns the row of a fan-out, which is empty if it was not measured.
func (r results) fan(watchers, perSecond int) fanRow {
	for _, row := range r.fanOut {
		if row.watchers == watchers && row.perSecond == perSecond {
			return row
		}
	}
	return fanRow{}
}

// resident returns the memory of a server with a number of pods of the full form.
func (r results) resident(pods int, k kind) float64 {
	for _, row := range r.memory {
		if m, ok := row.of[k]; ok && row.asked == pods {
			return m.resident
		}
	}
	return math.NaN()
}

func (r results) megabytes(program string) float64 {
	if bytes, ok := r.sizes[program]; ok {
		return float64(bytes) / 1e6
	}
	return math.NaN()
}

// constructor returns the time of the constructor in milliseconds.
func (r results) constructor(k kind) float64 {
	if took, ok := r.constructors[k]; ok {
		return took.Seconds() * 1000
	}
	return math.NaN()
}

// printBars prints the bars whose figures were measured, and the number of the others.
func printBars(out io.Writer, r results, scale func(int) int) {
	fmt.Fprintln(out, "\n### Against the bars\n\n| | bar | figure | |\n|---|---|---|---|")
	unmeasured := 0
	for _, b := range r.bars(scale) {
		if math.IsNaN(b.figure) {
			unmeasured++
			continue
		}
		side, verdict := "at least", "reached"
		if b.most {
			side = "at most"
		}
		if ok, missing := b.reached(); !ok {
			verdict = fmt.Sprintf("missed by %.0f %%", math.Ceil(missing*100))
		}
		printCells(out, []string{b.what, fmt.Sprintf("%s %.3g%s", side, b.limit, b.unit), fmt.Sprintf("%.3g%s", b.figure, b.unit), verdict})
	}
	if unmeasured > 0 {
		fmt.Fprintf(out, "\n%s not measured in this run.\n", count(unmeasured, "figure"))
	}
}

// count formats a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
