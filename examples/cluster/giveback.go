package main

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// lookEvery is the time between two looks at how much is allocated.
	lookEvery = time.Minute
	// busyBytes is the least that a process under load allocates between two looks. An idle process
	// allocates 10 to 50 MB, depending on how often its metrics are read.
	busyBytes = 128 << 20
	// settling is for how long memory of the load is freed after its end: changes are remembered for 5 to
	// 10 minutes, by the caches and by etcd, and the database is made smaller after that.
	settling = 15 * time.Minute
)

// giveBack returns memory to the operating system once load has ended. The runtime would collect
// garbage only every two minutes then, and keep a tenth and more of what it had last: 16 of 139 MiB, 11
// minutes after a burst of 34,000 objects. It collects garbage for that, for some 50 ms of processor time
// each minute, and only while nothing else happens and something may have been freed.
type giveBack struct {
	allocated func() uint64 // bytes since the start of the process
	free      func()

	last uint64
	busy time.Time // the last look at which there was load; zero for none yet
}

func newGiveBack() *giveBack {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	allocated := func() uint64 {
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	return &giveBack{allocated: allocated, free: debug.FreeOSMemory, last: allocated()}
}

// Run looks again and again until ctx is done.
func (g *giveBack) Run(ctx context.Context) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			g.look(now)
		case <-ctx.Done():
			return nil
		}
	}
}

// look frees memory if there was load lately and is none now.
func (g *giveBack) look(now time.Time) {
	allocated := g.allocated()
	lately := allocated - g.last
	g.last = allocated
	switch {
	case lately >= busyBytes:
		g.busy = now
	case !g.busy.IsZero() && now.Sub(g.busy) <= settling:
		g.free()
	}
}
