package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/planekit/planekit/bench/peer"
)

// soak is a run.
type soak struct {
	options options
	out     io.Writer
	child   *child
	world   *world
	tally   *tally
	samples *samples
	began   time.Time
	stage   atomic.Value // stage

	// pause is locked by a comparison of the whole world with the server, and shared by operations.
	pause sync.RWMutex
	// down is true from a kill until the cluster is ready again; requests then fail.
	down atomic.Bool
}

const workers = 8

func newSoak(o options, out io.Writer) (*soak, error) {
	port, err := peer.FreePort()
	if err != nil {
		return nil, err
	}
	s := &soak{options: o, out: out, child: newChild(o, port), world: newWorld(), tally: newTally(), samples: &samples{}}
	s.stage.Store(idle)
	return s, s.child.prepare()
}

// run runs the stages.
func (s *soak) run(ctx context.Context) error {
	if err := s.child.start(ctx); err != nil {
		return err
	}
	s.began = time.Now()
	var background sync.WaitGroup
	sampling, stop := context.WithCancel(ctx)
	defer background.Wait()
	defer stop()
	background.Go(func() { s.sampleEvery(sampling) })
	if err := sleep(ctx, s.options.length(idle)); err != nil {
		return err
	}
	if err := s.loaded(ctx); err != nil {
		return err
	}
	s.enter(drain)
	if err := s.drain(ctx); err != nil {
		return err
	}
	s.enter(cool)
	return sleep(ctx, s.options.length(cool))
}

// loaded runs the stages with load.
func (s *soak) loaded(ctx context.Context) error {
	loading, stop := context.WithCancel(ctx)
	var load sync.WaitGroup
	defer load.Wait()
	defer stop()
	turns := make(chan struct{})
	load.Go(func() { s.pace(loading, turns) })
	for i := range workers {
		load.Go(func() { s.work(loading, turns, rand.New(rand.NewPCG(s.options.seed, uint64(i)))) })
	}
	s.enter(kills)
	if err := s.killAll(ctx); err != nil {
		return err
	}
	s.enter(steady)
	if err := sleep(ctx, s.options.length(steady)); err != nil {
		return err
	}
	return s.verify(ctx)
}

// killAll kills the cluster at random times of the stage.
func (s *soak) killAll(ctx context.Context) error {
	random := rand.New(rand.NewPCG(s.options.seed, workers))
	part := s.options.length(kills) / time.Duration(s.options.kills+1)
	for range s.options.kills {
		if err := sleep(ctx, part/2+rand64(random, part)); err != nil {
			return err
		}
		s.down.Store(true)
		if err := s.child.kill(); err != nil {
			return err
		}
		if err := s.child.start(ctx); err != nil {
			return err
		}
		s.down.Store(false)
		if err := s.verify(ctx); err != nil {
			return fmt.Errorf("after kill %d: %w", s.child.life()-1, err)
		}
	}
	return nil
}

func rand64(random *rand.Rand, below time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(max(below, 1))))
}

func (s *soak) enter(next stage) {
	s.stage.Store(next)
	fmt.Fprintf(s.out, "%8v %s: %s\n", time.Since(s.began).Round(time.Second), next, s.tally)
}

// pace starts rate operations a second.
func (s *soak) pace(ctx context.Context, turns chan<- struct{}) {
	ticker := time.NewTicker(time.Duration(float64(time.Second) / s.options.rate))
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		select {
		case turns <- struct{}{}:
		default: // all workers are busy: the server is slower than the rate
		}
	}
}

// work does one operation for each turn.
func (s *soak) work(ctx context.Context, turns <-chan struct{}, random *rand.Rand) {
	w := &worker{soak: s, random: random}
	defer w.watches.Wait()
	for {
		select {
		case <-turns:
			s.pause.RLock()
			w.operate(ctx)
			s.pause.RUnlock()
		case <-ctx.Done():
			return
		}
	}
}

// sleep waits for d, or returns the error of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// poll calls done until it reports success, for at most the given time.
func poll(ctx context.Context, most time.Duration, what string, done func() (string, error)) error {
	deadline := time.Now().Add(most)
	for {
		missing, err := done()
		if err == nil && missing == "" {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.Join(fmt.Errorf("%s: not after %v: %s", what, most, missing), err)
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}
