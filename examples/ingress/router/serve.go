package router

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
)

const (
	// headers is how long a client may take to send the header of a request.
	headers = 10 * time.Second
	// idle is how long a connection is kept without a request.
	idle = time.Minute
	// maxHeader is the size of the header of a request, in bytes.
	maxHeader = 64 << 10
	// grace is how long requests in progress may take once Serve is to end.
	grace = 10 * time.Second
)

// Serve serves a listener until ctx is done, and then answers the requests in progress for up to 10
// seconds. It closes the listener.
func (p *Proxy) Serve(ctx context.Context, listener net.Listener) error {
	requests, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	server := &http.Server{
		Handler: p, ReadHeaderTimeout: headers, IdleTimeout: idle, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return requests },
		ErrorLog:    slog.NewLogLogger(logr.ToSlogHandler(p.config.Log.V(1)), slog.LevelInfo),
	}
	ended := make(chan error, 1) // one answer
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	closing, cancel := context.WithTimeout(requests, grace)
	defer cancel()
	if err := server.Shutdown(closing); err != nil {
		cut() // also connections that were upgraded
		return errors.Join(server.Close())
	}
	return nil
}
