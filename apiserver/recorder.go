package apiserver

import (
	"bytes"
	"net/http"
	"runtime"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// recorder remembers the status code, counts bytes, and keeps what an audit
// wants to know.
type recorder struct {
	http.ResponseWriter
	began time.Time
	code  int
	bytes int64
	// flow is what flow control has decided, and leave gives the request's seats back; it
	// is nil where there are none.
	flow  FlowControlled
	leave func()
	slow  *time.Timer // see expectSlow
	// watches says that the answer goes on for as long as the client likes.
	watches bool

	status *metav1.Status // of an error
	trail  Trail          // nil without an audit, as all below
	// attempted is how a client that was refused has tried to come in.
	attempted string
	streams   bool
	hears     bool   // the audit wants the request's body
	request   []byte // which is shared with the handler and not changed
	answer    *bytes.Buffer
}

func (w *recorder) WriteHeader(code int) { w.begin(code); w.ResponseWriter.WriteHeader(code) }

// begin is called before the first byte of the answer.
func (w *recorder) begin(code int) {
	if w.code != 0 || code == http.StatusContinue {
		return
	}
	w.code = code
	if w.trail != nil && w.streams {
		w.trail.Started(code)
	}
}

func (w *recorder) Write(data []byte) (int, error) {
	w.begin(http.StatusOK)
	if w.leave != nil && w.slow == nil && w.bytes+int64(len(data)) > buffered {
		w.expectSlow()
	}
	if w.answer != nil && w.answer.Len() <= maxAudited {
		w.answer.Write(data)
	}
	written := 0
	for {
		piece := data[written:min(written+longWrite, len(data))]
		n, err := w.ResponseWriter.Write(piece)
		written += n
		w.bytes += int64(n)
		if err != nil || written == len(data) {
			return written, err
		}
		runtime.Gosched()
	}
}

// longWrite is how many bytes of an answer are written before others get to run. Encrypting and
// sending a list of a megabyte takes milliseconds, and beside many of those every step of a short
// request would wait for each of them.
const longWrite = 32 << 10

// leaveEarly gives up the seats of a request that goes on without work for this server.
func leaveEarly(w http.ResponseWriter) {
	if w, ok := w.(*recorder); ok && w.leave != nil {
		w.leave()
	}
}

// Bounds on clients that take their answers slowly. net/http keeps the first bytes of an answer,
// so that a write of no more than buffered waits for nobody. After slowAnswer a request gives up
// its seat, and after requestTimeout the connection ends.
const (
	buffered   = 4 << 10
	slowAnswer = time.Second
)

// expectSlow keeps clients that do not read from holding seats. Watches have deadlines of their
// own, for each write.
func (w *recorder) expectSlow() {
	w.slow = time.AfterFunc(slowAnswer, w.leave)
	if !w.watches {
		_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(w.began.Add(requestTimeout + slowAnswer))
	}
}

// written ends what expectSlow has begun.
func (w *recorder) written() {
	if w.slow != nil {
		w.slow.Stop()
	}
	if w.slow != nil && !w.watches {
		_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Time{})
	}
	w.leave()
}

// Unwrap lets http.ResponseController find what it needs.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
