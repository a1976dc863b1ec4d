package memruntime

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet/cri/memruntime/internal/streams"
)

// Config configures a Runtime. Either Socket or Listener is required.
type Config struct {
	// Socket is the absolute path to listen on. An existing socket is replaced.
	Socket string
	// Listener accepts connections in place of Socket. Run closes it.
	Listener net.Listener
	// Behave returns the behavior of a container that starts. Nil means that all containers run
	// until they are stopped. It is called from any goroutine, without locks held.
	Behave func(*runtimeapi.ContainerConfig) Behavior
	// Pull returns the error of PullImage for a complete reference such as
	// docker.io/library/nginx:latest. Nil means that all images can be pulled. See [ErrMissing] and
	// [ErrDenied].
	Pull func(ctx context.Context, reference string, auth *runtimeapi.AuthConfig) error
	// Exec returns the command that is executed in a container, or nil if there is no such command.
	// It is called from any goroutine, without locks held. Nil means [Command].
	Exec func(container *runtimeapi.ContainerConfig, command []string) Program
	// Streams accepts the connections of exec, attach and port-forward. Run closes it. Nil means a
	// free port of the loopback address, opened when it is needed first.
	Streams net.Listener
	// Intercept intercepts every call and may fail or delay it. It may be nil.
	Intercept grpc.UnaryServerInterceptor
}

// Runtime is a container runtime in memory.
type Runtime struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	runtimeapi.UnimplementedImageServiceServer

	config   Config
	ready    chan struct{}
	streams  *streams.Server
	programs sync.WaitGroup

	mu sync.Mutex
	// mu guards the fields below.
	ran        bool
	sandboxes  map[string]*sandbox
	containers map[string]*container
	names      map[string]string // reserved names to the IDs that use them
	images     map[string]*runtimeapi.Image
	pools      []*pool
	watchers   map[chan *runtimeapi.ContainerEventResponse]struct{}
	lastTime   int64
}

// New returns a runtime. It does not listen before Run.
func New(c Config) (*Runtime, error) {
	if c.Listener == nil && !filepath.IsAbs(c.Socket) {
		return nil, fmt.Errorf("memruntime: socket %q is not an absolute path", c.Socket)
	}
	// sun_path holds 108 bytes including its zero (unix(7)). The kernel's error for a longer path
	// is only "invalid argument".
	if len(c.Socket) > 107 {
		return nil, fmt.Errorf("memruntime: socket %q is longer than 107 bytes", c.Socket)
	}
	return &Runtime{
		config:     c,
		streams:    streams.New(c.Streams),
		ready:      make(chan struct{}),
		sandboxes:  map[string]*sandbox{},
		containers: map[string]*container{},
		names:      map[string]string{},
		images:     map[string]*runtimeapi.Image{},
		watchers:   map[chan *runtimeapi.ContainerEventResponse]struct{}{},
	}, nil
}

// Ready returns a channel that is closed when the socket is open.
func (r *Runtime) Ready() <-chan struct{} { return r.ready }

// Run serves until ctx is done. When it returns, all containers have ended. It can be called once.
func (r *Runtime) Run(ctx context.Context) error {
	r.mu.Lock()
	again := r.ran
	r.ran = true
	r.mu.Unlock()
	if again {
		return errors.New("memruntime: run twice")
	}
	listener, err := r.listen()
	if err != nil {
		return errors.Join(fmt.Errorf("memruntime: %w", err), r.streams.Close())
	}
	var options []grpc.ServerOption
	if r.config.Intercept != nil {
		options = append(options, grpc.UnaryInterceptor(r.config.Intercept))
	}
	server := grpc.NewServer(options...)
	runtimeapi.RegisterRuntimeServiceServer(server, r)
	runtimeapi.RegisterImageServiceServer(server, r)
	close(r.ready)
	stop := context.AfterFunc(ctx, server.Stop)
	defer stop()
	err = server.Serve(listener)
	r.killAll()
	ended := r.streams.Close()
	r.programs.Wait()
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("memruntime: %w", err)
	}
	return ended
}

func (r *Runtime) listen() (net.Listener, error) {
	if r.config.Listener != nil {
		return r.config.Listener, nil
	}
	if err := os.Remove(r.config.Socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return net.Listen("unix", r.config.Socket)
}

func (r *Runtime) killAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.containers {
		r.exit(c, exitKilled)
	}
}
