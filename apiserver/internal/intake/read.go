package intake

import (
	"io"
	"net/http"
	"time"
)

// Bounds on request bodies. A client has grace to begin, then must have sent
// leastRate bytes for every further second, and all within timeout: a body of
// 3 MiB needs 100 KiB/s.
const (
	grace     = 10 * time.Second
	leastRate = 16 << 10
	timeout   = 30 * time.Second
	// firstRead is allocated before the client has sent anything.
	firstRead = 16 << 10
)

// Read reads up to size bytes of body and reports whether that is all and no more than limit. Its
// buffer grows with what has come. It extends the read deadline of w as the client keeps up with
// leastRate, and removes it at the end of the body.
func Read(w http.ResponseWriter, body io.Reader, size, limit int64) (data []byte, whole bool, err error) {
	began, control := time.Now(), http.NewResponseController(w)
	deadline := grace
	_ = control.SetReadDeadline(began.Add(deadline))
	data = make([]byte, 0, min(size, firstRead)+1) // the end is found beyond the last byte
	for int64(len(data)) <= size {
		if len(data) == cap(data) {
			data = append(make([]byte, 0, min(2*int64(len(data)), size+1)), data...)
		}
		n, err := body.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if err == io.EOF {
			RemoveReadDeadline(w)
			return data, int64(len(data)) <= min(size, limit), nil
		}
		if err != nil {
			return nil, false, err
		}
		earned := min(grace+time.Duration(len(data))*time.Second/leastRate, timeout)
		if earned-deadline >= time.Second {
			deadline = earned
			_ = control.SetReadDeadline(began.Add(deadline))
		}
	}
	return data, false, nil
}

// SetReadDeadline gives the client until timeout to send the part of its body that no step reads:
// net/http reads the rest of a body after the response, and would wait for it without a limit.
// The in-memory transport has no deadlines and needs none: its client is in this process.
func SetReadDeadline(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(timeout))
	}
}

// RemoveReadDeadline removes the limit, once the body has been read or if it lasts as long as
// the request.
func RemoveReadDeadline(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
}
