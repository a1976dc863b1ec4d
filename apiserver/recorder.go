package apiserver

import (
	"bufio"
	"bytes"
	"net"
	"net/http"
	"runtime"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// recorder is the http.ResponseWriter of a request. It records the status code, the number of
// bytes, and what an audit wants of the response.
type recorder struct {
	http.ResponseWriter
	began time.Time
	code  int
	bytes int64
	// leave gives the request's seats back; nil if it has none.
	leave func()
	slow  *time.Timer // see expectSlow
	// streams says that the response goes on for as long as the client likes.
	streams bool
	// status is the response of a request that failed.
	status *metav1.Status
	// started, if not nil, is called before the first byte.
	started func(code int)
	// answer, if not nil, gets a copy of the response.
	answer *bytes.Buffer
}

func (w *recorder) WriteHeader(code int) { w.begin(code); w.ResponseWriter.WriteHeader(code) }

// begin is called before the first byte of the answer.
func (w *recorder) begin(code int) {
	if w.code != 0 || code == http.StatusContinue {
		return
	}
	w.code = code
	if w.started != nil {
		w.started(code)
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

// longWrite bounds the bytes of an answer that are written before other requests run. Encrypting and
// sending a list of a megabyte takes milliseconds, and beside many of those every step of a short
// request would wait for each of them.
const longWrite = 32 << 10

// Bounds on clients that take their answers slowly. net/http keeps the first bytes of an answer,
// so that a write of no more than buffered does not wait for the client. After slowAnswer a request gives up
// its seat, and after requestTimeout the connection ends, but a client has leastAnswer to read a response that
// is late itself.
const (
	buffered    = 4 << 10
	slowAnswer  = time.Second
	leastAnswer = 10 * time.Second
)

// expectSlow keeps clients that do not read from holding seats. Watches have deadlines of their
// own, for each write.
func (w *recorder) expectSlow() {
	w.slow = time.AfterFunc(slowAnswer, w.leave)
	if !w.streams {
		by, least := w.began.Add(requestTimeout+slowAnswer), time.Now().Add(leastAnswer)
		if by.Before(least) {
			by = least
		}
		_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(by)
	}
}

// finish ends what expectSlow has begun, and gives the seats back.
func (w *recorder) finish() {
	if w.slow != nil {
		w.slow.Stop()
	}
	if w.slow != nil && !w.streams {
		_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Time{})
	}
	if w.leave != nil {
		w.leave()
	}
}

// Hijack takes over the connection, for a protocol that the request changes to.
func (w *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffers, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.begin(http.StatusSwitchingProtocols)
	}
	return conn, buffers, err
}

// Unwrap lets http.ResponseController find what it needs.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
