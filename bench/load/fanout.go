package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/planekit/planekit/bench/wire"
	"github.com/planekit/planekit/client/typed"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fanOut has a number of watchers, each with a connection of its own, see the
// creation of pods by eight clients.
func (b *bench) fanOut(ctx context.Context) (err error) {
	const creators = 8
	sides, stop, err := b.startAll(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	watchers := []int{1, 100, 1000}
	creates := b.scale(1000)
	results := make([]fanRow, len(watchers))
	size := 0
	for round := range b.rounds {
		for i, n := range watchers {
			results[i].watchers = n
			for _, s := range sides {
				namespace := fmt.Sprintf("fan-%d-%d", n, round)
				f, err := s.fanOut(ctx, namespace, n, creators, creates)
				if err != nil {
					return fmt.Errorf("%s, %d watchers: %w", s.kind, n, err)
				}
				results[i].add(s.kind, f)
				size = f.bytes
			}
			floor, err := b.floorOf(ctx, n, creates, size)
			if err != nil {
				return err
			}
			results[i].floor = append(results[i].floor, floor)
		}
	}
	printFanOut(b.out, b.kinds, results, creates, size)
	return nil
}

// watchers are connections that count the events they get.
type watchers struct {
	prefix []byte
	begin  time.Time
	sent   []atomic.Int64 // when each pod's creation was sent, in ns since begin
	took   [][]time.Duration
	// first waits until every watcher has had an event, all until every one has
	// had all.
	first, all sync.WaitGroup

	mu     sync.Mutex
	failed error
	bytes  int
}

// fanOut measures one namespace. cpu is the server's for all deliveries of one
// creation.
func (s *side) fanOut(ctx context.Context, namespace string, n, creators, creates int) (figures, error) {
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
	conns, err := s.dial(n)
	if err != nil {
		return figures{}, err
	}
	w := &watchers{prefix: []byte(c.prefix), begin: time.Now(), sent: make([]atomic.Int64, creates+1), took: make([][]time.Duration, n)}
	var group sync.WaitGroup
	defer group.Wait()
	defer hangUp(conns)
	w.first.Add(n)
	w.all.Add(n)
	for i, conn := range conns {
		w.took[i] = make([]time.Duration, 0, creates)
		request := wire.Request{Method: "GET", Path: c.path + "?watch=true&resourceVersion=" + revision, Accept: protobuf + ";stream=watch"}
		if err := conn.Send(request); err != nil {
			return figures{}, err
		}
		group.Go(func() { w.follow(i, conn, creates) })
	}
	// Number 0 shows that every watch stands.
	if err := s.fill(ctx, c, 0, 1); err != nil {
		return figures{}, err
	}
	w.first.Wait()
	meter, err := s.meter()
	if err != nil {
		return figures{}, err
	}
	begin := time.Now()
	_, err = s.load(ctx, creators, creates, func(_, i int) wire.Request {
		request := c.request(i + 1)
		w.sent[i+1].Store(int64(time.Since(w.begin)))
		return request
	})
	if err != nil {
		return figures{}, err
	}
	w.all.Wait()
	f := figures{perSecond: float64(creates*n) / time.Since(begin).Seconds(), bytes: w.bytes}
	if f.cpu, f.etcd, err = meter(creates); err != nil {
		return f, err
	}
	f.p50, f.p99 = quantiles(slices.Concat(w.took...))
	w.mu.Lock()
	defer w.mu.Unlock()
	return f, w.failed
}

// follow receives until every creation was seen, or the watch ended.
func (w *watchers) follow(i int, conn *wire.Conn, creates int) {
	seen := -1 // the first pod does not count
	frames := wire.Frames{Event: func(event []byte) error {
		at := bytes.Index(event, w.prefix)
		if at < 0 {
			return nil // a bookmark
		}
		digits := event[at+len(w.prefix):]
		n, err := strconv.Atoi(string(digits[:min(len(digits), numberWidth)]))
		if err != nil {
			return fmt.Errorf("an event of no pod of ours: %q", event)
		}
		if seen++; seen == 0 {
			w.first.Done()
			return nil
		}
		w.took[i] = append(w.took[i], time.Since(w.begin)-time.Duration(w.sent[n].Load()))
		if seen == creates {
			w.mu.Lock()
			w.bytes = len(event) + 4 // the length in front
			w.mu.Unlock()
			w.all.Done()
		}
		return nil
	}}
	_, err := conn.Receive(frames.Write)
	if seen == creates {
		return // we hung up
	}
	w.mu.Lock()
	w.failed = errors.Join(w.failed, fmt.Errorf("a watch ended after %d events: %w", seen+1, err))
	w.mu.Unlock()
	if seen < 0 {
		w.first.Done()
	}
	w.all.Done()
}
