// Command kubelet measures the lives of pods on planekit's kubelet and on the stock one, each on a
// containerd of its own, under one kube-apiserver.
//
//	go run ./kubelet [--rounds 20] [--burst 30] [--bursts 3] [--idle 110]
//
// A pod of one busybox container on the host's network is bound to a node by its creator. Its start
// is the time from the create until a watch shows it as ready, its stop that from the delete until
// the watch shows it as gone, a second after it was ready; the container ends at once when it gets
// TERM. Pods start one after the other, and many at once; the two nodes take turns, and in turn with them a client of planekit's
// containerd makes only the calls that such pods need, which is the time that no kubelet can save.
// Then each node runs many pods, and the memory and the processor time of the kubelet's process are
// taken while nothing happens.
//
// It needs root and containerd. It prints Markdown.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"
)

// options are the command line.
type options struct {
	rounds, burst, bursts, idle int
	rest                        time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	o := options{}
	flag.IntVar(&o.rounds, "rounds", 20, "how many pods start one after the other on each node")
	flag.IntVar(&o.burst, "burst", 30, "how many pods start at once")
	flag.IntVar(&o.bursts, "bursts", 3, "how often they do; 0 is never")
	flag.IntVar(&o.idle, "idle", 110, "with how many pods the idle kubelets are measured; 0 is never")
	flag.DurationVar(&o.rest, "rest", 30*time.Second, "how long the idle kubelets are measured")
	flag.Parse()
	if err := measure(ctx, os.Stdout, o); err != nil {
		fmt.Fprintln(os.Stderr, "kubelet:", err)
		os.Exit(1)
	}
}

// measure starts a control plane with two nodes and measures them.
func measure(ctx context.Context, out io.Writer, o options) (err error) {
	dir, err := os.MkdirTemp("", "kb")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	plane, err := startPlane(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plane.stop()) }()
	var nodes []*node
	defer func() {
		for _, n := range nodes {
			err = errors.Join(err, n.stop())
		}
	}()
	for _, kind := range []string{planekit, stock} {
		n, err := startNode(ctx, kind, filepath.Join(dir, kind[:1]), plane)
		if n != nil {
			nodes = append(nodes, n)
		}
		if err != nil {
			return fmt.Errorf("start the node of %s: %w", kind, err)
		}
	}
	w, err := watch(ctx, plane.api)
	if err != nil {
		return err
	}
	defer w.stop()
	return plane.report(ctx, out, w, nodes, o)
}

// report makes the measurements and prints them.
func (p *plane) report(ctx context.Context, out io.Writer, w *watcher, nodes []*node, o options) error {
	b, err := newBare(ctx, nodes[0], p.dir)
	if err != nil {
		return err
	}
	defer b.runtime.Close()
	// turn has every side start and stop pods.
	turn := func(pods int, times map[string]*lives) error {
		for _, n := range nodes {
			if err := w.live(ctx, n, pods, times[n.kind]); err != nil {
				return err
			}
		}
		return b.live(ctx, pods, times[bareRuntime])
	}
	// The first pod of a node pulls the image and fills caches.
	if err := turn(1, noLives()); err != nil {
		return err
	}
	alone, together := noLives(), noLives()
	for range o.rounds {
		if err := turn(1, alone); err != nil {
			return err
		}
	}
	for range o.bursts {
		if err := turn(o.burst, together); err != nil {
			return err
		}
	}
	printLives(out, alone, together, o)
	if o.idle == 0 {
		return nil
	}
	idle := map[string]usage{}
	for _, n := range nodes {
		u, err := w.rest(ctx, n, o)
		if err != nil {
			return err
		}
		idle[n.kind] = u
	}
	printIdle(out, idle, o)
	return nil
}

func noLives() map[string]*lives {
	return map[string]*lives{planekit: {}, stock: {}, bareRuntime: {}}
}
