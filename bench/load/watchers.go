package main

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/planekit/planekit/bench/wire"
)

// watchers are connections that time their events. They share the processors with the server. An
// event has arrived when its watcher has read it.
type watchers struct {
	prefix  []byte
	creates int
	begin   time.Time
	sent    []atomic.Int64 // when each creation was sent, in ns since begin
	took    [][]time.Duration
	group   sync.WaitGroup
	// first waits until every watcher has received an event, all until each has received all.
	first, all sync.WaitGroup

	mu sync.Mutex
	// mu guards failed.
	failed error
	bytes  int
}

func newWatchers(prefix string, load fanLoad) *watchers {
	return &watchers{
		prefix: []byte(prefix), creates: load.creates, begin: time.Now(),
		sent: make([]atomic.Int64, load.creates+1), took: make([][]time.Duration, load.watchers),
	}
}

// watch opens a watch on every connection and follows it.
func (w *watchers) watch(conns []*wire.Conn, path string) error {
	w.first.Add(len(conns))
	w.all.Add(len(conns))
	for i, conn := range conns {
		w.took[i] = make([]time.Duration, 0, w.creates)
		if err := conn.Send(wire.Request{Method: "GET", Path: path, Accept: protobuf + ";stream=watch"}); err != nil {
			return err
		}
		w.group.Go(func() { w.follow(i, conn) })
	}
	return nil
}

// follow reads events until it has seen every creation, or the watch has ended.
func (w *watchers) follow(i int, conn *wire.Conn) {
	seen := -1 // the first pod does not count
	frames := wire.Frames{Event: func(event []byte) error {
		at := bytes.Index(event, w.prefix)
		if at < 0 {
			return nil // a bookmark
		}
		digits := event[at+len(w.prefix):]
		n, err := strconv.Atoi(string(digits[:min(len(digits), numberWidth)]))
		if err != nil || n >= len(w.sent) {
			return fmt.Errorf("an event of no pod of ours: %q", event)
		}
		if seen++; seen == 0 {
			w.first.Done()
			return nil
		}
		w.took[i] = append(w.took[i], time.Since(w.begin)-time.Duration(w.sent[n].Load()))
		if seen == w.creates {
			w.mu.Lock()
			w.bytes = len(event) + wire.LengthBytes
			w.mu.Unlock()
			w.all.Done()
		}
		return nil
	}}
	status, err := conn.Receive(frames.Write)
	if seen == w.creates {
		return // the benchmark closed the connection
	}
	w.mu.Lock()
	w.failed = errors.Join(w.failed, fmt.Errorf("a watch ended after %d events with status %d: %w", seen+1, status, err))
	w.mu.Unlock()
	if seen < 0 {
		w.first.Done()
	}
	w.all.Done()
}

// outcome returns the size of an event, or the error of a watch.
func (w *watchers) outcome() (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bytes, w.failed
}
