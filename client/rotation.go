package client

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// drainAfter is how long requests on connections of an earlier certificate may go on. A watch resumes
// on a new connection.
const drainAfter = 30 * time.Second

var errRetired = errors.New("the client certificate has changed")

// Certificate is a client certificate that may change.
type Certificate struct {
	// transport is a function so that programs without one do not link what it needs.
	transport func(*tls.Config) http.RoundTripper
}

// Follow returns a certificate that is what current returns, which is called for every request. When that
// is another one, requests use new connections; those of the earlier certificate end with their requests,
// at the latest after 30 seconds.
func Follow(current func() *tls.Certificate) *Certificate {
	return &Certificate{func(config *tls.Config) http.RoundTripper { return newRotating(config, current) }}
}

// rotating is a transport whose connections present the current certificate. Each certificate has
// connections of its own.
type rotating struct {
	config      *tls.Config
	certificate func() *tls.Certificate
	dial        func(ctx context.Context, network, address string) (net.Conn, error)

	mu      sync.Mutex // guards the following fields
	current *connections
	retired map[*connections]bool // not closed yet
}

func newRotating(config *tls.Config, certificate func() *tls.Certificate) *rotating {
	if config == nil {
		config = &tls.Config{}
	}
	return &rotating{
		config: config.Clone(), certificate: certificate, retired: map[*connections]bool{},
		dial: (&net.Dialer{Timeout: dialTimeout}).DialContext,
	}
}

// RoundTrip implements http.RoundTripper.
func (r *rotating) RoundTrip(request *http.Request) (*http.Response, error) {
	return r.connections().transport.RoundTrip(request)
}

// connections returns those of the current certificate. It retires those of the one before.
func (r *rotating) connections() *connections {
	certificate := r.certificate()
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.current
	if before != nil && before.certificate == certificate {
		return before
	}
	r.current = newConnections(r.config, certificate, r.dial)
	if before != nil {
		r.retired[before] = true
		before.transport.CloseIdleConnections()
		time.AfterFunc(drainAfter, func() {
			before.close()
			r.mu.Lock()
			defer r.mu.Unlock()
			delete(r.retired, before)
		})
	}
	return r.current
}

// CloseIdleConnections closes the connections that are not in use.
func (r *rotating) CloseIdleConnections() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current != nil {
		r.current.transport.CloseIdleConnections()
	}
	for c := range r.retired {
		c.transport.CloseIdleConnections()
	}
}

// connections are the connections that present one certificate.
type connections struct {
	certificate *tls.Certificate
	transport   *http.Transport

	mu     sync.Mutex // guards the following fields
	open   map[*connection]bool
	closed bool
}

func newConnections(config *tls.Config, certificate *tls.Certificate, dial func(context.Context, string, string) (net.Conn, error)) *connections {
	c := &connections{certificate: certificate, open: map[*connection]bool{}}
	config = config.Clone()
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if certificate == nil {
			return &tls.Certificate{}, nil
		}
		return certificate, nil
	}
	c.transport = ownTransport(config)
	c.transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		plain, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return c.add(plain)
	}
	return c
}

func (c *connections) add(plain net.Conn) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errors.Join(errRetired, plain.Close())
	}
	added := &connection{plain, c}
	c.open[added] = true
	return added, nil
}

// close ends all connections and refuses new ones.
func (c *connections) close() {
	c.mu.Lock()
	c.closed = true
	open := c.open
	c.open = map[*connection]bool{}
	c.mu.Unlock()
	for one := range open {
		one.Conn.Close()
	}
	c.transport.CloseIdleConnections()
}

// connection leaves the list of its owner when it is closed.
type connection struct {
	net.Conn
	owner *connections
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.owner.mu.Lock()
	delete(c.owner.open, c)
	c.owner.mu.Unlock()
	return c.Conn.Close()
}
