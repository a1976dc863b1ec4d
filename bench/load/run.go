package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/planekit/planekit/bench/wire"
)

// figures are what one load cost.
type figures struct {
	// perSecond is how many requests were answered each second.
	perSecond float64
	p50, p99  time.Duration
	// cpu is the server's processor time for each request, etcd's where it is a
	// process of its own etcd.
	cpu, etcd time.Duration
	// bytes is the size of an answer.
	bytes int
}

// load sends requests from a number of clients, each the next as soon as it
// has the answer to the last, and fails on any answer that is not a success.
func (s *side) load(ctx context.Context, clients, requests int, request func(client, n int) wire.Request) (figures, error) {
	conns, err := s.dial(clients)
	if err != nil {
		return figures{}, err
	}
	defer hangUp(conns)
	meter, err := s.meter()
	if err != nil {
		return figures{}, err
	}
	var next, bytes atomic.Int64
	took := make([][]time.Duration, clients)
	failed := make([]error, clients)
	var group sync.WaitGroup
	begin := time.Now()
	for i, conn := range conns {
		group.Go(func() {
			var buffer []byte
			for n := int(next.Add(1)) - 1; n < requests && ctx.Err() == nil; n = int(next.Add(1)) - 1 {
				sent := time.Now()
				if buffer, failed[i] = conn.Do(request(i, n), buffer); failed[i] != nil {
					return
				}
				took[i] = append(took[i], time.Since(sent))
				bytes.Store(int64(len(buffer)))
			}
		})
	}
	group.Wait()
	elapsed := time.Since(begin)
	if err := errors.Join(ctx.Err(), cmp.Or(failed...)); err != nil {
		return figures{}, err
	}
	f := figures{perSecond: float64(requests) / elapsed.Seconds(), bytes: int(bytes.Load())}
	f.p50, f.p99 = quantiles(slices.Concat(took...))
	f.cpu, f.etcd, err = meter(requests)
	return f, err
}

// dial opens connections and has each answer once, so that handshakes are no
// part of what is measured.
func (s *side) dial(n int) ([]*wire.Conn, error) {
	conns := make([]*wire.Conn, n)
	failed := make([]error, n)
	var group sync.WaitGroup
	gate := make(chan struct{}, 32) // handshakes at a time
	for i := range n {
		group.Go(func() {
			gate <- struct{}{}
			defer func() { <-gate }()
			if conns[i], failed[i] = wire.Dial(s.target); failed[i] == nil {
				_, failed[i] = conns[i].Do(wire.Request{Method: "GET", Path: "/version"}, nil)
			}
		})
	}
	group.Wait()
	if err := cmp.Or(failed...); err != nil {
		hangUp(conns)
		return nil, err
	}
	return conns, nil
}

func hangUp(conns []*wire.Conn) {
	for _, conn := range conns {
		if conn != nil {
			_ = conn.Close()
		}
	}
}

// meter starts to measure processor time; what it returns tells the time since
// for each of n requests.
func (s *side) meter() (func(n int) (server, etcd time.Duration, err error), error) {
	read := func() (server, etcd time.Duration, err error) {
		if server, err = s.server.CPU(); err == nil && s.etcd != nil {
			etcd, err = s.etcd.CPU()
		}
		return server, etcd, err
	}
	server, etcd, err := read()
	return func(n int) (time.Duration, time.Duration, error) {
		serverNow, etcdNow, err := read()
		return (serverNow - server) / time.Duration(n), (etcdNow - etcd) / time.Duration(n), err
	}, err
}

// quantiles sorts took.
func quantiles(took []time.Duration) (p50, p99 time.Duration) {
	if len(took) == 0 {
		return 0, 0
	}
	slices.Sort(took)
	return took[len(took)/2], took[len(took)*99/100]
}

// median is that of each figure by itself.
func median(rounds []figures) figures {
	of := func(take func(figures) float64) float64 {
		var values []float64
		for _, f := range rounds {
			values = append(values, take(f))
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	duration := func(take func(figures) time.Duration) time.Duration {
		return time.Duration(of(func(f figures) float64 { return float64(take(f)) }))
	}
	return figures{
		perSecond: of(func(f figures) float64 { return f.perSecond }),
		p50:       duration(func(f figures) time.Duration { return f.p50 }),
		p99:       duration(func(f figures) time.Duration { return f.p99 }),
		cpu:       duration(func(f figures) time.Duration { return f.cpu }),
		etcd:      duration(func(f figures) time.Duration { return f.etcd }),
		bytes:     rounds[len(rounds)-1].bytes,
	}
}
