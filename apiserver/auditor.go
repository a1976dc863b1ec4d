package apiserver

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/planekit/planekit/apiserver/internal/wire"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// maxAudited bounds the answers that are kept for an audit; longer ones are left
// out of it.
const maxAudited = 16 << 20

// An Auditor records requests and their users. Package audit has one. Its methods must be safe for
// concurrent use.
type Auditor interface {
	// Begin is called for each request after authentication. The user in a is nil if authentication
	// failed. The returned Trail records the request; nil means that it is not recorded.
	Begin(r *http.Request, a authz.Attributes) Trail
}

// A Trail follows one request. It is used by one goroutine at a time.
type Trail interface {
	// ID returns the value of the response's header Audit-Id.
	ID() string
	// Wants reports whether Done needs the bodies of request and response.
	Wants() (request, answer bool)
	// Impersonates records that the rest of the request is on behalf of u, and the verb that allowed it unless that is
	// "impersonate".
	Impersonates(u *user.Info, constraint string)
	// Decided records whether the request is authorized, and the reason.
	Decided(allowed bool, reason string)
	// Annotate adds an annotation from a step of the request. The first value of a key is kept.
	Annotate(key, value string)
	// Started records that the response to a long-running request has begun.
	Started(code int)
	// Done ends the trail.
	Done(Outcome)
}

// Outcome is the result of a request.
type Outcome struct {
	Code int
	// Panicked is set if the handler panicked.
	Panicked bool
	// Status is set if the response is an error.
	Status *metav1.Status
	// Request and Answer are the bodies in JSON. They are nil if they are not wanted, missing, or
	// not objects.
	Request, Answer json.RawMessage
}

// auditing is the audit of one request. Nothing in it is set without a trail.
type auditing struct {
	trail Trail
	// attempted describes the credentials of a client that was refused.
	attempted string
	// wantsRequest says that the trail wants the request's body, which is shared with the
	// handler and must not be changed.
	wantsRequest bool
	request      []byte
}

// beginAudit begins the trail of a request by u, which may be nil.
func (c *call) beginAudit(u *user.Info) {
	trail := c.server.config.Auditor.Begin(c.r, c.info.Attributes(u))
	if trail == nil {
		return
	}
	c.audit.trail = trail
	c.w.Header().Set("Audit-Id", trail.ID())
	if c.longRunning {
		c.w.started = trail.Started
		return
	}
	request, answer := trail.Wants()
	c.audit.wantsRequest = request
	if answer {
		c.w.answer = &bytes.Buffer{}
	}
}

// annotate adds to the request's audit event, if there is one.
func (c *call) annotate(key, value string) {
	if c.audit.trail != nil {
		c.audit.trail.Annotate(key, value)
	}
}

// endAudit ends the trail of the request.
func (c *call) endAudit(panicked bool) {
	w := &c.w
	if c.audit.trail == nil {
		return
	}
	out := Outcome{Code: w.code, Panicked: panicked, Status: w.status}
	if c.audit.attempted != "" && w.status != nil {
		recorded := *w.status
		recorded.Message = c.audit.attempted // the client does not get it
		out.Status = &recorded
	}
	if len(c.audit.request) > 0 {
		out.Request = c.asJSON(wire.ContentType(c.r), c.audit.request)
	}
	if w.answer != nil && w.answer.Len() > 0 && w.answer.Len() <= maxAudited {
		data := w.answer.Bytes()
		if w.Header().Get("Content-Encoding") == "gzip" {
			data = gunzip(data)
		}
		media, _, _ := strings.Cut(w.Header().Get("Content-Type"), ";")
		out.Answer = c.asJSON(media, data)
	}
	c.audit.trail.Done(out)
}

func gunzip(data []byte) []byte {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil
	}
	data, err = io.ReadAll(io.LimitReader(z, maxAudited+1))
	if err != nil || len(data) > maxAudited {
		return nil
	}
	return data
}

// asJSON writes an object of the request's kind, or about it, as JSON, whatever it is
// written in; nil where that cannot be done.
func (c *call) asJSON(media string, data []byte) json.RawMessage {
	switch {
	case bytes.HasPrefix(data, wire.ProtoMagic) && c.kind != nil:
		data = c.protoAsJSON(data)
	case strings.HasSuffix(media, "cbor"):
		text, err := wire.CBORToJSON(data, maxAudited)
		if err != nil {
			return nil
		}
		data = text
	case strings.HasSuffix(media, "yaml"):
		text, _, err := wire.YAMLToJSON(context.Background(), data, false)
		if err != nil {
			return nil
		}
		data = text
	}
	if !json.Valid(data) {
		return nil
	}
	return data
}

func (c *call) protoAsJSON(data []byte) []byte {
	unknown := &runtime.Unknown{}
	if err := unknown.Unmarshal(data[len(wire.ProtoMagic):]); err != nil {
		return nil
	}
	var obj runtime.Object
	k, codec := c.kind, c.server.codec
	sub := k.subresource(c.info.Subresource)
	switch {
	case sub != nil && sub.newBody != nil && unknown.Kind == k.subKind(sub).Kind:
		obj = sub.newBody()
	case unknown.Kind == k.Kind:
		obj = k.New()
	case unknown.Kind == k.ListKind && k.NewList != nil:
		obj = k.NewList()
	case unknown.Kind == "Status":
		obj = &metav1.Status{}
	case unknown.Kind == "DeleteOptions":
		obj = &metav1.DeleteOptions{}
	default:
		return nil
	}
	if codec.Affordable(context.Background(), data, wire.Proto, obj) != nil {
		return nil
	}
	if err := codec.DecodeProto(data, obj); err != nil {
		return nil
	}
	text, err := codec.Encode(wire.JSON, obj)
	if err != nil {
		return nil
	}
	return text
}
