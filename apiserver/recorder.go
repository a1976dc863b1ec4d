package apiserver

import (
	"bytes"
	"net/http"
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
	// placed says that the request counts among those that are served at once.
	placed bool

	status *metav1.Status // of an error
	trail  Trail          // nil without an audit, as all below
	// attempted is how a client that was refused has tried to come in.
	attempted string
	streams   bool
	request   *bytes.Buffer
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
	if w.answer != nil && w.answer.Len() <= maxAudited {
		w.answer.Write(data)
	}
	n, err := w.ResponseWriter.Write(data)
	w.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController find what it needs.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
