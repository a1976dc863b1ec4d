package apiserver

import (
	"net"
	"sync/atomic"
)

// cutListener accepts connections that send nothing after a write that has failed. A write that its deadline
// cuts off may leave a part of a TLS record behind. crypto/tls would send a close_notify alert after it, which
// the client, if it reads on, takes for the rest of the record: a record with a bad MAC, as from an attacker.
type cutListener struct{ net.Listener }

// Accept implements net.Listener.
func (l cutListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &cutConn{Conn: conn}, nil
}

type cutConn struct {
	net.Conn
	cut atomic.Bool
}

// Write implements net.Conn.
func (c *cutConn) Write(data []byte) (int, error) {
	if c.cut.Load() {
		return 0, net.ErrClosed
	}
	n, err := c.Conn.Write(data)
	if err != nil {
		c.cut.Store(true)
	}
	return n, err
}
