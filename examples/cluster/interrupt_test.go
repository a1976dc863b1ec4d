package main

import (
	"os"
	"testing"
	"testing/synctest"
)

func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal)
		exits := 0
		ctx, now := interrupted(signals, func() { exits++ })
		for count := range 3 {
			atOnce := false
			select {
			case <-now:
				atOnce = true
			default:
			}
			if stopping := ctx.Err() != nil; stopping != (count >= 1) || atOnce != (count >= 2) || exits != 0 {
				t.Errorf("after %d signals: stopping %v, at once %v, exits %d", count, stopping, atOnce, exits)
			}
			signals <- os.Interrupt
			synctest.Wait()
		}
		if exits != 1 {
			t.Errorf("after 3 signals: exits %d", exits)
		}
	})
}
