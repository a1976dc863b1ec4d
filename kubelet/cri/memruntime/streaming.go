package memruntime

import (
	"context"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet/cri/memruntime/internal/streams"
)

// Exec returns the URL of the streams of a command. A command that does not exist is an error on
// these streams, as with other runtimes.
func (r *Runtime) Exec(_ context.Context, in *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	want := streams.Want{Stdin: in.GetStdin(), Stdout: in.GetStdout(), Stderr: in.GetStderr(), TTY: in.GetTty()}
	c, err := r.streaming(in.GetContainerId(), want)
	if err != nil {
		return nil, err
	}
	url, err := r.streams.Command(c.life, want, func(ctx context.Context, s Streams) (int32, error) {
		program, err := r.command(c, in.GetCmd())
		if err != nil {
			return 0, fmt.Errorf("error executing command in container: %w", err)
		}
		code := program(ctx, s)
		if c.life.Err() != nil {
			code = exitKilled
		}
		return code, nil
	})
	return &runtimeapi.ExecResponse{Url: url}, offerError(err)
}

// command returns what runs a command in a container, or why there is no such command, in the words
// of containerd and runc.
func (r *Runtime) command(c *container, command []string) (Program, error) {
	var program Program
	if r.config.Exec != nil {
		program = r.config.Exec(c.config, command)
	} else {
		program = Command(c.config, command)
	}
	if program == nil {
		return nil, fmt.Errorf("failed to exec in container: failed to start exec %q: OCI runtime exec failed: exec failed: unable to start container process: exec: %q: executable file not found in $PATH: unknown",
			newID(), first(command, ""))
	}
	return program, nil
}

// Attach returns the URL of the streams of a container's main program.
func (r *Runtime) Attach(_ context.Context, in *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	want := streams.Want{Stdin: in.GetStdin(), Stdout: in.GetStdout(), Stderr: in.GetStderr(), TTY: in.GetTty()}
	c, err := r.streaming(in.GetContainerId(), want)
	if err != nil {
		return nil, err
	}
	url, err := r.streams.Command(c.life, want, func(ctx context.Context, s Streams) (int32, error) {
		r.attach(ctx, c, s, want.Stdin)
		return 0, nil
	})
	return &runtimeapi.AttachResponse{Url: url}, offerError(err)
}

// attach connects a client until the program has ended, the client has gone, or its input is at its
// end and the container's is not.
func (r *Runtime) attach(ctx context.Context, c *container, s Streams, stdin bool) {
	p, detached := r.processOf(c), make(chan struct{})
	defer p.connect(&s)()
	if stdin && c.config.GetStdin() {
		r.programs.Go(func() { p.feed(ctx, s.Stdin, detached) })
	}
	select {
	case <-p.drained:
	case <-detached:
	case <-ctx.Done():
	}
	if errors.Is(context.Cause(ctx), streams.ErrInterrupted) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.exit(c, exitInterrupted)
	}
}

// processOf returns the process of a container. One that has no program gets its process with the
// first client.
func (r *Runtime) processOf(c *container) *process {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.process == nil {
		c.process = newProcess(c)
		r.programs.Go(c.process.idle)
	}
	return c.process
}

// streaming returns a running container whose streams can be connected.
func (r *Runtime) streaming(id string, want streams.Want) (*container, error) {
	switch {
	case want.TTY && want.Stderr:
		return nil, status.Error(codes.InvalidArgument, "tty and stderr cannot both be true")
	case !want.Stdin && !want.Stdout && !want.Stderr:
		return nil, status.Error(codes.InvalidArgument, "one of stdin, stdout, or stderr must be set")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running(id)
}

// PortForward returns the URL of connections to the ports of a sandbox.
func (r *Runtime) PortForward(_ context.Context, in *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	id := in.GetPodSandboxId()
	r.mu.Lock()
	s := r.sandboxes[id]
	ready := s != nil && s.ready
	r.mu.Unlock()
	switch {
	case s == nil:
		return nil, status.Errorf(codes.NotFound, "failed to find sandbox %q: not found", id)
	case !ready:
		return nil, status.Errorf(codes.Unknown, "sandbox container %q is not running", id)
	}
	url, err := r.streams.Forward(func(ctx context.Context, port uint16, conn net.Conn) error {
		return r.connectPort(ctx, s, port, conn)
	})
	return &runtimeapi.PortForwardResponse{Url: url}, offerError(err)
}

// connectPort serves a connection to a port of a sandbox: the first running container that listens there
// does.
func (r *Runtime) connectPort(ctx context.Context, s *sandbox, port uint16, conn net.Conn) error {
	c, serve := r.listener(s, port)
	if serve == nil {
		conn.Close()
		return fmt.Errorf("error forwarding port %d to pod %s, uid %s: failed to execute portforward in network namespace: failed to connect to localhost:%d inside namespace %q: dial tcp 127.0.0.1:%d: connect: connection refused",
			port, s.id, s.config.GetMetadata().GetUid(), port, s.id, port)
	}
	c.serve(ctx, serve, conn)
	return nil
}

// listener returns the container of a sandbox that listens on a port, and what serves a connection.
func (r *Runtime) listener(s *sandbox, port uint16) (*container, func(context.Context, net.Conn)) {
	r.mu.Lock()
	var found []*container
	for _, c := range r.containers {
		if c.sandbox == s && c.state() == runtimeapi.ContainerState_CONTAINER_RUNNING && c.behavior.Listen != nil {
			found = append(found, c)
		}
	}
	r.mu.Unlock()
	sortByCreation(found)
	for _, c := range found {
		if serve := c.behavior.Listen(port); serve != nil {
			return c, serve
		}
	}
	return nil, nil
}

// offerError returns the error of CRI for that of a new URL.
func offerError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, streams.ErrTooMany):
		return status.Error(codes.ResourceExhausted, err.Error())
	}
	return status.Error(codes.Unavailable, err.Error())
}
