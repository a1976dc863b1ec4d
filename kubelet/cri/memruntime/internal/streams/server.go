// Package streams serves the streams of exec, attach and port-forward for a runtime in this
// process: a URL for each, as in CRI, on which clients speak SPDY/3.1 as the kubelet does.
//
// # Model
//
// A URL serves one connection within a minute. The status and the outputs of a command reach the
// client before the connection ends: the server leaves it open for ten seconds unless the client
// closes it first. A client that does not read blocks what writes to it, and no other connection.
//
// What serves a stream gets a context that is done when the client has gone, when the container
// has ended, and when the server closes. Ten seconds later its writes fail. The server notices that
// a client has gone when it reads: so not while a program does not read much input.
package streams

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/moby/spdystream"
)

const (
	spdy            = "SPDY/3.1"
	protocolVersion = "X-Stream-Protocol-Version"
	// offerTimeout limits the life of a URL, and maxOffers the number of URLs that are not used
	// yet. Both are those of Kubernetes' library for runtimes.
	offerTimeout = time.Minute
	maxOffers    = 1000
	// openTimeout limits the time for a client to open its streams.
	openTimeout = 30 * time.Second
	// linger is the time that a connection stays open for what is on the way to the client.
	linger = 10 * time.Second
)

// ErrTooMany means that too many URLs are not used yet.
var ErrTooMany = errors.New("maximum number of in-flight requests exceeded")

// Server serves streams. It listens from the first URL on.
type Server struct {
	listener net.Listener // nil: a port of the loopback address
	ctx      context.Context
	cancel   context.CancelFunc

	mu sync.Mutex
	// mu guards the fields below.
	http     *http.Server // nil before it listens
	base     string
	offers   map[string]offer
	closed   bool
	sessions sync.WaitGroup // Add under mu
}

// offer holds how the connection of a URL is served.
type offer struct {
	protocol string
	life     context.Context
	serve    func(context.Context, *connection)
	expires  time.Time
}

// New returns a server that accepts connections from listener. Nil means a free port of the loopback
// address.
func New(listener net.Listener) *Server {
	s := &Server{listener: listener, offers: map[string]offer{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Close ends all streams and waits for what serves them.
func (s *Server) Close() error {
	s.cancel()
	s.mu.Lock()
	s.closed = true
	server, listener := s.http, s.listener
	s.mu.Unlock()
	var err error
	switch {
	case server != nil:
		err = server.Close()
	case listener != nil:
		err = listener.Close()
	}
	s.sessions.Wait()
	return err
}

// offer returns a new URL for o.
func (s *Server) offer(o offer) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return "", net.ErrClosed
	}
	if err := s.listen(); err != nil {
		return "", err
	}
	now := time.Now()
	for token, old := range s.offers {
		if now.After(old.expires) {
			delete(s.offers, token)
		}
	}
	if len(s.offers) >= maxOffers {
		return "", ErrTooMany
	}
	token := rand.Text()
	o.expires = now.Add(offerTimeout)
	s.offers[token] = o
	return s.base + token, nil
}

// listen starts to listen unless it does. The caller holds s.mu.
func (s *Server) listen() error {
	if s.http != nil {
		return nil
	}
	if s.listener == nil {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		s.listener = l
	}
	s.base = "http://" + s.listener.Addr().String() + "/"
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: openTimeout}
	s.sessions.Go(func() { s.http.Serve(s.listener) }) // returns when closed
	return nil
}

// take returns what a token stands for. It is used up then.
func (s *Server) take(token string) (offer, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.offers[token]
	delete(s.offers, token)
	if s.closed || !ok || time.Now().After(o.expires) {
		return offer{}, false
	}
	s.sessions.Add(1)
	return o, true
}

// ServeHTTP serves the streams of a URL.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o, ok := s.take(strings.TrimPrefix(r.URL.Path, "/"))
	if !ok {
		http.NotFound(w, r)
		return
	}
	defer s.sessions.Done()
	if !strings.EqualFold(r.Header.Get("Upgrade"), spdy) {
		http.Error(w, "unable to upgrade: missing upgrade headers in request", http.StatusBadRequest)
		return
	}
	if offered := r.Header.Values(protocolVersion); len(offered) > 0 && !slices.Contains(offered, o.protocol) {
		http.Error(w, fmt.Sprintf("unable to upgrade: unable to negotiate protocol: client supports %v, server accepts %v", offered, []string{o.protocol}), http.StatusForbidden)
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer conn.Close()
	// The write fails if the client has gone, which the connection finds out.
	fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n%s: %s\r\n\r\n", spdy, protocolVersion, o.protocol)
	s.run(o, &once{Conn: conn, from: buffered})
}

// run serves the streams of a connection until it ends.
func (s *Server) run(o offer, conn *once) {
	ctx, cancel := context.WithCancelCause(o.life)
	defer cancel(nil)
	conn.ended = func() { cancel(nil) }
	spdyConn, err := spdystream.NewConnection(conn, true)
	if err != nil {
		return
	}
	defer context.AfterFunc(s.ctx, func() {
		cancel(nil)
		conn.Close()
	})()
	ended := make(chan struct{})
	defer close(ended)
	defer context.AfterFunc(ctx, func() { closeAfter(conn, ended) })()

	c := &connection{cancel: cancel, close: func() { conn.Close() }, opened: make(chan *spdystream.Stream), open: map[*spdystream.Stream]bool{}}
	served := make(chan struct{})
	go func() {
		defer close(served)
		spdyConn.Serve(func(stream *spdystream.Stream) { c.accept(ctx, stream) })
	}()
	o.serve(ctx, c)
	timer := time.NewTimer(linger)
	defer timer.Stop()
	select {
	case <-served:
	case <-timer.C:
	case <-s.ctx.Done():
	}
	conn.Close()
	cancel(nil)
	c.resetAll() // or Serve waits for a reader
	<-served
}

// closeAfter closes a connection that has not ended in time.
func closeAfter(conn net.Conn, ended <-chan struct{}) {
	timer := time.NewTimer(linger)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
		conn.Close()
	}
}

// connection holds the streams that a client has opened.
type connection struct {
	cancel context.CancelCauseFunc // ends the context of what serves the connection
	close  func()                  // ends the connection
	opened chan *spdystream.Stream

	mu sync.Mutex
	// mu guards the fields below.
	open  map[*spdystream.Stream]bool
	ended bool
}

// accept hands a new stream to what serves the connection.
func (c *connection) accept(ctx context.Context, stream *spdystream.Stream) {
	c.mu.Lock()
	ended := c.ended
	c.open[stream] = true
	c.mu.Unlock()
	if !ended && stream.SendReply(http.Header{}, false) == nil {
		select {
		case c.opened <- stream:
			return
		case <-ctx.Done():
		}
	}
	c.reset(stream)
}

// reset ends a stream in both directions. The client's data on it are discarded from then on.
func (c *connection) reset(stream *spdystream.Stream) {
	c.mu.Lock()
	delete(c.open, stream)
	c.mu.Unlock()
	stream.Reset() // fails only if the connection has ended
}

// resetAll ends all streams of a connection that has ended.
func (c *connection) resetAll() {
	c.mu.Lock()
	open := c.open
	c.open, c.ended = map[*spdystream.Stream]bool{}, true
	c.mu.Unlock()
	for stream := range open {
		stream.Reset()
	}
}

// once is a connection whose first bytes may be in a buffer. Close may be called again without an
// error, for which spdystream would wait for a reader.
type once struct {
	net.Conn
	from  io.Reader
	ended func() // called when nothing more can be read
}

func (c *once) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	if err != nil {
		c.ended()
	}
	return n, err
}

// Close implements net.Conn.
func (c *once) Close() error {
	c.Conn.Close()
	return nil
}
