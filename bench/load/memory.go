package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/planekit/planekit/bench/wire"
)

// settle is the idle time of a server before its memory is read.
const settle = 5 * time.Second

// These are the numbers of pods at which memory is read; the curve continues.
var (
	memorySteps = []int{0, 1_000, 10_000, 50_000}
	curveSteps  = []int{0, 1_000, 10_000, 50_000, 100_000}
)

// memoryFigures holds the figures of one server with a number of pods.
type memoryFigures struct {
	// resident is the memory in MiB, some time after all pods were listed once in protobuf, because
	// a server without readers may keep nothing.
	resident float64
	// list is the cost of a list of all pods, in protobuf, and inAllForms the memory after lists in
	// the other forms. Only the last step has them, because lists increase the memory.
	list       figures
	inAllForms float64
}

// memoryRow is one line of the table of memory.
type memoryRow struct {
	// asked is the number of pods in the full form.
	asked, pods int
	of          map[kind]memoryFigures
}

// many is a namespace that is filled step by step.
const many = "many"

// upTo returns the steps within the requested size.
func (b *bench) upTo(steps []int) []int {
	return slices.DeleteFunc(slices.Clone(steps), func(pods int) bool { return pods > b.most })
}

// pods returns the number of pods of a step.
func (b *bench) pods(step int) int {
	if step == 0 {
		return 0
	}
	return b.scale(step)
}

// memory fills the servers step by step, alternating, and reads their memory. It reads it once for
// each step, whatever the number of rounds.
func (b *bench) memory(ctx context.Context) (err error) {
	sides, stop, err := b.startAll(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := b.profileFromNow(ctx, sides); err != nil {
		return err
	}
	c, err := newCreator(many, "pod-")
	if err != nil {
		return err
	}
	for _, s := range sides {
		if err := s.namespace(ctx, many); err != nil {
			return err
		}
	}
	var results []memoryRow
	before := 0
	for i, step := range b.upTo(memorySteps) {
		r := memoryRow{asked: step, pods: b.pods(step), of: map[kind]memoryFigures{}}
		for _, s := range inTurn(sides, i) {
			if _, err := s.fill(ctx, c, before, r.pods); err != nil {
				return fmt.Errorf("%s: %w", s.kind, err)
			}
			if err := s.once(ctx, allOf(many, protobuf)); err != nil {
				return fmt.Errorf("%s: %w", s.kind, err)
			}
		}
		err := b.residents(ctx, sides, func(s *side, mib float64) { r.of[s.kind] = memoryFigures{resident: mib} })
		if err != nil {
			return err
		}
		before = r.pods
		results = append(results, r)
	}
	if err := b.listsOfMany(ctx, sides, results[len(results)-1]); err != nil {
		return err
	}
	b.results.memory = results
	printMemory(b.out, b.kinds, results, b.lasting(settle))
	return nil
}

// residents lets all servers settle and reports the memory of each.
func (b *bench) residents(ctx context.Context, sides []*side, tell func(*side, float64)) error {
	pause(ctx, b.lasting(settle))
	for _, s := range sides {
		mib, err := s.server.Resident()
		if err != nil {
			return err
		}
		tell(s, mib)
	}
	return ctx.Err()
}

// listsOfMany completes the last row with measurements that follow all readings of memory.
func (b *bench) listsOfMany(ctx context.Context, sides []*side, last memoryRow) (err error) {
	for _, s := range inTurn(sides, 1) {
		m := last.of[s.kind]
		if m.list, err = s.listAll(ctx, b.lasting(listLasting)); err != nil {
			return fmt.Errorf("%s: %w", s.kind, err)
		}
		last.of[s.kind] = m
		for _, form := range medias {
			if err := s.once(ctx, allOf(many, form.accept)); err != nil {
				return fmt.Errorf("%s: %w", s.kind, err)
			}
		}
	}
	return b.residents(ctx, sides, func(s *side, mib float64) {
		m := last.of[s.kind]
		m.inAllForms = mib
		last.of[s.kind] = m
	})
}

// listAll lists all of many, one list after the other.
func (s *side) listAll(ctx context.Context, lasting time.Duration) (figures, error) {
	request := allOf(many, protobuf)
	if err := s.once(ctx, request); err != nil {
		return figures{}, err
	}
	return s.load(ctx, 1, amount{requests: fewestGot, lasting: lasting}, func(int, int) wire.Request { return request })
}

// allOf lists the pods of a namespace.
func allOf(namespace, accept string) wire.Request {
	return wire.Request{Method: "GET", Path: "/api/v1/namespaces/" + namespace + "/pods", Accept: accept}
}
