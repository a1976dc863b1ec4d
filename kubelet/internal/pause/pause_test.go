package pause_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/planekit/planekit/kubelet/internal/pause"
)

// TestRetry: the pauses double up to five seconds, and end with the context.
func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, tries := time.Now(), 0
		ok := pause.Retry(t.Context(), logr.Discard(), "it fails", func() error {
			if tries++; tries <= 8 {
				return errors.New("not yet")
			}
			return nil
		})
		want := (100+200+400+800+1600+3200)*time.Millisecond + 2*5*time.Second
		if took := time.Since(begun); !ok || took != want {
			t.Errorf("%v after %v, want true after %v", ok, took, want)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begun = time.Now()
		if pause.Retry(ctx, logr.Discard(), "it fails", func() error { return errors.New("never") }) || time.Since(begun) != time.Minute {
			t.Errorf("it ended after %v", time.Since(begun))
		}
		if pause.For(ctx, time.Hour) {
			t.Error("a pause ended well after its context")
		}
	})
}
