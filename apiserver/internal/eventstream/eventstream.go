// Package eventstream writes a response that goes on for as long as its client likes. Events are
// buffered and sent together. A client that takes too long for a write is cut off, and no other one
// waits for it.
package eventstream

import (
	"bytes"
	"net/http"
	"os"
	"time"
)

// maxBuffer bounds what is buffered of many events that come at once.
const maxBuffer = 64 << 10

// A Writer writes the events of one response. The first failure ends everything. A Writer is used by
// one goroutine.
type Writer struct {
	w       http.ResponseWriter
	timeout time.Duration
	control *http.ResponseController
	buffer  bytes.Buffer
	begun   bool // the headers are to be sent
	timer   *time.Timer
	fired   chan struct{} // closed by the timer
	err     error
}

// New returns a writer to w whose client has timeout for each write.
func New(w http.ResponseWriter, timeout time.Duration) *Writer {
	return &Writer{w: w, timeout: timeout, control: http.NewResponseController(w)}
}

// Begin has the next Flush send the headers, so that the client knows that the stream stands.
func (w *Writer) Begin(contentType string) {
	w.w.Header().Set("Content-Type", contentType)
	w.w.WriteHeader(http.StatusOK)
	w.begun = true
}

// Add buffers frame until Flush. If err is not nil, the stream ends with it instead.
func (w *Writer) Add(frame []byte, err error) {
	if w.err != nil {
		return
	}
	if w.err = err; err != nil {
		return
	}
	w.buffer.Write(frame)
	if w.buffer.Len() >= maxBuffer {
		w.Flush()
	}
}

// Flush sends what is buffered. It fails once the client is gone or too slow.
func (w *Writer) Flush() error {
	if w.err != nil || w.buffer.Len() == 0 && !w.begun {
		return w.err
	}
	w.begun = false
	w.arm()
	if w.buffer.Len() > 0 {
		_, w.err = w.w.Write(w.buffer.Bytes())
		w.buffer.Reset()
	}
	if w.err == nil {
		w.err = w.control.Flush()
	}
	if !w.disarm() {
		w.err = os.ErrDeadlineExceeded
	}
	return w.err
}

// arm has the connection cut unless disarm is called in time. A timer of our own
// does it, since over HTTP/2 setting a deadline is a message to another goroutine,
// and this happens for every event and watcher.
func (w *Writer) arm() {
	if w.timer == nil {
		w.fired = make(chan struct{})
		w.timer = time.AfterFunc(w.timeout, w.cut)
		return
	}
	w.timer.Reset(w.timeout)
}

// cut ends a write that is under way by a deadline in the past. The in-memory
// transport has none: its writes end with the client's context.
func (w *Writer) cut() {
	defer close(w.fired)
	_ = w.control.SetWriteDeadline(time.Unix(1, 0))
}

// disarm reports whether it was in time. If not, cut is over when it returns.
func (w *Writer) disarm() bool {
	if w.timer.Stop() {
		return true
	}
	<-w.fired
	return false
}
