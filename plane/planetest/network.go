package planetest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"google.golang.org/grpc/test/bufconn"
)

// connectionBuffer is the size of the buffer of each direction of a connection, in bytes.
const connectionBuffer = 64 << 10

// network is a [plane.Network] in memory. All its addresses are on one host.
type network struct {
	mu sync.Mutex
	// mu guards the fields below.
	listeners map[string]*listener // by port
	last      int                  // the last port given out
}

func newNetwork() *network { return &network{listeners: map[string]*listener{}, last: 6442} }

// Listen implements [plane.Network].
func (n *network) Listen(address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if port != "0" {
		return nil, errors.New("planetest: the network in memory chooses ports itself")
	}
	n.last++
	l := &listener{Listener: bufconn.Listen(connectionBuffer), address: &net.TCPAddr{IP: net.ParseIP(host), Port: n.last}}
	n.listeners[fmt.Sprint(n.last)] = l
	return l, nil
}

// Dial implements [plane.Network].
func (n *network) Dial(ctx context.Context, address string) (net.Conn, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	l := n.listeners[port]
	n.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("planetest: connect to %s: nothing listens in memory", address)
	}
	c, err := l.DialContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("planetest: connect to %s: %w", address, err)
	}
	return connection{c, l.address}, nil
}

// listener is a listener in memory with the address of a TCP listener.
type listener struct {
	*bufconn.Listener
	address *net.TCPAddr
}

func (l *listener) Addr() net.Addr { return l.address }

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return connection{c, l.address}, nil
}

// connection has the listener's address at both ends.
type connection struct {
	net.Conn
	address *net.TCPAddr
}

// Read fails at a deadline with the error of package net. That of bufconn is not temporary, so that
// a TLS connection would not survive the deadline by which a server takes it over for streams.
func (c connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		err = os.ErrDeadlineExceeded
	}
	return n, err
}

func (c connection) LocalAddr() net.Addr  { return c.address }
func (c connection) RemoteAddr() net.Addr { return c.address }
