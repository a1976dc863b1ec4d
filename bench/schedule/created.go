package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/informer"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// creators counts the goroutines that create objects.
const creators = 32

// singles counts the pods that are created one after another.
const singles = 200

// runPairs measures the time from the creation of pods until they are bound, by each pair in turn.
func runPairs(ctx context.Context, out io.Writer, o options) error {
	fmt.Fprintln(out, "\n| pair | nodes | pods | waiting when the scheduler starts: bound a second | created at once: bound a second | p50 | p99 | "+
		"one after another: p50 | p99 | processor time a pod |")
	fmt.Fprintln(out, "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
	for range max(1, o.rounds) {
		for _, p := range pairs() {
			for _, nodes := range o.nodes {
				if err := runPair(ctx, out, p, o, nodes); err != nil {
					return fmt.Errorf("%s: %w", p.name, err)
				}
			}
		}
	}
	return nil
}

func runPair(ctx context.Context, out io.Writer, p pair, o options, nodes int) (err error) {
	work, err := os.MkdirTemp("", "pair")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	r, config, err := startPair(ctx, p, o.bin, work)
	defer func() { _ = r.stop() }()
	if err != nil {
		return err
	}
	pods := o.pods
	if pods == 0 {
		pods = 2 * nodes
	}
	w := worldOf(nil)(nodes, 2*pods+singles)
	if err := fillServer(ctx, r.api, w); err != nil {
		return err
	}
	seen, err := watchBound(ctx, r.api)
	if err != nil {
		return err
	}
	defer seen.stop()

	if err := createAll(ctx, r.api, seen, w.pending[:pods]); err != nil {
		return err
	}
	before, err := r.cpu()
	if err != nil {
		return err
	}
	if err := p.scheduler(r, config); err != nil {
		return err
	}
	if err := seen.await(ctx, pods); err != nil {
		return err
	}
	waiting := seen.rate(w.pending[:pods], time.Time{})

	began := time.Now()
	if err := createAll(ctx, r.api, seen, w.pending[pods:2*pods]); err != nil {
		return err
	}
	if err := seen.await(ctx, 2*pods); err != nil {
		return err
	}
	atOnce := seen.rate(w.pending[pods:2*pods], began)
	used, err := r.cpu()
	if err != nil {
		return err
	}
	for i, pod := range w.pending[2*pods:] {
		if err := seen.create(ctx, r.api, pod); err != nil {
			return err
		}
		if err := seen.await(ctx, 2*pods+i+1); err != nil {
			return err
		}
	}
	burst, single := seen.latencies(w.pending[pods:2*pods]), seen.latencies(w.pending[2*pods:])
	fmt.Fprintf(out, "| %s | %d | %d | %.0f | %.0f | %v | %v | %v | %v | %v |\n", p.name, nodes, pods, waiting, atOnce,
		short(percentile(burst, 50)), short(percentile(burst, 99)), short(percentile(single, 50)), short(percentile(single, 99)),
		short((used-before)/time.Duration(2*pods)))
	return nil
}

// fillServer creates the nodes of a world, and what its pods need.
func fillServer(ctx context.Context, api *client.Client, w *world) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}}
	if _, err := typed.ServiceAccounts(api).Create(ctx, account); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return inParallel(w.nodes, func(n *corev1.Node) error { return setNode(ctx, api, n) })
}

// inParallel calls f with each of list, by as many goroutines as there are creators. It returns the first error.
func inParallel[T any](list []T, f func(T) error) error {
	next, failed := make(chan T), make(chan error, creators)
	var group sync.WaitGroup
	for range creators {
		group.Go(func() {
			var err error
			for one := range next {
				if err == nil {
					err = f(one)
				}
			}
			if err != nil {
				failed <- err
			}
		})
	}
	for _, one := range list {
		next <- one
	}
	close(next)
	group.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

func createAll(ctx context.Context, api *client.Client, seen *bound, pods []*corev1.Pod) error {
	return inParallel(pods, func(p *corev1.Pod) error { return seen.create(ctx, api, p) })
}

// bound holds when pods were created and when a watch reported that they are bound.
type bound struct {
	stop func()

	mu          sync.Mutex // guards the fields below
	created, at map[string]time.Time
	count       chan int // the latest number of bound pods
}

// watchBound begins to watch the pods.
func watchBound(ctx context.Context, api *client.Client) (*bound, error) {
	cache, err := informer.For(typed.Pods(api))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	b := &bound{created: make(map[string]time.Time), at: make(map[string]time.Time), count: make(chan int, 1)}
	watch := cache.Subscribe(func(_, p *corev1.Pod) {
		if p == nil || p.Spec.NodeName == "" {
			return
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if _, known := b.at[p.Name]; known {
			return
		}
		b.at[p.Name] = time.Now()
		select {
		case <-b.count:
		default:
		}
		b.count <- len(b.at)
	})
	done := goRun(func() error { return cache.Run(ctx) })
	b.stop = func() {
		watch.Stop()
		cancel()
		<-done
	}
	select {
	case <-watch.CaughtUp:
		return b, nil
	case err := <-done:
		done <- err
		b.stop()
		return nil, fmt.Errorf("the watch of pods ended: %w", err)
	}
}

func (b *bound) create(ctx context.Context, api *client.Client, p *corev1.Pod) error {
	b.mu.Lock()
	b.created[p.Name] = time.Now()
	b.mu.Unlock()
	_, err := typed.Pods(api).Create(ctx, forServer(p))
	return err
}

// await waits until a number of pods is bound.
func (b *bound) await(ctx context.Context, number int) error {
	late := time.NewTimer(5 * time.Minute)
	defer late.Stop()
	for have := 0; have < number; {
		select {
		case have = <-b.count:
		case <-late.C:
			return fmt.Errorf("%d of %d pods are bound after 5 minutes", have, number)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// rate returns how many of the pods were bound a second, from a time on or, if that is zero, from the first of
// them on.
func (b *bound) rate(pods []*corev1.Pod, from time.Time) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	var last time.Time
	for _, p := range pods {
		at := b.at[p.Name]
		if from.IsZero() || from.After(at) {
			from = at
		}
		if at.After(last) {
			last = at
		}
	}
	return float64(len(pods)) / last.Sub(from).Seconds()
}

// latencies returns the time from the request to create each of the pods until it was bound.
func (b *bound) latencies(pods []*corev1.Pod) (list []time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range pods {
		list = append(list, b.at[p.Name].Sub(b.created[p.Name]))
	}
	return list
}
