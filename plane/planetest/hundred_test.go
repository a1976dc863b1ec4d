package planetest_test

import (
	"runtime"
	"testing"

	"github.com/planekit/planekit/plane/planetest"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
)

// TestHundred runs a hundred control planes at once, each of bounded size, which leave no
// goroutine behind.
func TestHundred(t *testing.T) {
	const planes, most = 100, 8 << 20 // most is in bytes a plane
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) }) // when the planes have stopped
	planetest.Start(t)                                 // what all planes of a process share is not counted
	empty := inUse()
	t.Run("at once", func(t *testing.T) {
		var starting errgroup.Group
		starting.SetLimit(2 * runtime.GOMAXPROCS(0)) // more would only wait for a processor
		for range planes {
			starting.Go(func() error { planetest.Start(t); return nil })
		}
		if err := starting.Wait(); err != nil {
			t.Fatal(err)
		}
		each := (inUse() - empty) / planes
		t.Logf("a plane has %d goroutines and %d KiB", runtime.NumGoroutine()/(planes+1), each>>10)
		if each > most {
			t.Errorf("a plane takes %d bytes, want at most %d", each, most)
		}
	})
}

// inUse returns the bytes of the live objects and of the stacks.
func inUse() int64 {
	runtime.GC()
	runtime.GC() // also what finalizers kept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
