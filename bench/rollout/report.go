package main

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// bar is the goal: the pods of the largest Deployment exist this many times sooner than on
// the stock side.
const bar = 3

// results are figures by side and replicas, round by round.
type results map[kind]map[int][]figures

func (r results) add(k kind, replicas int, f figures) {
	if r[k] == nil {
		r[k] = map[int][]figures{}
	}
	r[k][replicas] = append(r[k][replicas], f)
}

// middle is the median of what of the figures.
func (r results) middle(k kind, replicas int, what func(figures) time.Duration) time.Duration {
	return sorted(r[k][replicas], what)[len(r[k][replicas])/2]
}

func sorted(rounds []figures, what func(figures) time.Duration) []time.Duration {
	list := make([]time.Duration, 0, len(rounds))
	for _, f := range rounds {
		list = append(list, what(f))
	}
	slices.Sort(list)
	return list
}

func existAfter(f figures) time.Duration   { return f.exist.took }
func existFor(f figures) time.Duration     { return f.exist.cpu }
func countedAfter(f figures) time.Duration { return f.counted.took }
func countedFor(f figures) time.Duration   { return f.counted.cpu }

// print writes a table for each size, and says whether the bar is met.
func (r results) print(out io.Writer, kinds []kind) {
	for _, replicas := range sizes {
		fmt.Fprintf(out, "| %d replicas | pods exist, median (lowest to highest) | stock takes | servers' processor time | status counts them | processor time until then | rounds |\n|---|---|---|---|---|---|---|\n", replicas)
		for _, k := range kinds {
			rounds := r[k][replicas]
			if len(rounds) == 0 {
				continue
			}
			times := sorted(rounds, existAfter)
			fmt.Fprintf(out, "| %s | %s (%s to %s) | %s | %s | %s | %s | %d |\n", k,
				millis(r.middle(k, replicas, existAfter)), millis(times[0]), millis(times[len(times)-1]), r.ratio(k, replicas),
				millis(r.middle(k, replicas, existFor)), millis(r.middle(k, replicas, countedAfter)), millis(r.middle(k, replicas, countedFor)), len(rounds))
		}
		fmt.Fprintln(out)
	}
	r.judge(out)
}

// ratio returns the time of the stock side divided by the time of k, as text.
func (r results) ratio(k kind, replicas int) string {
	if len(r[stock][replicas]) == 0 || k == stock {
		return ""
	}
	return fmt.Sprintf("%.2fx", r.times(k, replicas))
}

func (r results) times(k kind, replicas int) float64 {
	return float64(r.middle(stock, replicas, existAfter)) / float64(r.middle(k, replicas, existAfter))
}

func (r results) judge(out io.Writer) {
	most := slices.Max(sizes)
	if len(r[stock][most]) == 0 || len(r[planekit][most]) == 0 {
		return
	}
	verdict := "met"
	times := r.times(planekit, most)
	if times < bar {
		verdict = "missed"
	}
	fmt.Fprintf(out, "Bar: %d pods exist at least %dx sooner than with kube-apiserver and kube-controller-manager whose limits are raised: %.2fx, %s.\n", most, bar, times, verdict)
}

func millis(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}
