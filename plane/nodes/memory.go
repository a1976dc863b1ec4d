package nodes

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"

	corev1 "k8s.io/api/core/v1"

	"github.com/planekit/planekit/kubelet/cri/memruntime"
	"github.com/planekit/planekit/kubelet/hook"
	"github.com/planekit/planekit/kubelet/probe"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/stack"
	"google.golang.org/grpc/test/bufconn"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// InMemory returns the part of a control plane that runs count nodes whose containers are
// simulated: node-1, node-2 and so on. Their files are below dir. Each change is called with the
// configuration of each node.
func InMemory(dir string, count int, change ...func(*Config)) plane.Part {
	return func(ctx context.Context, p *plane.Plane, s *stack.Stack) error {
		var configs []Config
		for i := range count {
			name := Name(i)
			config := Config{Name: name, Dir: filepath.Join(dir, name), Address: "127.0.0.1", Runtime: &Memory{}}
			for _, f := range change {
				f(&config)
			}
			configs = append(configs, config)
		}
		return Start(ctx, p, s, configs...)
	}
}

// Name returns the name of the node with that index, from 0.
func Name(index int) string { return fmt.Sprintf("node-%d", index+1) }

// Memory is the Runtime of a node whose containers are simulated. It gives pods addresses from the
// range that the kubelet sets, so it needs no network.
type Memory struct {
	// Socket is the absolute path of its CRI socket. Empty means none: only the kubelet in this
	// process reaches the runtime.
	Socket string
	// Behave returns the behavior of a container that starts. Nil means [Simulated].
	Behave func(*runtimeapi.ContainerConfig) memruntime.Behavior
	// Exec returns a command that is executed in a container, or nil if there is no such command. Nil
	// means [memruntime.Command].
	Exec func(container *runtimeapi.ContainerConfig, command []string) memruntime.Program

	// Dial makes the connections of containers, as those of a client in a namespace: the command wget
	// is one of theirs then. Nil means that it is not found. It is not used with an Exec or Behave.
	Dial func(ctx context.Context, namespace, network, address string) (net.Conn, error)

	listener, streams *bufconn.Listener // nil with a Socket
	runtime           atomic.Pointer[memruntime.Runtime]
}

// Start implements Runtime.
func (m *Memory) Start(ctx context.Context, s *stack.Stack) (string, error) {
	config := memruntime.Config{Socket: m.Socket, Behave: m.Behave, Exec: m.Exec}
	if config.Behave == nil {
		config.Behave = m.simulated
	}
	if config.Exec == nil {
		config.Exec = m.command
	}
	if m.Socket == "" {
		m.listener = bufconn.Listen(connectionBuffer)
		m.streams = bufconn.Listen(connectionBuffer)
		config.Listener, config.Streams = m.listener, m.streams
	} else if err := os.MkdirAll(filepath.Dir(m.Socket), 0o700); err != nil {
		return "", err
	}
	runtime, err := memruntime.New(config)
	if err != nil {
		return "", err
	}
	m.runtime.Store(runtime)
	s.Start("in-process runtime", runtime.Run)
	if err := s.Await(ctx, runtime.Ready()); err != nil {
		return "", err
	}
	return cmp.Or(m.Socket, "/in-process"), nil
}

// simulated is [Simulated] with the command wget.
func (m *Memory) simulated(c *runtimeapi.ContainerConfig) memruntime.Behavior {
	b := Simulated(c)
	if program := m.wget(c, slices.Concat(c.GetCommand(), c.GetArgs())); program != nil {
		b.Program, b.Output = program, ""
	}
	return b
}

// command is [memruntime.Command] with the command wget.
func (m *Memory) command(c *runtimeapi.ContainerConfig, command []string) memruntime.Program {
	if program := m.wget(c, command); program != nil {
		return program
	}
	return memruntime.Command(c, command)
}

// namespaceLabel is the label with the namespace of a container's pod.
const namespaceLabel = "io.kubernetes.pod.namespace"

func (m *Memory) wget(c *runtimeapi.ContainerConfig, command []string) memruntime.Program {
	if m.Dial == nil {
		return nil
	}
	return memruntime.Wget(command, func(ctx context.Context, network, address string) (net.Conn, error) {
		return m.Dial(ctx, c.GetLabels()[namespaceLabel], network, address)
	})
}

// DialPod connects to a port of a pod of this node. See [memruntime.Runtime.DialPod].
func (m *Memory) DialPod(address netip.AddrPort) (net.Conn, error) {
	if runtime := m.runtime.Load(); runtime != nil {
		return runtime.DialPod(address)
	}
	return nil, syscall.EHOSTUNREACH
}

// connectionBuffer is the size of the buffer of each direction of a connection, in bytes.
const connectionBuffer = 64 << 10

// Connect implements Connector.
func (m *Memory) Connect(ctx context.Context, socket string) (net.Conn, error) {
	if m.listener != nil {
		return m.listener.DialContext(ctx)
	}
	return new(net.Dialer).DialContext(ctx, "unix", socket)
}

// DialStream implements StreamDialer.
func (m *Memory) DialStream(ctx context.Context, network, address string) (net.Conn, error) {
	if m.streams != nil {
		return m.streams.DialContext(ctx)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// Probe implements probe.Prober: every port of a simulated container answers, and every command
// succeeds.
func (*Memory) Probe(context.Context, probe.Target, *corev1.ProbeHandler) (probe.Result, string, error) {
	return probe.Success, "", nil
}

// Call implements hook.Caller: hooks succeed at once, but for sleep, which takes its time.
func (*Memory) Call(ctx context.Context, t probe.Target, h *corev1.LifecycleHandler) error {
	if h.Sleep != nil {
		return (&hook.Client{}).Call(ctx, t, h)
	}
	return nil
}

// Network implements Runtime.
func (*Memory) Network(context.Context, string) error { return nil }

// ForgetNetwork implements Runtime.
func (*Memory) ForgetNetwork(context.Context) error { return nil }

// Cleanup implements Runtime.
func (*Memory) Cleanup(context.Context) error { return nil }
