package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
)

// A growth is a series of worlds in which one number grows.
type growth struct {
	by    string
	sizes []int
	// title says what stays the same.
	title string
	make  func(size int) *world
}

// growthDecisions is the number of pods that are placed in each world, and growthNodes and growthPods are the nodes
// and running pods where these do not grow.
const (
	growthDecisions = 1000
	growthNodes     = 1000
	growthPods      = 10_000
)

func growths() []growth {
	return []growth{
		{"nodes", []int{100, 300, 1000, 3000, 10_000}, "Nodes, with ten pods on each and one class of pods that are placed",
			func(size int) *world { return grown(size, 10*size, 1) }},
		{"pods", []int{1000, 3000, 10_000, 30_000, 100_000}, "Running pods, on 1,000 nodes and one class of pods that are placed",
			func(size int) *world { return grown(growthNodes, size, 1) }},
		{"classes", []int{1, 10, 50, 100, 1000}, "Classes of pods that are placed in turn, on 1,000 nodes with 10,000 pods",
			func(size int) *world { return grown(growthNodes, growthPods, size) }},
	}
}

// grown returns a world with pods on nodes and pods of classes that are placed in turn.
func grown(nodes, pods, classes int) *world {
	w := worldOf(nil)(nodes, growthDecisions)
	for i := range pods {
		w.placed = append(w.placed, placedOn(newPod(fmt.Sprintf("old-%d", i), app(i, groupSize)), w.nodes[i%nodes].Name))
	}
	for i, pod := range w.pending {
		pod.Labels["app"] = fmt.Sprintf("app-%d", i%classes)
	}
	return w
}

// growthPoint is one figure: how long a decision takes where a number has a size.
type growthPoint struct {
	by, scheduler string
	size          int
	decisions     int
	p50, p99      time.Duration
}

// growthHead names the columns of the data file.
var growthHead = []string{"by", "size", "scheduler", "decisions", "p50 ns", "p99 ns"}

// runGrowth measures all growths, writes the data file and draws it.
func runGrowth(ctx context.Context, o options) error {
	if o.out == "" {
		return fmt.Errorf("--mode growth needs --out, the data file, such as ../docs/benchmarks/schedule-growth.csv")
	}
	points, err := measureGrowths(ctx, growths(), o)
	if err != nil {
		return err
	}
	file, err := os.Create(o.out)
	if err != nil {
		return err
	}
	if err := writeGrowth(file, points); err != nil {
		return err
	}
	return drawGrowth(o.out)
}

func measureGrowths(ctx context.Context, list []growth, o options) (points []growthPoint, err error) {
	chosen, err := chosenPeers(o.peer)
	if err != nil {
		return nil, err
	}
	for _, g := range list {
		for _, size := range g.sizes {
			for _, p := range chosen {
				f, err := measure(ctx, p, g.make(size), "core", o.limit)
				if err != nil {
					return nil, fmt.Errorf("%d %s, %s: %w", size, g.by, p.name, err)
				}
				points = append(points, growthPoint{g.by, p.name, size, f.placed, percentile(f.decisions, 50), percentile(f.decisions, 99)})
			}
		}
	}
	return points, nil
}

// writeGrowth writes the data file, which it closes.
func writeGrowth(file io.WriteCloser, points []growthPoint) error {
	w := csv.NewWriter(file)
	records := [][]string{growthHead}
	for _, p := range points {
		records = append(records, []string{p.by, strconv.Itoa(p.size), p.scheduler, strconv.Itoa(p.decisions),
			strconv.FormatInt(p.p50.Nanoseconds(), 10), strconv.FormatInt(p.p99.Nanoseconds(), 10)})
	}
	if err := w.WriteAll(records); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}

// readGrowth reads a data file.
func readGrowth(from io.Reader) (points []growthPoint, err error) {
	r := csv.NewReader(from)
	r.FieldsPerRecord = len(growthHead)
	records, err := r.ReadAll()
	if err != nil {
		return nil, err
	}
	for line, record := range records {
		if line == 0 {
			continue
		}
		var numbers [4]int64
		for i, column := range []int{1, 3, 4, 5} {
			if numbers[i], err = strconv.ParseInt(record[column], 10, 64); err != nil || numbers[i] <= 0 {
				return nil, fmt.Errorf("line %d: %s: %q is not a positive number", line+1, growthHead[column], record[column])
			}
		}
		points = append(points, growthPoint{record[0], record[2], int(numbers[0]), int(numbers[1]), time.Duration(numbers[2]), time.Duration(numbers[3])})
	}
	return points, nil
}
