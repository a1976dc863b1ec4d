package router

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// unsent is the body of a request for one endpoint. It notes whether it was read, and stays open for the
// next endpoint.
type unsent struct {
	io.ReadCloser
	read atomic.Bool
}

func (u *unsent) Read(p []byte) (int, error) {
	u.read.Store(true)
	return u.ReadCloser.Read(p)
}

func (*unsent) Close() error { return nil }

// retry reports whether a request that failed may go to another endpoint: the first has got nothing, or
// the request has no body and may be repeated.
func (u *unsent) retry(r *http.Request, dialed bool) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return !u.read.Load() && (dialed || r.Body == nil || r.Body == http.NoBody)
	}
	return dialed && !u.read.Load()
}

// closing is how long the end of an answer waits for a body that is not read any more.
const closing = 200 * time.Millisecond

// upload is the body of a client, which may take its time between two parts but not forever. Its
// deadlines are those of the connection, which serves other requests before and after.
type upload struct {
	io.ReadCloser
	control *http.ResponseController
	stall   time.Duration
	stalled atomic.Bool // the client has not sent the whole body

	mu       sync.Mutex
	finished bool // guarded by mu; no deadline is set after it
}

// setDeadline sets a deadline, or none for good if the body has ended.
func (u *upload) setDeadline(at time.Time, ended bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.finished {
		_ = u.control.SetReadDeadline(at) // a connection without deadlines has none
	}
	u.finished = u.finished || ended
}

func (u *upload) Read(p []byte) (int, error) {
	u.setDeadline(deadline(u.stall), false)
	n, err := u.ReadCloser.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		u.setDeadline(time.Time{}, true) // the server reads on to notice the end of the connection
	case errors.Is(err, os.ErrDeadlineExceeded):
		u.stalled.Store(true)
	}
	return n, err
}

// finish bounds the time for what is still read of the body when the answer is complete: by the
// connection to the endpoint, and by the server, which goes on with the next request.
func (u *upload) finish() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.finished {
		_ = u.control.SetReadDeadline(deadline(closing))
	}
	u.finished = true
}

// download is the answer to a client, which may take its time between two parts but not forever.
type download struct {
	http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration
}

// setDeadline sets a deadline, or none if after is 0.
func (d *download) setDeadline(after time.Duration) { _ = d.control.SetWriteDeadline(deadline(after)) }

func (d *download) Write(p []byte) (int, error) {
	d.setDeadline(d.stall)
	defer d.setDeadline(0)
	return d.ResponseWriter.Write(p)
}

// FlushError is for http.ResponseController.
func (d *download) FlushError() error {
	d.setDeadline(d.stall)
	defer d.setDeadline(0)
	return d.control.Flush()
}

// finish bounds the time for what the server still has to send, once it has looked at the rest of a body.
func (d *download) finish() { d.setDeadline(closing + d.stall) }

// Unwrap is for http.ResponseController.
func (d *download) Unwrap() http.ResponseWriter { return d.ResponseWriter }

func deadline(after time.Duration) time.Time {
	if after == 0 {
		return time.Time{}
	}
	return time.Now().Add(after)
}
