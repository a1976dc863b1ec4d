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

// simulated containers say so in their logs, and run until they are stopped.
func simulated(c *runtimeapi.ContainerConfig) memruntime.Behavior {
	return memruntime.Behavior{Output: fmt.Sprintf("%s is simulated: nothing runs\n", c.GetMetadata().GetName())}
}

func (f *fakeRuntime) network(context.Context, string) error { return nil }

func (f *fakeRuntime) cleanup(context.Context) error { return nil }
