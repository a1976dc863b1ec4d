package main

import (
	"os"
	"testing"
	"testing/synctest"

	"github.com/planekit/planekit/examples/cluster/stopping"
)

func TestInterrupted(t *testing.T) {
	for _, test := range []struct {
		first os.Signal
		leave bool
	}{{os.Interrupt, false}, {stopping.LeaveSignal, true}} {
		synctest.Test(t, func(t *testing.T) {
			signals := make(chan os.Signal)
			exits := 0
			ctx, asked := interrupted(signals, func() { exits++ })
			for count := range 3 {
				leave, atOnce := done(asked.leave), done(asked.now)
				if stops := ctx.Err() != nil; stops != (count >= 1) || leave != (test.leave && count >= 1) || atOnce != (count >= 2) || exits != 0 {
					t.Errorf("after %d signals, %v first: stops %v, leaves pods %v, at once %v, exits %d", count, test.first, stops, leave, atOnce, exits)
				}
				if count == 0 {
					signals <- test.first
				} else {
					signals <- os.Interrupt
				}
				synctest.Wait()
			}
			if exits != 1 {
				t.Errorf("after 3 signals, %v first: exits %d, want 1", test.first, exits)
			}
		})
	}
}

// done reports whether a channel is closed.
func done(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
