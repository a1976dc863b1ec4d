package cri

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// maxMessage bounds the size of a response: a list of all images or containers of a node.
const maxMessage = 16 << 20

// Options configures a Client. The zero value is useful.
type Options struct {
	// Timeout bounds each call without a timeout of its own. Zero means 2 minutes.
	Timeout time.Duration
	// SandboxTimeout bounds RunPodSandbox, which runs the network plugins. Zero means 4 minutes.
	SandboxTimeout time.Duration
	// Wait bounds how long Dial waits for the runtime to answer. Zero means 30 seconds.
	Wait time.Duration
	// Observe, if set, is called after each call with its name, such as RunPodSandbox, and its
	// request, which must not be changed. It must be safe for concurrent use.
	Observe func(call string, request any, took time.Duration, err error)
	// Connect connects to the path of the socket. Nil uses the file system. A runtime in the same
	// process needs no socket there.
	Connect func(ctx context.Context, path string) (net.Conn, error)
}

// Client is a connection to one runtime. It is safe for concurrent use. Use [Dial] to create one.
type Client struct {
	conn    *grpc.ClientConn
	runtime runtimeapi.RuntimeServiceClient
	image   runtimeapi.ImageServiceClient
	options Options
}

// Dial connects to the runtime that listens on socket, a path with or without
// the unix:// scheme, and waits until it answers Version with CRI v1.
func Dial(ctx context.Context, socket string, o Options) (*Client, error) {
	if o.Timeout == 0 {
		o.Timeout = 2 * time.Minute
	}
	if o.SandboxTimeout == 0 {
		o.SandboxTimeout = 4 * time.Minute
	}
	if o.Wait == 0 {
		o.Wait = 30 * time.Second
	}
	if o.Connect == nil {
		o.Connect = func(ctx context.Context, path string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
	}
	path := strings.TrimPrefix(socket, "unix://")
	if !strings.HasPrefix(path, "/") {
		return nil, fmt.Errorf("dial runtime %q: not the absolute path of a unix socket", socket)
	}
	conn, err := grpc.NewClient("passthrough:///"+path,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"),
		grpc.WithContextDialer(o.Connect),
		grpc.WithUnaryInterceptor(o.observe),
		// A runtime that restarts is back within seconds, so retry often.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
	)
	if err != nil {
		return nil, fmt.Errorf("dial runtime %s: %w", path, err)
	}
	c := &Client{
		conn:    conn,
		runtime: runtimeapi.NewRuntimeServiceClient(conn),
		image:   runtimeapi.NewImageServiceClient(conn),
		options: o,
	}
	if err := c.await(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("dial runtime %s: %w", path, err), conn.Close())
	}
	return c, nil
}

// observe makes a call and reports it to Observe.
func (o *Options) observe(ctx context.Context, method string, in, out any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	begin := time.Now()
	err := invoke(ctx, method, in, out, conn, options...)
	if o.Observe != nil {
		o.Observe(method[strings.LastIndexByte(method, '/')+1:], in, time.Since(begin), err)
	}
	return err
}

// await waits until the runtime answers.
func (c *Client) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.options.Wait)
	defer cancel()
	c.conn.Connect()
	for state := c.conn.GetState(); state != connectivity.Ready; state = c.conn.GetState() {
		if !c.conn.WaitForStateChange(ctx, state) {
			return fmt.Errorf("nobody listens: %w", context.Cause(ctx))
		}
		c.conn.Connect()
	}
	for {
		_, err := c.Version(ctx, &runtimeapi.VersionRequest{Version: "v1"})
		switch {
		case err == nil:
			return nil
		case !starting(err):
			return fmt.Errorf("it does not speak CRI v1: %w", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it does not get ready: %w", err)
		case <-time.After(startingInterval):
		}
	}
}

// startingInterval is the interval between requests to a runtime that is starting.
const startingInterval = 10 * time.Millisecond

// starting reports whether err means that the runtime is listening but not ready: containerd opens
// its socket first and returns "server is not initialized yet", for which it has no code.
func starting(err error) bool {
	return status.Code(err) == codes.Unavailable || strings.Contains(err.Error(), "not initialized yet")
}

// Close closes the connection. Calls in progress fail.
func (c *Client) Close() error { return c.conn.Close() }
