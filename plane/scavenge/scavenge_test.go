package scavenge

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestAfterLoad counts how often memory is freed: once after the start, not before there was load, not during load, every
// minute for a while after load, and then no more.
func TestAfterLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var allocated, freed atomic.Uint64
		s := &scavenger{allocated: allocated.Load, free: func() { freed.Add(1) }}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.run(ctx) }()
		time.Sleep(interval / 2)
		pass := func(minutes int, bytes uint64, want uint64, what string) {
			t.Helper()
			freed.Store(0)
			for range minutes {
				allocated.Add(bytes)
				time.Sleep(interval)
			}
			synctest.Wait()
			if n := freed.Load(); n != want {
				t.Errorf("%s: freed %d times, want %d", what, n, want)
			}
		}
		const little, much = loadBytes / 4, loadBytes
		pass(30, little, 1, "idle from the start")
		pass(10, much, 0, "load")
		pass(5, little, 5, "after load")
		pass(3, much, 0, "load again")
		pass(60, little, uint64(settling/interval), "after load again")
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestReturnsMemory: the runtime's own figures show that garbage was returned to the operating system.
func TestReturnsMemory(t *testing.T) {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	s := &scavenger{free: debug.FreeOSMemory, allocated: func() uint64 {
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}}
	s.measure(time.Now())
	began := s.last
	var kept [][]byte
	for range 300 {
		kept = append(kept, make([]byte, 1<<20))
	}
	s.load = time.Time{}
	if s.measure(time.Now()); s.load.IsZero() || s.last-began < 300<<20 {
		t.Fatalf("%d bytes allocated, taken for no load", s.last-began)
	}
	before := heldByHeap()
	runtime.KeepAlive(kept)
	s.measure(time.Now())
	if held := heldByHeap(); held > before-(250<<20) {
		t.Errorf("the heap holds %d bytes after 300 MiB became garbage, %d before", held, before)
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
