package stoppods

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A kubelet that stops its pods at once waits as long as pods go, and not for a runtime that hangs.
func TestAwaitStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		// A pod goes every 8 s, the last one never.
		awaitStall(t.Context(), func() int { return max(1, 5-int(time.Since(begun)/(8*time.Second))) })
		if took := time.Since(begun); took < 4*8*time.Second || took > 4*8*time.Second+2*stopNowPatience {
			t.Errorf("gave up after %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun = time.Now()
		awaitStall(ctx, func() int { return 3 })
		if took := time.Since(begun); took != time.Second {
			t.Errorf("ended %v after its context", took-time.Second)
		}
	})
}
