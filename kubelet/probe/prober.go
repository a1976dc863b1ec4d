package probe

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A Kind says what a probe decides about its container.
type Kind string

// The kinds of probes, in the words of Kubernetes' events.
const (
	Startup   Kind = "Startup"
	Liveness  Kind = "Liveness"
	Readiness Kind = "Readiness"
)

// A Result is the result of an attempt.
type Result int

// The results of an attempt. Warning counts as a success, and its output is reported in an event.
const (
	Failure Result = iota
	Success
	Warning
)

// String returns the result as the metric prober_probe_total has it.
func (r Result) String() string {
	if r == Failure {
		return "failed"
	}
	return "successful"
}

// A Target is the container to which an attempt is made.
type Target struct {
	Pod       *corev1.Pod
	Container *corev1.Container
	// ID is the container's ID in the runtime.
	ID string
	// PodIP is the pod's first address.
	PodIP string
}

// A Prober makes one attempt. An error means that the attempt could not be made; output explains
// the result. It must be safe for concurrent use. It has until ctx is done, which is the probe's
// timeout; an attempt that takes longer is a Failure.
type Prober interface {
	Probe(ctx context.Context, t Target, action *corev1.ProbeHandler) (r Result, output string, err error)
}

// ProberFunc is a function that is a Prober.
type ProberFunc func(ctx context.Context, t Target, action *corev1.ProbeHandler) (Result, string, error)

// Probe calls f.
func (f ProberFunc) Probe(ctx context.Context, t Target, action *corev1.ProbeHandler) (Result, string, error) {
	return f(ctx, t, action)
}

// An ExecFunc runs a command in the container with the given ID. It returns up to about 10 KiB of
// the output and the exit code. An error means that the command could not be run. A command that
// runs longer than timeout, in whole seconds, is ended with an error for which
// errors.Is(err, context.DeadlineExceeded) is true.
type ExecFunc func(ctx context.Context, id string, command []string, timeout time.Duration) (output []byte, code int32, err error)

// maxOutput bounds what is read of a response or an output: 10 KiB, as in Kubernetes.
const maxOutput = 10 << 10

// Client probes over the network and, with Exec, in containers. The zero Client cannot execute
// commands.
type Client struct {
	// Exec runs the commands of exec probes. Without it, such attempts are errors.
	Exec ExecFunc
	// UserAgent is sent to HTTP and gRPC servers. Empty means "kube-probe/1.36".
	UserAgent string
}

// Probe makes an attempt with the action's handler.
func (c *Client) Probe(ctx context.Context, t Target, action *corev1.ProbeHandler) (Result, string, error) {
	switch {
	case action.Exec != nil:
		return c.exec(ctx, t, action.Exec)
	case action.HTTPGet != nil:
		return c.httpGet(ctx, t, action.HTTPGet)
	case action.TCPSocket != nil:
		return c.tcpSocket(ctx, t, action.TCPSocket)
	case action.GRPC != nil:
		return c.grpc(ctx, t, action.GRPC)
	}
	return Failure, "", fmt.Errorf("missing probe handler for %s", t.Container.Name)
}

func (c *Client) userAgent() string {
	if c.UserAgent == "" {
		return "kube-probe/1.36"
	}
	return c.UserAgent
}

// tcpSocket succeeds if a connection can be opened.
func (c *Client) tcpSocket(ctx context.Context, t Target, action *corev1.TCPSocketAction) (Result, string, error) {
	port, err := portOf(action.Port, t.Container)
	if err != nil {
		return Failure, "", err
	}
	host := action.Host
	if host == "" {
		host = t.PodIP
	}
	conn, err := dial(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return Failure, err.Error(), nil
	}
	_ = conn.Close()
	return Success, "", nil
}

// dial opens a connection that is reset when it is closed, so that frequent probes leave no sockets
// in TIME_WAIT.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	return conn, err
}

// portOf returns the number of a port, which may have a name of the container.
func portOf(port intstr.IntOrString, c *corev1.Container) (int, error) {
	number := port.IntValue()
	if port.Type == intstr.String {
		for _, p := range c.Ports {
			if p.Name == port.StrVal {
				return int(p.ContainerPort), nil
			}
		}
		var err error
		if number, err = strconv.Atoi(port.StrVal); err != nil {
			return 0, fmt.Errorf("container %s has no port named %q", c.Name, port.StrVal)
		}
	}
	if number < 1 || number > 65535 {
		return 0, fmt.Errorf("invalid port number: %d", number)
	}
	return number, nil
}
