package streams

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/moby/spdystream"
	corev1 "k8s.io/api/core/v1"
)

const forwardProtocol = "portforward.k8s.io"

// Forward returns the URL of connections to ports. Connect serves one connection and closes it. Its
// error is reported to the client.
func (s *Server) Forward(connect func(ctx context.Context, port uint16, conn net.Conn) error) (string, error) {
	return s.offer(offer{protocol: forwardProtocol, life: context.Background(), serve: func(ctx context.Context, c *connection) {
		c.forward(ctx, connect)
	}})
}

// forward serves the connections that the client opens, each of two streams, until the client has
// gone.
func (c *connection) forward(ctx context.Context, connect func(context.Context, uint16, net.Conn) error) {
	var serving sync.WaitGroup
	defer serving.Wait()
	waiting := map[string]*spdystream.Stream{} // by what both streams have in common
	expired := make(chan string)
	for {
		select {
		case stream := <-c.opened:
			kind, request := stream.Headers().Get(corev1.StreamType), stream.Headers().Get(corev1.PortForwardRequestIDHeader)
			other := waiting[request]
			switch {
			case kind != corev1.StreamTypeError && kind != corev1.StreamTypeData || other != nil && other.Headers().Get(corev1.StreamType) == kind:
				c.reset(stream)
			case other == nil:
				waiting[request] = stream
				serving.Go(func() { expire(ctx, request, expired) })
			default:
				delete(waiting, request)
				p := pair{data: stream, failure: other}
				if kind == corev1.StreamTypeError {
					p = pair{data: other, failure: stream}
				}
				serving.Go(func() { c.serve(ctx, p, connect) })
			}
		case request := <-expired:
			if stream := waiting[request]; stream != nil {
				delete(waiting, request)
				c.reset(stream)
			}
		case <-ctx.Done():
			return
		}
	}
}

// expire names a request whose second stream is late.
func expire(ctx context.Context, request string, expired chan<- string) {
	timer := time.NewTimer(openTimeout)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return
	}
	select {
	case expired <- request:
	case <-ctx.Done():
	}
}

// pair is the two streams of one connection to a port.
type pair struct{ data, failure *spdystream.Stream }

func (c *connection) serve(ctx context.Context, p pair, connect func(context.Context, uint16, net.Conn) error) {
	defer c.reset(p.failure)
	defer c.reset(p.data)
	text := p.data.Headers().Get(corev1.PortHeader)
	port, err := strconv.ParseUint(text, 10, 16)
	if err == nil && port != 0 {
		err = c.join(ctx, p.data, uint16(port), connect)
	} else {
		err = fmt.Errorf("port %q must be between 1 and 65535", text)
	}
	if err != nil {
		io.WriteString(p.failure, err.Error()) // fails only if the client has gone
	}
	p.failure.Close()
}

// join copies between a stream and a connection to a port, until connect has returned.
func (c *connection) join(ctx context.Context, stream *spdystream.Stream, port uint16, connect func(context.Context, uint16, net.Conn) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	near, far := newDuplex(int(port))
	defer context.AfterFunc(ctx, func() {
		near.Close()
		far.Close()
	})()
	var copying sync.WaitGroup
	copying.Go(func() {
		if _, err := io.Copy(near.out, stream); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			cancel()
		}
		near.out.Close() // the port sees the end, and may still answer
	})
	out := &output{stream: stream}
	sent := make(chan struct{})
	copying.Go(func() {
		defer close(sent)
		if _, err := io.Copy(out, near.in); err != nil {
			cancel()
		}
		out.close()
	})
	err := connect(ctx, port, far)
	far.Close()
	<-sent
	c.reset(stream) // nothing reads what the client sends
	copying.Wait()
	return err
}

// duplex is one end of a connection in memory with a direction that ends before the other.
type duplex struct {
	in, out net.Conn
	address net.Addr
}

// newDuplex returns the two ends of a connection to a port.
func newDuplex(port int) (near, far *duplex) {
	nearIn, farOut := net.Pipe()
	farIn, nearOut := net.Pipe()
	address := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}
	return &duplex{nearIn, nearOut, address}, &duplex{farIn, farOut, address}
}

func (d *duplex) Read(p []byte) (int, error)  { return d.in.Read(p) }
func (d *duplex) Write(p []byte) (int, error) { return d.out.Write(p) }
func (d *duplex) Close() error                { return errors.Join(d.in.Close(), d.out.Close()) }
func (d *duplex) CloseWrite() error           { return d.out.Close() }
func (d *duplex) LocalAddr() net.Addr         { return d.address }
func (d *duplex) RemoteAddr() net.Addr        { return d.address }
func (d *duplex) SetDeadline(t time.Time) error {
	return errors.Join(d.in.SetDeadline(t), d.out.SetDeadline(t))
}
func (d *duplex) SetReadDeadline(t time.Time) error  { return d.in.SetReadDeadline(t) }
func (d *duplex) SetWriteDeadline(t time.Time) error { return d.out.SetWriteDeadline(t) }
