package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/planekit/planekit/kubelet/cri/memruntime"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// fakeRuntime is the in-process runtime of one node. It gives pods addresses of
// the range that the kubelet tells it, so there is no network to set up.
type fakeRuntime struct {
	socket string
}

func (f *fakeRuntime) start(ctx context.Context, s *stack) (string, error) {
	if err := os.MkdirAll(filepath.Dir(f.socket), 0o700); err != nil {
		return "", err
	}
	runtime, err := memruntime.New(memruntime.Config{Socket: f.socket, Behave: simulated})
	if err != nil {
		return "", err
	}
	s.start("in-process runtime", runtime.Run)
	return f.socket, s.await(ctx, runtime.Ready())
}

// simulated containers say so in their logs, and run until they are stopped. All
// use the same: a hundredth of a CPU, and 16 MiB. Only the commands true and
// false do what they always do.
func simulated(c *runtimeapi.ContainerConfig) memruntime.Behavior {
	b := memruntime.Behavior{
		Output: fmt.Sprintf("%s is simulated: nothing runs\n", c.GetMetadata().GetName()),
		CPU:    10e6, Memory: 16 << 20,
	}
	switch command := c.GetCommand(); {
	case len(command) == 1 && command[0] == "true":
		b.Exits = true
	case len(command) == 1 && command[0] == "false":
		b.Exits, b.ExitCode = true, 1
	}
	return b
}

func (f *fakeRuntime) network(context.Context, string) error { return nil }

func (f *fakeRuntime) forgetNetwork(context.Context) error { return nil }

func (f *fakeRuntime) cleanup(context.Context) error { return nil }
