package main

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/planekit/planekit/bench/wire"
)

// amount is the minimum number of requests and the minimum duration of a load.
type amount struct {
	requests int
	lasting  time.Duration
}

// load sends requests from a number of clients. Each sends the next as soon as it has the answer to
// the last. Any answer that is not a success is an error.
func (s *side) load(ctx context.Context, clients int, a amount, request sender) (figures, error) {
	conns, err := s.dial(clients)
	if err != nil {
		return figures{}, err
	}
	defer hangUp(conns)
	return s.drive(ctx, conns, a, request)
}

// drive is load on existing connections, one for each client.
func (s *side) drive(ctx context.Context, conns []*wire.Conn, a amount, request sender) (figures, error) {
	defer context.AfterFunc(ctx, func() { hangUp(conns) })()
	meter, err := s.meter()
	if err != nil {
		return figures{}, err
	}
	var next, bytes atomic.Int64
	took := make([][]time.Duration, len(conns))
	rates := make([]float64, len(conns))
	failed := make([]error, len(conns))
	var group sync.WaitGroup
	begin := time.Now()
	for i, conn := range conns {
		group.Go(func() {
			var buffer []byte
			for ctx.Err() == nil {
				n := int(next.Add(1)) - 1
				sent := time.Now()
				if n >= a.requests && sent.Sub(begin) >= a.lasting {
					break
				}
				if buffer, failed[i] = conn.Do(request(i, n), buffer); failed[i] != nil {
					return
				}
				took[i] = append(took[i], time.Since(sent))
				bytes.Store(int64(len(buffer)))
			}
			rates[i] = float64(len(took[i])) / time.Since(begin).Seconds()
		})
	}
	group.Wait()
	if err := errors.Join(ctx.Err(), cmp.Or(failed...)); err != nil {
		return figures{}, err
	}
	all := slices.Concat(took...)
	f := figures{bytes: int(bytes.Load())}
	// Clients end at different times, by up to one request; each counts for its own duration.
	for _, rate := range rates {
		f.perSecond += rate
	}
	f.p50, f.p99 = quantiles(all)
	f.cpu, f.etcd, err = meter(len(all))
	return f, err
}

// once sends one request that is not measured.
func (s *side) once(ctx context.Context, request wire.Request) error {
	_, err := s.load(ctx, 1, amount{requests: 1}, func(int, int) wire.Request { return request })
	return err
}

// dial opens connections and sends one request on each, so that the measurement excludes handshakes
// and the rest of the previous load.
func (s *side) dial(n int) ([]*wire.Conn, error) {
	conns := make([]*wire.Conn, n)
	failed := make([]error, n)
	var group sync.WaitGroup
	gate := make(chan struct{}, 32) // concurrent handshakes
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
	runtime.GC()
	return conns, nil
}

func hangUp(conns []*wire.Conn) {
	for _, conn := range conns {
		if conn != nil {
			_ = conn.Close()
		}
	}
}

// meter starts to measure processor time. The result returns the time since then for each of n
// requests.
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

// inTurn returns sides in the order of measurement: reversed every other time, so that none always
// follows the same one.
func inTurn(sides []*side, turn int) []*side {
	sides = slices.Clone(sides)
	if turn%2 == 1 {
		slices.Reverse(sides)
	}
	return sides
}
