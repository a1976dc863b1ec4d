// Package scavenge returns memory to the operating system once a control plane has started, and once load on it has
// ended. Go's runtime alone would collect garbage only every two minutes then, and keep a tenth and more of the
// peak: 16 of 139 MiB, 11 minutes after a burst of 34,000 objects.
package scavenge

import (
	"context"
	"runtime/metrics"
	"time"
)

const (
	// interval is the time between two measurements of the allocations.
	interval = time.Minute
	// loadBytes is the least that a process under load allocates in an interval. An idle process
	// allocates 10 to 50 MB, depending on how often its metrics are read.
	loadBytes = 128 << 20
	// settling is how long memory is freed after the end of load: the caches and etcd keep changes for
	// 5 to 10 minutes, and the database shrinks after that.
	settling = 15 * time.Minute
)

// scavenger decides when to free memory.
type scavenger struct {
	allocated func() uint64 // bytes since the start of the process
	free      func()

	last uint64
	load time.Time // of the last measurement with load; zero if there was none yet
}

// Run returns memory to the operating system as [Settle] does, a minute after it was called and once a minute for 15
// minutes after load has ended, until ctx is done. Each time it collects garbage, which takes some 50 ms of processor time.
func Run(ctx context.Context) error {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	allocated := func() uint64 {
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	s := &scavenger{allocated: allocated, free: Settle, last: allocated()}
	return s.run(ctx)
}

func (s *scavenger) run(ctx context.Context) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	select {
	case now := <-ticker.C: // the start is over, and what followed it at once
		s.free()
		s.measure(now)
	case <-ctx.Done():
		return nil
	}
	for {
		select {
		case now := <-ticker.C:
			s.measure(now)
		case <-ctx.Done():
			return nil
		}
	}
}

// measure frees memory if there was load lately and there is none now.
func (s *scavenger) measure(now time.Time) {
	allocated := s.allocated()
	lately := allocated - s.last
	s.last = allocated
	switch {
	case lately >= loadBytes:
		s.load = now
	case !s.load.IsZero() && now.Sub(s.load) <= settling:
		s.free()
	}
}
