package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// pointOfPods holds the costs of planekit for a number of pods.
type pointOfPods struct {
	asked, pods int
	// fill is the cost of the pods added since the previous point.
	fill     figures
	resident float64 // MiB
	list     figures // of all pods, protobuf
}

// above returns the memory beyond that of an empty server, for each pod.
func (p pointOfPods) above(empty pointOfPods) (kib float64) {
	return (p.resident - empty.resident) * 1024 / float64(p.pods)
}

// listEach returns the processor time of a list for each pod in it.
func (p pointOfPods) listEach() time.Duration { return p.list.cpu / time.Duration(p.pods) }

// pointOfWatchers holds the costs of planekit for a number of watchers.
type pointOfWatchers struct {
	fanLoad
	cost  figures
	floor time.Duration
}

// each returns the processor time of a delivery, including its share of the creation.
func (p pointOfWatchers) each() time.Duration { return p.cost.cpu / time.Duration(p.watchers) }

// further returns the processor time of a delivery to one of the watchers added since before.
func (p pointOfWatchers) further(before pointOfWatchers) time.Duration {
	return (p.cost.cpu - before.cost.cpu) / time.Duration(p.watchers-before.watchers)
}

// curve shows how the cost of planekit grows with objects and with watchers.
func (b *bench) curve(ctx context.Context) (err error) {
	k := planekitOutside
	if !slices.Contains(b.kinds, k) {
		k = b.kinds[0]
	}
	s, err := b.start(ctx, k)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if err := b.profileFromNow(ctx, []*side{s}); err != nil {
		return err
	}
	if err := s.namespace(ctx, many); err != nil {
		return err
	}
	points, err := b.growPods(ctx, s)
	if err != nil {
		return err
	}
	b.results.pods = points
	printCurveOfPods(b.out, k, points, b.lasting(settle))
	watchers, err := b.growWatchers(ctx, s)
	if err != nil {
		return err
	}
	b.results.watchers = watchers
	printCurveOfWatchers(b.out, k, watchers, points[len(points)-1].pods)
	return nil
}

func (b *bench) growPods(ctx context.Context, s *side) ([]pointOfPods, error) {
	c, err := newCreator(many, "pod-")
	if err != nil {
		return nil, err
	}
	var points []pointOfPods
	before := 0
	for _, step := range b.upTo(curveSteps) {
		p := pointOfPods{asked: step, pods: b.pods(step)}
		if p.fill, err = s.fill(ctx, c, before, p.pods); err != nil {
			return nil, err
		}
		if err := s.once(ctx, allOf(many, protobuf)); err != nil {
			return nil, err
		}
		if err := b.residents(ctx, []*side{s}, func(_ *side, mib float64) { p.resident = mib }); err != nil {
			return nil, err
		}
		if p.list, err = s.listAll(ctx, b.lasting(listLasting)); err != nil {
			return nil, err
		}
		before = p.pods
		points = append(points, p)
	}
	return points, nil
}

// growWatchers measures fan-out with all pods in the store, at full speed.
func (b *bench) growWatchers(ctx context.Context, s *side) ([]pointOfWatchers, error) {
	var points []pointOfWatchers
	for i, n := range []int{1, 10, 100, 1000} {
		p := pointOfWatchers{fanLoad: fanLoad{watchers: n, creates: b.scale(1000)}}
		var rounds []figures
		var floors []time.Duration
		for round := range b.rounds {
			f, err := s.fanOut(ctx, fmt.Sprintf("curve-%d-%d", i, round), p.fanLoad)
			if err != nil {
				return nil, fmt.Errorf("%d watchers: %w", n, err)
			}
			floor, err := b.floorOf(ctx, p.fanLoad, f.bytes)
			if err != nil {
				return nil, err
			}
			rounds, floors = append(rounds, f), append(floors, floor)
		}
		p.cost, p.floor = median(rounds), middleOf(floors)
		points = append(points, p)
	}
	return points, nil
}
