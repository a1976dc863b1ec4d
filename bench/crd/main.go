// Command crd measures custom objects of a planekit cluster without nodes beside those of a stock kube-apiserver,
// and prints a Markdown table. Each side has an etcd of its own with the same settings; planekit also runs
// its controllers and its scheduler. The sides are measured in turn.
//
//	go run ./crd [-definitions DIR,DIR]
//
// The memory is that of the definitions in the files of the directories.
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
	"strings"
	"time"

	"github.com/planekit/planekit/bench/peer"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	rounds := flag.Int("rounds", 3, "rounds, each with all measurements of both sides; figures are medians")
	stock := flag.String("stock", "../bin/stock", "directory of the stock etcd and kube-apiserver (make compat-tools)")
	dirs := flag.String("definitions", "", "directories of definitions whose memory is measured, divided by commas")
	flag.Parse()
	if err := run(ctx, *rounds, *stock, *dirs); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, rounds int, stock, dirs string) error {
	work, err := os.MkdirTemp("", "bench-crd-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	module, err := peer.Module(ctx)
	if err != nil {
		return err
	}
	if err := peer.Build(ctx, work, filepath.Dir(module), "./examples/cluster"); err != nil {
		return err
	}
	figures := map[string][2][]float64{}
	var order []string
	for round := range rounds {
		for i := range 2 {
			side := (i + round) % 2 // the first one alternates
			measured, err := measure(ctx, side == 0, filepath.Join(work, fmt.Sprint(round, side)), work, stock, dirs)
			if err != nil {
				return fmt.Errorf("%s: %w", [2]string{"planekit", "kube-apiserver"}[side], err)
			}
			for _, f := range measured {
				all, ok := figures[f.name]
				if !ok {
					order = append(order, f.name)
				}
				all[side] = append(all[side], f.value)
				figures[f.name] = all
			}
		}
	}
	fmt.Println("| | planekit | kube-apiserver | ratio |\n|---|---|---|---|")
	for _, name := range order {
		ours, theirs := median(figures[name][0]), median(figures[name][1])
		fmt.Printf("| %s | %.3g | %.3g | %.1f |\n", name, ours, theirs, theirs/ours)
	}
	return nil
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

// figure is one measurement, of which less is better.
type figure struct {
	name  string
	value float64
}

// measure starts a side and measures it.
func measure(ctx context.Context, ours bool, dir, bin, stock, dirs string) (_ []figure, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	files, err := peer.NewStock(dir)
	if err != nil {
		return nil, err
	}
	etcd, err := peer.Launch(filepath.Join(dir, "etcd.log"), filepath.Join(stock, "etcd"), files.EtcdArguments()...)
	if err != nil {
		return nil, err
	}
	defer etcd.Stop()
	if err := awaitEtcd(ctx, files.Etcd); err != nil {
		return nil, err
	}
	var server *peer.Process
	if ours {
		server, err = peer.Launch(filepath.Join(dir, "server.log"), filepath.Join(bin, "cluster"), "--data-dir", filepath.Join(dir, "data"),
			"--kubeconfig", files.Config, "--listen", strings.TrimPrefix(files.URL, "https://"), "--etcd-servers", files.Etcd, "--nodes", "0", "--token-auth-file", files.Tokens)
	} else {
		server, err = peer.Launch(filepath.Join(dir, "server.log"), filepath.Join(stock, "kube-apiserver"), append(files.APIServerArguments(), peer.LeastAdmission()...)...)
	}
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	if err := files.AwaitReady(ctx); err != nil {
		return nil, err
	}
	if ours {
		if _, err := server.AwaitLine(ctx, "ready in "); err != nil {
			return nil, err
		}
	}
	s := &subject{server: server, files: files}
	return s.all(ctx, dirs)
}

// awaitEtcd waits until etcd answers.
func awaitEtcd(ctx context.Context, url string) error {
	return peer.Poll(ctx, func() (bool, error) {
		return exec.CommandContext(ctx, "curl", "-sf", "-o", os.DevNull, url+"/health").Run() == nil, nil
	})
}

// milliseconds returns the middle of durations.
func milliseconds(all []time.Duration) float64 {
	slices.Sort(all)
	return float64(all[len(all)/2].Microseconds()) / 1000
}
