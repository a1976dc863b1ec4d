package images_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/kubelet/images"
)

// TestKeepRoom: a pull ends within a fifth of a second of the moment at which it leaves too little room.
func TestKeepRoom(t *testing.T) {
	const gib = 1 << 30
	failed := errors.New("not now")
	for _, test := range []struct {
		name      string
		capacity  int64
		available func(after time.Duration) int64
		err       error
		want      time.Duration // zero if it goes on
	}{
		{"a small disk fills", 20000, func(after time.Duration) int64 { return 5000 - int64(after/time.Millisecond) }, nil, 4200 * time.Millisecond},
		{"a small disk stays", 20000, func(time.Duration) int64 { return 1000 }, nil, 0},
		{"a large disk", 1000 * gib, func(time.Duration) int64 { return gib }, nil, 0},
		{"a large disk is nearly full", 1000 * gib, func(time.Duration) int64 { return gib - 1 }, nil, 200 * time.Millisecond},
		{"no measurement", 0, func(time.Duration) int64 { return 0 }, failed, 0},
		{"no capacity", 0, func(time.Duration) int64 { return 0 }, nil, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				ctx, done := images.KeepRoom(t.Context(), func() (int64, int64, error) {
					return test.capacity, test.available(time.Since(begin)), test.err
				})
				defer done()
				select {
				case <-ctx.Done():
					full, ok := errors.AsType[*images.NoRoomError](context.Cause(ctx))
					if took := time.Since(begin); took != test.want || !ok || full.Least == 0 {
						t.Errorf("the pull ended after %v with %v, want after %v", took, context.Cause(ctx), test.want)
					}
				case <-time.After(time.Minute):
					if test.want != 0 {
						t.Errorf("the pull goes on, want it to end after %v", test.want)
					}
				}
			})
		})
	}
}
