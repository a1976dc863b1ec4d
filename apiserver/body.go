package apiserver

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"

	"github.com/planekit/planekit/apiserver/internal/intake"
	"github.com/planekit/planekit/apiserver/internal/wire"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/internal/budget"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// userReads bounds the bodies of one user that are read at the same time, userWaits those that wait
// for that.
const (
	userReads = 256
	userWaits = 1000
)

// received is a request body in memory. Of a body larger than wire.MaxBody, which only another server
// gets, it holds the beginning; the rest is still to be read.
type received struct {
	io.Reader
	data []byte
	body io.ReadCloser
}

func (b *received) Close() error { return b.body.Close() }

// receive reads the body of the request before the request takes a seat, so that slow clients
// hold none. It waits while the user has too many bodies in memory. finish releases the memory.
//
// A body that is too large or too slow, or for which there is no memory, ends the connection of
// HTTP/1, where net/http would wait for the rest of it before it responds.
func (c *call) receive() error {
	r := c.r
	if c.longRunning || r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	err := c.readIntoMemory()
	if err != nil && r.ProtoMajor < 2 {
		c.w.Header().Set("Connection", "close")
	}
	return err
}

// readIntoMemory replaces the body of the request by one in memory, and gives the request the budget for a
// body of its size. Requests without a body have the default budget.
func (c *call) readIntoMemory() error {
	r := c.r
	if r.ContentLength > wire.MaxBody && c.remote == nil {
		return &http.MaxBytesError{Limit: wire.MaxBody}
	}
	size := int64(wire.MaxBody + 1)
	if r.ContentLength > 0 {
		size = min(size, r.ContentLength)
	}
	var err error
	if c.body, err = c.reserve(size); err != nil {
		return err
	}
	b := &received{body: r.Body}
	var whole bool
	b.data, whole, err = intake.Read(&c.w, r.Body, size, wire.MaxBody)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return statusError(http.StatusRequestTimeout, "", "the body of the request was sent too slowly")
	case err != nil:
		return badRequest("the body of the request could not be read: %v", err)
	case int64(len(b.data)) > size && size <= wire.MaxBody: // only a client in this process can send it
		return badRequest("the body of the request is longer than its Content-Length")
	case !whole && c.remote == nil:
		return &http.MaxBytesError{Limit: wire.MaxBody}
	}
	if b.Reader = bytes.NewReader(b.data); !whole {
		// The request ends then, and nothing may wait for its body any longer.
		_ = http.NewResponseController(&c.w).SetReadDeadline(c.w.began.Add(requestTimeout))
		b.Reader = io.MultiReader(b.Reader, b.body)
	} else if c.audit.wantsRequest {
		c.audit.request = b.data
	}
	c.body.Read(int64(len(b.data)))
	c.summary.BodyBytes = int64(len(b.data))
	c.r = r.WithContext(budget.Attach(r.Context(), budget.ForBody(len(b.data))))
	c.r.Body = b
	return nil
}

// reserve waits for memory for a body of size bytes. Those of system:masters
// need no reservation.
func (c *call) reserve(size int64) (intake.Hold, error) {
	if c.user.In(user.Masters) {
		return intake.Hold{}, nil
	}
	hold, err := c.server.intake.Reserve(c.r.Context(), c.user.Name, size)
	if errors.Is(err, intake.ErrLate) || errors.Is(err, intake.ErrFull) {
		err = apierrors.NewTooManyRequests("too many request bodies, please try again later", 1)
		c.summary.Terminated = true
	}
	return hold, err
}

// readCBOR replaces a body in CBOR by one in JSON, which is all that is known inside.
func (q *request) readCBOR() error {
	media, as := wire.ContentType(q.r), wire.JSON
	switch media {
	case wire.CBOR:
	case wire.CBORApply:
		as = string(types.ApplyYAMLPatchType) // of which JSON is a part
	default:
		return nil
	}
	data := q.body()
	if len(data) == 0 {
		return nil
	}
	text, err := wire.CBORToJSON(data, wire.MaxBody)
	if err != nil {
		return err
	}
	header := q.r.Header.Clone() // the header belongs to a client in this process
	header.Set("Content-Type", as)
	r := *q.r
	r.Header, r.Body = header, &received{Reader: bytes.NewReader(text), data: text, body: r.Body}
	q.r = &r
	return nil
}

// body returns the request's body.
func (q *request) body() []byte {
	if b, ok := q.r.Body.(*received); ok {
		return b.data
	}
	return nil
}
