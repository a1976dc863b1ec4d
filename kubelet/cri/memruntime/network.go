package memruntime

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"syscall"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// DialPod connects to a port of the pod with an address of this runtime, over a pipe in memory. The
// error is syscall.EHOSTUNREACH if no pod has the address, and syscall.ECONNREFUSED if none of its
// containers listens there.
func (r *Runtime) DialPod(address netip.AddrPort) (net.Conn, error) {
	fail := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(address), Err: err}
	}
	s := r.sandboxAt(address.Addr())
	if s == nil {
		return fail(syscall.EHOSTUNREACH)
	}
	c, serve := r.listener(s, address.Port())
	if serve == nil {
		return fail(syscall.ECONNREFUSED)
	}
	client, server := net.Pipe()
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.state() != runtimeapi.ContainerState_CONTAINER_RUNNING { // Run may have ended
		return fail(syscall.ECONNREFUSED)
	}
	r.programs.Go(func() { c.serve(context.Background(), serve, server) })
	return client, nil
}

// sandboxAt returns the sandbox with an address, or nil.
func (r *Runtime) sandboxAt(address netip.Addr) *sandbox {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.sandboxes {
		if s.ready && slices.Contains(s.addresses, address) {
			return s
		}
	}
	return nil
}

// serve serves a connection until the container ends at the latest.
func (c *container) serve(ctx context.Context, serve func(context.Context, net.Conn), conn net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.life, func() {
		cancel()
		conn.Close()
	})()
	serve(ctx, conn)
}
