// Command queue compares package reconcile's queue with client-go's work queue and
// controller-runtime's priority queue, in one process.
//
//	cd bench && go run ./queue
//
// Rounds of the three alternate; the table has their medians for one operation, which is an add
// with its get and done. The exit status is 1 if a bar was missed.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"strings"
)

func main() {
	rounds := flag.Int("rounds", 9, "rounds of each side, of which the medians are told")
	operations := flag.Int("operations", 1_000_000, "operations in each round")
	only := flag.String("only", "", "measure only the rows whose names contain this")
	flag.Parse()
	held := report(os.Stdout, *only, *rounds, *operations)
	if !held {
		log.Fatal("a bar was missed")
	}
}

// report prints the table and reports whether all bars were reached.
func report(out io.Writer, only string, rounds, operations int) bool {
	sides := sides()
	fmt.Fprint(out, "| by operation |")
	for _, s := range sides {
		fmt.Fprintf(out, " %s |", s.name)
	}
	fmt.Fprintln(out, " client-go : planekit | bar |\n|---|---|---|---|---|---|")
	held := true
	for _, r := range rowsNamed(only) {
		medians := r.run(sides, rounds, operations)
		fmt.Fprintf(out, "| %s |", r.name)
		for _, m := range medians {
			fmt.Fprintf(out, " %.0f %s", m.value, r.unit)
			if r.count {
				fmt.Fprintf(out, ", %.2f allocations", m.allocations)
			}
			fmt.Fprint(out, " |")
		}
		fmt.Fprintf(out, " %.1f |", medians[1].value/max(medians[0].value, 0.01))
		if r.bar != nil {
			bar, ok := r.bar(medians[0], medians[1])
			held = held && ok
			fmt.Fprintf(out, " %s: %s", bar, map[bool]string{true: "held", false: "MISSED"}[ok])
		}
		fmt.Fprintln(out, " |")
	}
	return held
}

// rowsNamed returns the rows whose names contain part.
func rowsNamed(part string) []row {
	return slices.DeleteFunc(rows(), func(r row) bool { return !strings.Contains(r.name, part) })
}

// run measures the row on all sides alternately and returns their medians.
func (r row) run(sides []side, rounds, operations int) []figure {
	if r.scale > 0 {
		rounds, operations = max(1, rounds/3), max(100, operations/r.scale)
	}
	figures := make([][]figure, len(sides))
	for range rounds {
		for i, s := range sides {
			figures[i] = append(figures[i], r.measure(func() queue { return s.open(r.metrics) }, operations))
		}
	}
	medians := make([]figure, len(sides))
	for i, all := range figures {
		slices.SortFunc(all, func(a, b figure) int { return cmp.Compare(a.value, b.value) })
		medians[i] = all[len(all)/2]
	}
	return medians
}
