package standalone

import (
	"context"
	"os"
	"path/filepath"

	"github.com/planekit/planekit/kubelet/cri/memruntime"
	"github.com/planekit/planekit/plane/stack"
)

// simulatedRange is the range of pod addresses of a simulated runtime, which nothing routes.
const simulatedRange = "10.88.0.0/24"

// Simulate starts a runtime in this process on s, below Root, whose containers are simulated (package
// memruntime), and makes it that of c.
func Simulate(ctx context.Context, s *stack.Stack, c *Config) error {
	root, err := filepath.Abs(c.Root)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(root, 0o750); err != nil {
		return err
	}
	socket := filepath.Join(root, "cri.sock")
	runtime, err := memruntime.New(memruntime.Config{Socket: socket})
	if err != nil {
		return err
	}
	s.Start("runtime", runtime.Run)
	if err := s.Await(ctx, runtime.Ready()); err != nil {
		return err
	}
	c.Socket = socket
	if c.PodCIDR == "" {
		c.PodCIDR = simulatedRange
	}
	return nil
}
