// Package used measures how much processor time and memory a function takes, for tests of what requests cost.
//
//	before := used.Processor()
//	work()
//	took := used.Processor() - before
package used

import (
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"time"
)

// Processor returns the processor time of the process so far, in user and system mode.
func Processor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // the arguments are right
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Peak estimates by how many bytes the heap in use grows while do runs: it samples every 2 ms, and has
// garbage collected four times as often as usual. Only one Peak may run at a time.
func Peak(do func()) int {
	defer debug.SetGCPercent(debug.SetGCPercent(25))
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	peak, done := before.HeapAlloc, make(chan struct{})
	var sampling sync.WaitGroup
	sampling.Go(func() {
		for {
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			peak = max(peak, now.HeapAlloc)
			select {
			case <-done:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	})
	do()
	close(done)
	sampling.Wait()
	return int(peak - before.HeapAlloc)
}
