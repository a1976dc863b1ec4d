package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	quiet()
	os.Exit(m.Run())
}

// TestEveryCore places all pods of each workload by each peer.
func TestEveryCore(t *testing.T) {
	for _, p := range peers() {
		for _, w := range workloads() {
			made := w.make(50, 200)
			pods := len(made.pending)
			f, err := measure(t.Context(), p, made, "core", 0)
			if err != nil {
				t.Errorf("%s, %s: measure of the core: %v", p.name, w.name, err)
			}
			if f.placed != pods || len(f.decisions) != pods || f.took <= 0 {
				t.Errorf("%s, %s: %d pods with %d decisions in %v", p.name, w.name, f.placed, len(f.decisions), f.took)
			}
		}
	}
}

// TestClusters binds all pods of some workloads by planekit's and the stock scheduler. The latter does not
// preempt here, because it may forget a pod until it tries all again after five minutes.
func TestClusters(t *testing.T) {
	for _, p := range peers()[:2] {
		names := []string{"basic", "churn"}
		if p.own {
			names = append(names, "preemption")
		}
		for _, name := range names {
			list, err := chosen(name)
			if err != nil {
				t.Fatal(err)
			}
			made := list[0].make(50, 200)
			f, err := measure(t.Context(), p, made, "cluster", 2*time.Minute)
			if err != nil {
				t.Errorf("%s, %s: measure of the cluster: %v", p.name, name, err)
			}
			if f.placed != len(made.pending) {
				t.Errorf("%s, %s: %d pods", p.name, name, f.placed)
			}
		}
	}
}

// TestQuality checks that planekit packs and spreads pods as well as the stock scheduler does when it scores all
// nodes. What differs is chance: which of equal nodes is taken.
func TestQuality(t *testing.T) {
	for _, s := range shapes() {
		var own, stock []quality
		for seed := range uint64(3) {
			for i, list := range []*[]quality{&own, &stock} {
				q, err := judge(t.Context(), peers()[i], s.make(20, 800, seed))
				if err != nil {
					t.Fatalf("%s, seed %d: judge of peer %d: %v", s.name, seed, i, err)
				}
				*list = append(*list, q)
			}
		}
		if mean(own).requested < 0.3 {
			t.Errorf("%s: pods request only %.2f of the processors", s.name, mean(own).requested)
		}
		if err := mean(own).noWorse(mean(stock)); err != nil {
			t.Errorf("%s: the mean of planekit is worse than that of the stock scheduler: %v", s.name, err)
		}
	}
}

func TestTable(t *testing.T) {
	var out strings.Builder
	file := filepath.Join(t.TempDir(), "schedule.md")
	if err := run(t.Context(), &out, options{nodes: []int{10, 20}, workload: "basic", peer: "both", mode: "core", out: file}); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range peers() {
		line := "| basic | " + p.name + " | 10 | 20 |"
		if !strings.Contains(out.String(), line) || !strings.Contains(string(page), line) {
			t.Errorf("no line of %s in\n%s", p.name, page)
		}
	}
	for _, bad := range []options{
		{nodes: []int{10}, workload: "none", peer: "own", mode: "core"},
		{nodes: []int{1}, workload: "basic", peer: "own", mode: "core"},
		{nodes: []int{10}, workload: "basic", peer: "other", mode: "core"},
		{nodes: []int{10}, workload: "basic", peer: "own", mode: "other"},
	} {
		if err := run(t.Context(), &out, bad); err == nil {
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
					c, made := filled(b, w.make(nodes, pods))
					b.StartTimer()
					if _, err := placeAll(c, made, 0); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*pods), "ns/pod")
			})
		}
	}
}

// filled returns planekit's core with the nodes and pods of a world.
func filled(b *testing.B, w *world) (core, *world) {
	b.Helper()
	c, err := newOwnCore(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	if err := fillNodes(c, w); err != nil {
		b.Fatal(err)
	}
	if err := fillPods(c, w); err != nil {
		b.Fatal(err)
	}
	return c, w
}

// TestDryRuns searches for the victims of all kinds of pods by planekit's and the stock scheduler.
func TestDryRuns(t *testing.T) {
	for _, p := range peers()[:2] {
		for _, kind := range dryRunKinds {
			f, err := measureDryRuns(t.Context(), p, 20, 100, kind, time.Second)
			if err != nil {
				t.Errorf("%s, %s: measureDryRuns: %v", p.name, kind, err)
			}
			if len(f.took) < 2 || len(f.thread) != len(f.took) {
				t.Errorf("%s, %s: %d dry runs", p.name, kind, len(f.took))
			}
		}
	}
}
