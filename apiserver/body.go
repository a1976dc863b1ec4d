package apiserver

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/planekit/planekit/apiserver/internal/intake"
	"github.com/planekit/planekit/authn/user"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Bounds on request bodies. A client has bodyGrace to begin, then must have sent
// leastRate bytes for every further second, and all within bodyTimeout: a body of
// 3 MiB needs 100 KiB/s.
const (
	maxBody     = 3 << 20 // as kube-apiserver
	bodyGrace   = 10 * time.Second
	leastRate   = 16 << 10
	bodyTimeout = 30 * time.Second
	// userReads is how many bodies of one user are read at the same time, userWaits
	// how many more may wait for that.
	userReads = 256
	userWaits = 1000
	// firstRead is what is allocated before the client has sent anything.
	firstRead = 16 << 10
)

// received is a request body that is in memory. Only the beginning of a body
// larger than maxBody is, where another server is to have it; the rest is still
// to be read.
type received struct {
	io.Reader
	data  []byte
	whole bool
	body  io.ReadCloser
}

func (b *received) Close() error { return b.body.Close() }

// receive reads the body of r on behalf of u, before the request takes a place
// among those that are served, so that slow clients hold none. It waits where u
// has too many bodies in memory. The caller must release what it returns when
// the request has been answered.
//
// A body that is too large, too slow or finds no room ends the connection of
// HTTP/1: net/http would wait for the rest of it before it answers.
func (s *Server) receive(w *recorder, r *http.Request, info requestInfo, u *user.Info) (intake.Hold, error) {
	if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody {
		return intake.Hold{}, nil
	}
	hold, err := s.readInto(w, r, info, u)
	if err != nil && r.ProtoMajor < 2 {
		w.Header().Set("Connection", "close")
	}
	return hold, err
}

// readInto replaces the body of r by one in memory.
func (s *Server) readInto(w *recorder, r *http.Request, info requestInfo, u *user.Info) (_ intake.Hold, err error) {
	if r.ContentLength > maxBody && s.aggregated(info) == nil {
		return intake.Hold{}, &http.MaxBytesError{Limit: maxBody}
	}
	size := int64(maxBody + 1)
	if r.ContentLength > 0 {
		size = min(size, r.ContentLength)
	}
	hold, err := s.reserve(r, u, size)
	if err != nil {
		return hold, err
	}
	kept := false
	defer func() {
		if !kept {
			hold.Release()
		}
	}()
	b := &received{body: r.Body}
	b.data, b.whole, err = readBody(w, r.Body, size)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return intake.Hold{}, statusError(http.StatusRequestTimeout, "", "the body of the request was sent too slowly")
	case err != nil:
		return intake.Hold{}, badRequest("the body of the request could not be read: %v", err)
	case int64(len(b.data)) > size && size <= maxBody: // only in this process can it be so
		return intake.Hold{}, badRequest("the body of the request is longer than its Content-Length")
	case !b.whole && s.aggregated(info) == nil:
		return intake.Hold{}, &http.MaxBytesError{Limit: maxBody}
	}
	if b.Reader = bytes.NewReader(b.data); !b.whole {
		// The request ends then, and nothing may wait for its body any longer.
		_ = http.NewResponseController(w).SetReadDeadline(w.began.Add(requestTimeout))
		b.Reader = io.MultiReader(b.Reader, b.body)
	} else if w.hears {
		w.request = b.data
	}
	hold.Read(int64(len(b.data)))
	r.Body, kept = b, true
	return hold, nil
}

// reserve waits for memory for a body of size bytes. Those of system:masters
// need no reservation.
func (s *Server) reserve(r *http.Request, u *user.Info, size int64) (intake.Hold, error) {
	if u.In(user.Masters) {
		return intake.Hold{}, nil
	}
	hold, err := s.intake.Reserve(r.Context(), u.Name, size)
	if errors.Is(err, intake.ErrLate) || errors.Is(err, intake.ErrFull) {
		err = apierrors.NewTooManyRequests("too many request bodies, please try again later", 1)
	}
	return hold, err
}

// readBody reads up to size bytes of body and reports whether that is all. Its
// buffer grows with what has come. It extends the read deadline as the client
// keeps up with leastRate, and removes it at the end of the body.
func readBody(w http.ResponseWriter, body io.Reader, size int64) (data []byte, whole bool, err error) {
	began, control := time.Now(), http.NewResponseController(w)
	deadline := bodyGrace
	_ = control.SetReadDeadline(began.Add(deadline))
	data = make([]byte, 0, min(size, firstRead)+1) // the end is found beyond the last byte
	for int64(len(data)) <= size {
		if len(data) == cap(data) {
			data = append(make([]byte, 0, min(2*int64(len(data)), size+1)), data...)
		}
		n, err := body.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if err == io.EOF {
			unhurry(w)
			return data, int64(len(data)) <= min(size, maxBody), nil
		}
		if err != nil {
			return nil, false, err
		}
		earned := min(bodyGrace+time.Duration(len(data))*time.Second/leastRate, bodyTimeout)
		if earned-deadline >= time.Second {
			deadline = earned
			_ = control.SetReadDeadline(began.Add(deadline))
		}
	}
	return data, false, nil
}

// hurry gives the client of r until bodyTimeout to send what of its body nobody
// wants: net/http reads the rest of a body after the answer, and would wait for it
// for ever. Where deadlines are not supported (the in-memory transport) the client
// is in this process and needs none.
func hurry(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
	}
}

// unhurry removes the deadline, once the body has been read or when it lasts as
// long as the request.
func unhurry(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
}

// body returns the request's body.
func (q *request) body() ([]byte, error) {
	b, ok := q.r.Body.(*received)
	switch {
	case !ok:
		return nil, nil
	case !b.whole: // whose aggregated server has gone meanwhile
		return nil, &http.MaxBytesError{Limit: maxBody}
	}
	return b.data, nil
}
