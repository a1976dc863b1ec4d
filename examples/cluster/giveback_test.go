package main

import (
	"context"
	"runtime"
	"runtime/metrics"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestGiveBackAfterLoad counts how often memory is given back: not before there was load, not during load,
// every minute while what load has left is going, and then no more.
func TestGiveBackAfterLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var allocated, freed atomic.Uint64
		g := &giveBack{allocated: allocated.Load, free: func() { freed.Add(1) }}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- g.Run(ctx) }()
		time.Sleep(lookEvery / 2)
		pass := func(minutes int, bytes uint64, want uint64, what string) {
			t.Helper()
			freed.Store(0)
			for range minutes {
				allocated.Add(bytes)
				time.Sleep(lookEvery)
			}
			synctest.Wait()
			if n := freed.Load(); n != want {
				t.Errorf("%s: given back %d times, want %d", what, n, want)
			}
		}
		const little, much = busyBytes / 4, busyBytes
		pass(30, little, 0, "idle from the start")
		pass(10, much, 0, "load")
		pass(5, little, 5, "after load")
		pass(3, much, 0, "load again")
		pass(60, little, uint64(settling/lookEvery), "after load again")
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestGiveBackReturnsMemory has much of the heap become garbage: what was given back must be seen in the
// runtime's own figures.
func TestGiveBackReturnsMemory(t *testing.T) {
	g := newGiveBack()
	began := g.last
	var kept [][]byte
	for range 300 {
		kept = append(kept, make([]byte, 1<<20))
	}
	if g.look(time.Now()); g.busy.IsZero() || g.last-began < 300<<20 {
		t.Fatalf("%d bytes allocated, taken for no load", g.last-began)
	}
	before := heldByHeap()
	runtime.KeepAlive(kept)
	g.look(time.Now())
	if held := heldByHeap(); held > before-(250<<20) {
		t.Errorf("the heap holds %d bytes after 300 MiB were given back, %d before", held, before)
	}
}

// heldByHeap returns the bytes that the heap has and the operating system has not.
func heldByHeap() (held uint64) {
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples)
	for _, s := range samples {
		held += s.Value.Uint64()
	}
	return held
}
