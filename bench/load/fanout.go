package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/planekit/planekit/bench/wire"
	"github.com/planekit/planekit/client/typed"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// creators is the number of clients that create pods.
const creators = 8

// fanLoad is a number of watchers, each with a connection of its own, that see
// the creation of a number of pods.
type fanLoad struct {
	watchers, creates int
	// perSecond is the rate of creations; 0 means as fast as possible.
	perSecond int
}

// pace describes the rate of creations.
func (l fanLoad) pace() string {
	if l.perSecond == 0 {
		return "full speed"
	}
	return fmt.Sprintf("%d/s", l.perSecond)
}

// pacedLoads are slow enough for all sides to have time between two creations: a thousand watchers
// of 100 pods a second would be the maximum for two processors.
var pacedLoads = []fanLoad{{1, 300, 100}, {100, 300, 100}, {1000, 100, 25}}

// fanRow is one line of the table of fan-out.
type fanRow struct {
	row
	fanLoad
	// floor is the minimum cost of the same deliveries, for each creation.
	floor []time.Duration
}

// toFloor returns the ratio of a server's processor time to the floor's, which no server can go
// below. It is NaN if one of them was not measured.
func (r fanRow) toFloor(k kind) float64 {
	if len(r.floor) == 0 || len(r.rounds[k]) == 0 {
		return math.NaN()
	}
	return float64(median(r.rounds[k]).cpu) / float64(middleOf(r.floor))
}

// fanOut measures deliveries at full speed and at fixed rates.
func (b *bench) fanOut(ctx context.Context) (err error) {
	sides, stop, err := b.startAll(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := b.profileFromNow(ctx, sides); err != nil {
		return err
	}
	var results []fanRow
	for _, load := range append([]fanLoad{{1, 1000, 0}, {100, 1000, 0}, {1000, 1000, 0}}, pacedLoads...) {
		load.creates = b.scale(load.creates)
		results = append(results, fanRow{fanLoad: load})
	}
	size := 0
	for round := range b.rounds {
		for i := range results {
			r := &results[i]
			for _, s := range inTurn(sides, round+i) {
				f, err := s.fanOut(ctx, fmt.Sprintf("fan-%d-%d", i, round), r.fanLoad)
				if err != nil {
					return fmt.Errorf("%s, %d watchers, %s: %w", s.kind, r.watchers, r.pace(), err)
				}
				r.add(s.kind, f)
				size = f.bytes
			}
			floor, err := b.floorOf(ctx, r.fanLoad, size)
			if err != nil {
				return err
			}
			r.floor = append(r.floor, floor)
		}
	}
	b.results.fanOut = results
	printFanOut(b.out, b.kinds, results, size)
	return nil
}

// fanOutTimeout limits one load of a fan-out, the slowest of which takes ten seconds, so that a
// missing delivery does not block forever.
const fanOutTimeout = 3 * time.Minute

// fanOut measures one load in a namespace of its own. cpu is the server's processor time for the
// creation and all deliveries of a pod.
func (s *side) fanOut(ctx context.Context, namespace string, load fanLoad) (figures, error) {
	ctx, cancel := context.WithTimeout(ctx, fanOutTimeout)
	defer cancel()
	if err := s.namespace(ctx, namespace); err != nil {
		return figures{}, err
	}
	c, err := newCreator(namespace, "fan-pod-")
	if err != nil {
		return figures{}, err
	}
	_, revision, err := typed.Pods(s.api).List(ctx, namespace, metav1.ListOptions{})
	if err != nil {
		return figures{}, err
	}
	conns, err := s.dial(load.watchers)
	if err != nil {
		return figures{}, err
	}
	w := newWatchers(c.prefix, load)
	defer w.group.Wait()
	defer hangUp(conns)
	defer context.AfterFunc(ctx, func() { hangUp(conns) })()
	if err := w.watch(conns, c.path+"?watch=true&resourceVersion="+revision); err != nil {
		return figures{}, err
	}
	// Pod number 0 shows that every watch is open.
	if _, err := s.fill(ctx, c, 0, 1); err != nil {
		return figures{}, err
	}
	w.first.Wait()
	creating, err := s.dial(creators)
	if err != nil {
		return figures{}, err
	}
	defer hangUp(creating)
	meter, err := s.meter()
	if err != nil {
		return figures{}, err
	}
	begin := time.Now()
	_, err = s.drive(ctx, creating, amount{requests: load.creates}, func(_, n int) wire.Request {
		sent := time.Now()
		if load.perSecond > 0 {
			// A creation that is late because all creators are busy counts from its due time.
			sent = begin.Add(time.Duration(n) * time.Second / time.Duration(load.perSecond))
			pause(ctx, time.Until(sent))
		}
		w.sent[n+1].Store(int64(sent.Sub(w.begin)))
		return c.request(n + 1)
	})
	if err != nil {
		return figures{}, err
	}
	w.all.Wait()
	f := figures{perSecond: float64(load.creates*load.watchers) / time.Since(begin).Seconds()}
	if f.cpu, f.etcd, err = meter(load.creates); err != nil {
		return f, err
	}
	f.p50, f.p99 = quantiles(slices.Concat(w.took...))
	f.bytes, err = w.outcome()
	return f, err
}

// pause returns after d, or when ctx is done.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
