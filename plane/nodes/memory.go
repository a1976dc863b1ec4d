package nodes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/planekit/planekit/kubelet/cri/memruntime"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/stack"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// InMemory is the part of a control plane that has count nodes whose containers are
// simulated: node-1, node-2 and so on. Their files lie below dir, whose path must be
// short enough for a socket (107 bytes, unix(7)) with "/node-1/cri.sock" at its end.
func InMemory(dir string, count int) plane.Part {
	return func(ctx context.Context, p *plane.Plane, s *stack.Stack) error {
		var configs []Config
		for i := range count {
			name := Name(i)
			configs = append(configs, Config{
				Name: name, Dir: filepath.Join(dir, name), Address: "127.0.0.1",
				Runtime: &Memory{Socket: filepath.Join(dir, name, "cri.sock")},
			})
		}
		return Start(ctx, p, s, configs...)
	}
}

// Name returns the name of the node with that index, from 0.
func Name(index int) string { return fmt.Sprintf("node-%d", index+1) }

// Memory is the Runtime of a node whose containers are simulated. It gives pods
// addresses of the range that the kubelet tells it, so there is no network to set up.
type Memory struct {
	// Socket is the absolute path of its CRI socket.
	Socket string
}

// Start implements Runtime.
func (m *Memory) Start(ctx context.Context, s *stack.Stack) (string, error) {
	if err := os.MkdirAll(filepath.Dir(m.Socket), 0o700); err != nil {
		return "", err
	}
	runtime, err := memruntime.New(memruntime.Config{Socket: m.Socket, Behave: simulated})
	if err != nil {
		return "", err
	}
	s.Start("in-process runtime", runtime.Run)
	return m.Socket, s.Await(ctx, runtime.Ready())
}

// Network implements Runtime.
func (*Memory) Network(context.Context, string) error { return nil }

// ForgetNetwork implements Runtime.
func (*Memory) ForgetNetwork(context.Context) error { return nil }

// Cleanup implements Runtime.
func (*Memory) Cleanup(context.Context) error { return nil }

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
