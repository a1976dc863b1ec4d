package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/planekit/planekit/bench/peer"
	"github.com/planekit/planekit/bench/wire"
)

// settle is how long a server is left alone before its memory is read.
const settle = 5 * time.Second

// memory fills each server in turn, and reads its memory and the cost of
// listing everything as it grows.
func (b *bench) memory(ctx context.Context) error {
	steps := slices.DeleteFunc([]int{0, 1_000, 10_000, 50_000, 100_000}, func(pods int) bool { return pods > b.most })
	results := make([]memoryRow, len(steps))
	for _, k := range b.kinds {
		if err := b.memoryOf(ctx, k, steps, results); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
	}
	printMemory(b.out, b.kinds, results)
	return nil
}

func (b *bench) memoryOf(ctx context.Context, k kind, steps []int, results []memoryRow) (err error) {
	s, err := b.start(ctx, k)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	const namespace = "many"
	if err := s.namespace(ctx, namespace); err != nil {
		return err
	}
	c, err := newCreator(namespace, "pod-")
	if err != nil {
		return err
	}
	done := 0
	for i, step := range steps {
		pods := b.scale(step)
		if step == 0 {
			pods = 0
		}
		if err := s.fill(ctx, c, done, pods); err != nil {
			return err
		}
		done = pods
		var m memoryFigures
		if err := rest(ctx, b.short); err != nil {
			return err
		}
		if m.resident, err = s.server.Resident(); err != nil {
			return err
		}
		const lists = 5
		if m.list, err = s.load(ctx, 1, lists, func(int, int) wire.Request {
			return wire.Request{Method: "GET", Path: c.path, Accept: protobuf}
		}); err != nil {
			return err
		}
		results[i].pods = pods
		results[i].add(k, m)
	}
	return nil
}

// rest lets a server finish what it does after the last answer.
func rest(ctx context.Context, short bool) error {
	wait := settle
	if short {
		wait /= 10
	}
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// startTimes starts each server several times on an empty store.
func (b *bench) startTimes(ctx context.Context) error {
	kinds := append([]kind{planekitMemory}, b.kinds...)
	took := map[kind][]time.Duration{}
	for range b.rounds {
		for _, k := range kinds {
			s, err := b.start(ctx, k)
			if err != nil {
				return err
			}
			took[k] = append(took[k], s.ready)
			if err := s.stop(); err != nil {
				return err
			}
		}
	}
	fmt.Fprintln(b.out, "\n| start of the program to ready, empty store | median |\n|---|---|")
	for _, k := range kinds {
		slices.Sort(took[k])
		fmt.Fprintf(b.out, "| %s | %.3f s |\n", k, took[k][len(took[k])/2].Seconds())
	}
	return nil
}

// size prints what the programs weigh.
func (b *bench) size(ctx context.Context) error {
	programs := []string{"apiserver", withoutEtcd, "etcd"}
	if b.peers {
		programs = append(programs, "kube-apiserver")
	}
	fmt.Fprintln(b.out, "\n| program, stripped | MB | linked modules |\n|---|---|---|")
	for _, name := range programs {
		bytes, modules, err := peer.Size(ctx, filepath.Join(b.bin, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(b.out, "| %s | %.1f | %d |\n", name, float64(bytes)/1e6, modules)
	}
	return nil
}
