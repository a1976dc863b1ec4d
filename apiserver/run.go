package apiserver

import (
	"context"
	"crypto/tls"
	"errors"
	stdlog "log"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// Limits of the HTTP server. The header and stream limits are those of
// kube-apiserver; a client that does not finish its headers or its body in time
// is cut off, so that slow clients cannot hold connections. The reset of a stream
// does not end the requests of an HTTP/2 client that reads nothing of its
// connection: the connection ends if it takes no byte for requestTimeout.
const (
	maxHeaderBytes    = 1 << 20
	readHeaderTimeout = 32 * time.Second
	requestTimeout    = time.Minute
	queueTimeout      = requestTimeout / 4
	idleTimeout       = 3 * time.Minute
	maxStreams        = 250
	drainTimeout      = 20 * time.Second
)

// Run serves on the configured listener until ctx is done. Then /readyz fails,
// for Config.ShutdownDelay all is served still, and no more requests are taken:
// watches are ended, and the requests in flight have Config.DrainTimeout to
// finish. It returns nil. Without a listener it serves Transport and ServeHTTP
// alone. A Server runs once.
func (s *Server) Run(ctx context.Context) error {
	defer s.background()()
	if s.config.Listener == nil {
		s.readyOnce.Do(func() { close(s.ready) })
		<-ctx.Done()
		s.linger(nil)
		s.drain(nil)
		return nil
	}
	server := s.httpServer()
	failed := make(chan error, 1)
	go func() {
		if s.config.TLS == nil {
			failed <- server.Serve(s.config.Listener)
		} else {
			failed <- server.ServeTLS(cutListener{s.config.Listener}, "", "")
		}
	}()
	s.readyOnce.Do(func() { close(s.ready) })
	select {
	case err := <-failed:
		s.drain(server)
		return err
	case <-ctx.Done():
	}
	s.linger(failed)
	s.drain(server)
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (s *Server) httpServer() *http.Server {
	server := &http.Server{
		Handler:           s,
		MaxHeaderBytes:    maxHeaderBytes,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams, WriteByteTimeout: requestTimeout},
		ErrorLog:          httpErrors(s.config.Log),
	}
	if s.config.TLS != nil {
		c := s.config.TLS.Clone()
		c.NextProtos = []string{"h2", "http/1.1"}
		if c.MinVersion == 0 {
			c.MinVersion = tls.VersionTLS12
		}
		server.TLSConfig = c
	}
	return server
}

// background reads the store's changes and lends seats between priority levels until the
// returned function is called, which waits for the end of it.
func (s *Server) background() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { s.feed.Run(ctx) })
	all.Go(func() { _ = s.flow.Run(ctx) })
	return func() {
		cancel()
		all.Wait()
	}
}

// linger is the time in which the server serves and says that it will not for
// long. It ends early where the listener fails.
func (s *Server) linger(failed chan error) {
	s.beUnready()
	if s.config.ShutdownDelay == 0 {
		return
	}
	delay := time.NewTimer(s.config.ShutdownDelay)
	defer delay.Stop()
	select {
	case <-delay.C:
	case err := <-failed:
		failed <- err // Run asks again
	}
}

// drain ends all watches, waits for the requests in flight, on the wire and of
// the in-memory transport, and gives up on them after Config.DrainTimeout.
func (s *Server) drain(server *http.Server) {
	s.beUnready()
	s.stop()
	ctx, cancel := context.WithTimeout(context.Background(), s.config.DrainTimeout)
	defer cancel()
	if server != nil && server.Shutdown(ctx) != nil {
		server.Close()
	}
	s.local.Wait(ctx)
}

// httpErrors returns a logger that passes the errors of net/http, mostly failed handshakes, to
// log.
func httpErrors(log logr.Logger) *stdlog.Logger {
	return stdlog.New(logWriter{log}, "", 0)
}

type logWriter struct{ log logr.Logger }

func (w logWriter) Write(line []byte) (int, error) {
	w.log.V(1).Info("http", "message", string(line))
	return len(line), nil
}
