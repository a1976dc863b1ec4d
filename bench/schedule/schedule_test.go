package main

import (
	"fmt"
	"strings"
	"testing"
)

// TestEveryWorkload places all pods of each workload.
func TestEveryWorkload(t *testing.T) {
	for _, w := range workloads() {
		f, err := runCore(newOwnCore(), w.make(50, 200), 0)
		if err != nil {
			t.Errorf("%s: %v", w.name, err)
		}
		if f.placed != 200 || len(f.decisions) != 200 || f.took <= 0 {
			t.Errorf("%s: %d pods with %d decisions in %v", w.name, f.placed, len(f.decisions), f.took)
		}
	}
}

func TestTable(t *testing.T) {
	var out strings.Builder
	if err := run(&out, options{nodes: 10, pods: 20, workload: "all"}); err != nil {
		t.Fatal(err)
	}
	for _, w := range workloads() {
		if !strings.Contains(out.String(), "| "+w.name+" | 10 | 20 |") {
			t.Errorf("no line of %s in\n%s", w.name, out.String())
		}
	}
	for _, bad := range []options{{nodes: 10, pods: 20, workload: "none"}, {nodes: 1, pods: 20, workload: "basic"}} {
		if err := run(&out, bad); err == nil {
			t.Errorf("%+v: no error", bad)
		}
	}
}

// BenchmarkCore places a hundred pods in each round, for profiles of one workload.
func BenchmarkCore(b *testing.B) {
	for _, w := range workloads() {
		for _, nodes := range []int{100, 1000, 5000} {
			b.Run(fmt.Sprintf("workload=%s/nodes=%d", w.name, nodes), func(b *testing.B) {
				const pods = 100
				for b.Loop() {
					b.StopTimer()
					c, made := newOwnCore(), w.make(nodes, pods)
					c.fill(made)
					b.StartTimer()
					if _, err := c.placeAll(made, 0); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*pods), "ns/pod")
			})
		}
	}
}
