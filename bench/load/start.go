package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// startTimes starts each server several times on an empty store, alternating.
func (b *bench) startTimes(ctx context.Context) error {
	kinds := slices.Clone(b.kinds)
	if slices.Contains(b.programs(), "apiserver") && !slices.Contains(kinds, planekitMemory) {
		kinds = append([]kind{planekitMemory}, kinds...)
	}
	took := map[kind][]time.Duration{}
	for round := range b.rounds {
		order := slices.Clone(kinds)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, k := range order {
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
	fmt.Fprintln(b.out, "\n| start of the program to ready, empty store, etcd outside standing already | median |\n|---|---|")
	for _, k := range kinds {
		fmt.Fprintf(b.out, "| %s | %.3f s |\n", k, middleOf(took[k]).Seconds())
	}
	return nil
}
