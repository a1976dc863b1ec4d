// Command cluster measures a planekit cluster as a user sees it, and the stock components beside it
// in the same run: start to ready, one command to three running pods, memory, size.
//
//	go run ./cluster [--runs 5] [--peers=false]
//
// It prints Markdown. Times are medians of the runs, which alternate between the sides.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"time"

	"github.com/planekit/planekit/bench/peer"
)

func main() {
	runs := flag.Int("runs", 5, "how often each time is taken")
	peers := flag.Bool("peers", true, "measure kube-apiserver, kube-controller-manager and kube-scheduler too")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := measure(ctx, *runs, *peers); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, runs int, peers bool) error {
	dir, err := os.MkdirTemp("", "planekit-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	bin, err := build(ctx, dir, peers)
	if err != nil {
		return err
	}
	runtimes := []string{"fake"}
	if os.Geteuid() == 0 {
		if _, err := exec.LookPath("containerd"); err == nil {
			runtimes = append(runtimes, "containerd")
		}
	}
	results := &table{}
	for i := range runs {
		for _, runtime := range runtimes {
			work := filepath.Join(dir, fmt.Sprintf("%s-%d", runtime, i))
			if err := planekit(ctx, results, bin, work, runtime); err != nil {
				return fmt.Errorf("planekit on %s: %w", runtime, err)
			}
		}
		if peers {
			if err := stock(ctx, results, bin, filepath.Join(dir, fmt.Sprintf("stock-%d", i))); err != nil {
				return fmt.Errorf("stock components: %w", err)
			}
		}
	}
	results.print()
	return sizes(ctx, bin, peers)
}

// build compiles the programs, stripped on both sides.
func build(ctx context.Context, dir string, peers bool) (string, error) {
	bin := filepath.Join(dir, "bin")
	err := peer.Build(ctx, bin, "..", "./examples/cluster", "./examples/planectl", "./cni/planekit-cni")
	if err == nil && peers {
		err = peer.Build(ctx, bin, ".", "./cmd/...")
	}
	return bin, err
}

// table collects figures by name, in the order of their first appearance.
type table struct {
	names   []string
	figures map[string][]float64
	units   map[string]string
}

func (t *table) add(name, unit string, figure float64) {
	if t.figures == nil {
		t.figures, t.units = map[string][]float64{}, map[string]string{}
	}
	if _, ok := t.figures[name]; !ok {
		t.names = append(t.names, name)
	}
	t.figures[name] = append(t.figures[name], figure)
	t.units[name] = unit
}

func (t *table) since(name string, begin time.Time) {
	t.add(name, "s", time.Since(begin).Seconds())
}

func (t *table) print() {
	fmt.Println("| | median | lowest | highest |\n|---|---|---|---|")
	for _, name := range t.names {
		f := slices.Sorted(slices.Values(t.figures[name]))
		unit := t.units[name]
		fmt.Printf("| %s | %s | %s | %s |\n", name, show(f[len(f)/2], unit), show(f[0], unit), show(f[len(f)-1], unit))
	}
}

func show(figure float64, unit string) string {
	if unit == "s" {
		return fmt.Sprintf("%.3f s", figure)
	}
	return fmt.Sprintf("%.0f %s", figure, unit)
}

// sizes prints the size of the programs and the number of modules that they link.
func sizes(ctx context.Context, bin string, peers bool) error {
	fmt.Println("\n| binary, stripped | MB | linked modules |\n|---|---|---|")
	programs := []string{"cluster", "planectl", "planekit-cni"}
	if peers {
		programs = append(programs, "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
	}
	for _, name := range programs {
		bytes, modules, err := peer.Size(ctx, filepath.Join(bin, name))
		if err != nil {
			return err
		}
		fmt.Printf("| %s | %.1f | %d |\n", name, float64(bytes)/1e6, modules)
	}
	return nil
}
