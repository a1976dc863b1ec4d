package embeddedetcd_test

import (
	"context"
	"errors"
	"testing"

	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/embeddedetcd"
	"github.com/planekit/planekit/storage/etcdstore/embedded"
)

// TestOneAtATime: a second control plane on the directory fails and leaves the first alone.
func TestOneAtATime(t *testing.T) {
	dir := t.TempDir()
	err := serve(dir, func(ctx context.Context, p *plane.Plane) error {
		second, err := plane.New(plane.Config{Dir: dir, OpenStore: embeddedetcd.Open})
		if err != nil {
			return err
		}
		if err := second.Run(ctx); !errors.Is(err, embedded.ErrLocked) {
			t.Errorf("Run = %v, want %v", err, embedded.ErrLocked)
		}
		return remember(ctx, p)
	})
	if err != nil {
		t.Error(err)
	}
}
