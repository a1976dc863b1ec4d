package main

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// percentile returns the least of times that the given percentage of them does not exceed.
func percentile(times []time.Duration, percent int) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return sorted[(len(sorted)*percent+99)/100-1]
}

func printLives(out io.Writer, alone, together map[string]*lives, o options) {
	fmt.Fprintf(out, "| p50, p99 | runtime alone | planekit | stock | planekit adds | stock takes (p50) |\n|---|---|---|---|---|---|\n")
	for _, row := range []struct {
		name  string
		of    map[string]*lives
		times func(*lives) []time.Duration
	}{
		{"a pod starts", alone, func(l *lives) []time.Duration { return l.starts }},
		{"a pod stops", alone, func(l *lives) []time.Duration { return l.stops }},
		{fmt.Sprintf("%d pods start at once, each", o.burst), together, func(l *lives) []time.Duration { return l.starts }},
		{fmt.Sprintf("%d pods stop at once, each", o.burst), together, func(l *lives) []time.Duration { return l.stops }},
	} {
		of := func(kind string, percent int) time.Duration { return percentile(row.times(row.of[kind]), percent) }
		if of(planekit, 50) == 0 {
			continue
		}
		fmt.Fprintf(out, "| %s |", row.name)
		for _, kind := range []string{bareRuntime, planekit, stock} {
			fmt.Fprintf(out, " %s, %s |", millis(of(kind, 50)), millis(of(kind, 99)))
		}
		fmt.Fprintf(out, " %s, %s | %.2fx |\n", millis(of(planekit, 50)-of(bareRuntime, 50)), millis(of(planekit, 99)-of(bareRuntime, 99)),
			float64(of(stock, 50))/float64(of(planekit, 50)))
	}
	fmt.Fprintln(out)
}

func printIdle(out io.Writer, idle map[string]usage, o options) {
	fmt.Fprintf(out, "| idle with %d pods | planekit | stock |\n|---|---|---|\n", o.idle)
	fmt.Fprintf(out, "| memory of the kubelet | %.0f MiB | %.0f MiB |\n", idle[planekit].resident, idle[stock].resident)
	share := func(kind string) float64 { return 100 * float64(idle[kind].cpu) / float64(o.rest) }
	fmt.Fprintf(out, "| processor time of the kubelet, of one core | %.1f %% | %.1f %% |\n", share(planekit), share(stock))
}

func millis(d time.Duration) string {
	return fmt.Sprintf("%.0f ms", float64(d)/float64(time.Millisecond))
}
