// Package inprocess carries requests from clients to a server in the same process, without a wire and
// without authentication:
//
//	s := inprocess.Server{Handler: handle, Stopping: ctx}
//	client := http.Client{Transport: s.Transport(&user.Info{Name: "alice"})}
//
// A response is buffered until the handler returns or flushes. From then on it is a pipe.
package inprocess

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/planekit/planekit/authn/user"
)

// A Server serves the requests of clients in this process, and counts those in flight. Handler and
// Stopping must be set.
type Server struct {
	// Handler serves a request of u.
	Handler func(w http.ResponseWriter, r *http.Request, u *user.Info)
	// Stopping is done when no more requests are served.
	Stopping context.Context

	mu sync.Mutex
	// Guarded by mu: count counts requests in flight; idle, when set, is closed as soon as there are
	// none.
	count int
	idle  chan struct{}
}

// Transport returns a client transport into the server for u. Requests need no particular host or
// scheme, and end with their context.
func (s *Server) Transport(u *user.Info) http.RoundTripper { return &transport{s, u} }

// Wait waits until no requests are in flight, or ctx is done. Stopping must be done before.
func (s *Server) Wait(ctx context.Context) {
	s.mu.Lock()
	var idle chan struct{}
	if s.count > 0 {
		idle = make(chan struct{})
		s.idle = idle
	}
	s.mu.Unlock()
	if idle == nil {
		return
	}
	select {
	case <-idle:
	case <-ctx.Done():
	}
}

type transport struct {
	server *Server
	user   *user.Info
}

// RoundTrip serves the request in a goroutine of its own, which ends with the
// request's context or when the response's body is closed.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.user == nil || t.user.Name == "" {
		closeBody(req)
		return nil, errors.New("apiserver: in-memory transport without a user")
	}
	if !t.server.enter() {
		closeBody(req)
		return nil, http.ErrServerClosed
	}
	ctx, cancel := context.WithCancel(req.Context())
	in := req.Clone(ctx)
	in.RequestURI = req.URL.RequestURI()
	in.RemoteAddr = "@memory"
	in.Header.Del("Authorization")
	if in.Body == nil {
		in.Body = http.NoBody
	} else if in.Body != http.NoBody && in.ContentLength == 0 {
		in.ContentLength = -1 // a client's zero means that the length is not known
	}
	w := &localResponse{header: http.Header{}, begun: make(chan struct{})}
	w.reader, w.writer = io.Pipe()
	stop := context.AfterFunc(ctx, func() { w.writer.CloseWithError(ctx.Err()) })
	go func() {
		defer t.server.leave()
		defer stop()
		defer closeBody(req)
		defer w.end(req.Context())
		t.server.Handler(w, in, t.user)
	}()
	select {
	case <-w.begun:
		if w.broken {
			cancel()
			return nil, io.ErrUnexpectedEOF
		}
		return w.response(req, cancel), nil
	case <-req.Context().Done():
		cancel()
		return nil, req.Context().Err()
	}
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

// enter counts a request in, unless the server stops.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Stopping.Err() != nil {
		return false
	}
	s.count++
	return true
}

func (s *Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count--; s.count == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// localResponse is an http.ResponseWriter that buffers until the handler ends
// or flushes for the first time; from then on it is a pipe to the client.
type localResponse struct {
	header http.Header
	begun  chan struct{}
	once   sync.Once
	reader *io.PipeReader
	writer *io.PipeWriter

	// Written by the handler's goroutine before begun is closed, read after.
	code    int
	sent    http.Header
	buffer  bytes.Buffer
	flushed bool
	broken  bool // the handler panicked before it had flushed
}

func (w *localResponse) Header() http.Header { return w.header }

func (w *localResponse) WriteHeader(code int) {
	if w.code == 0 {
		w.code, w.sent = code, w.header.Clone()
	}
}

func (w *localResponse) Write(data []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.flushed {
		return w.writer.Write(data)
	}
	return w.buffer.Write(data)
}

// FlushError makes the response a stream.
func (w *localResponse) FlushError() error {
	w.WriteHeader(http.StatusOK)
	if w.flushed {
		return nil
	}
	w.flushed = true
	w.once.Do(func() { close(w.begun) })
	if w.buffer.Len() == 0 {
		return nil
	}
	_, err := w.writer.Write(w.buffer.Bytes())
	w.buffer.Reset()
	return err
}

// end completes the response when the handler has returned or panicked. A
// client which has given up sees its own context's error, never a clean end.
func (w *localResponse) end(client context.Context) {
	err := client.Err()
	if recover() != nil {
		w.broken = !w.flushed
		err = cmp.Or(err, io.ErrUnexpectedEOF)
	}
	w.WriteHeader(http.StatusOK)
	w.once.Do(func() { close(w.begun) })
	w.writer.CloseWithError(err)
}

func (w *localResponse) response(req *http.Request, cancel context.CancelFunc) *http.Response {
	resp := &http.Response{
		Status: strconv.Itoa(w.code) + " " + http.StatusText(w.code), StatusCode: w.code,
		Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: w.sent, Request: req, ContentLength: -1,
	}
	if w.flushed {
		resp.Body = &localBody{w.reader, cancel}
		return resp
	}
	cancel()
	resp.ContentLength = int64(w.buffer.Len())
	resp.Body = io.NopCloser(&w.buffer)
	return resp
}

// localBody ends the request when it is closed.
type localBody struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (b *localBody) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}
