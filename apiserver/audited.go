package apiserver

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// maxAudited bounds the answers that are kept for an audit; longer ones are left
// out of it.
const maxAudited = 16 << 20

// An Auditor writes down who asked for what. Package audit has one. Its methods
// are called by many goroutines.
type Auditor interface {
	// Begin is told of a request as soon as it is known who asks; a.User is nil
	// where that is not known. The trail that it returns is told how the request
	// goes on; nil records nothing.
	Begin(r *http.Request, a authz.Attributes) Trail
}

// A Trail follows one request. It is used by one goroutine at a time.
type Trail interface {
	// ID is what the client is told in Audit-Id.
	ID() string
	// Wants says whether Done is to get the bodies of request and answer.
	Wants() (request, answer bool)
	// Impersonates tells as whom the request goes on.
	Impersonates(u *user.Info)
	// Decided tells whether the request may go on, and why.
	Decided(allowed bool, reason string)
	// Annotate tells what somebody on the way has to say about the request. What the
	// trail has under a key stays.
	Annotate(key, value string)
	// Started tells that the answer to a long-running request has begun.
	Started(code int)
	// Done ends the trail.
	Done(Outcome)
}

// Outcome is how a request ended.
type Outcome struct {
	Code int
	// Panicked says that the handler did not end by itself.
	Panicked bool
	// Status is set where the answer was an error.
	Status *metav1.Status
	// Request and Answer are the bodies as JSON, nil where they are not wanted, not
	// there or not objects.
	Request, Answer json.RawMessage
}

// identified asks identify who sent r, and begins the trail with what it says.
func (s *Server) identified(w *recorder, r *http.Request, info requestInfo, identify func(*http.Request) (*user.Info, error)) (*user.Info, error) {
	if s.config.Auditor == nil {
		return identify(r)
	}
	ctx, annotations := authn.CollectAnnotations(r.Context())
	u, err := identify(r.WithContext(ctx))
	s.audit(w, r, info, u)
	if w.trail == nil {
		return u, err
	}
	for _, one := range annotations() {
		w.trail.Annotate(one.Key, one.Value)
	}
	if err != nil {
		w.attempted = attempted(r)
	}
	return u, err
}

// attempted tells the audit how a client that was refused has tried to come in, in
// kube-apiserver's words.
func attempted(r *http.Request) string {
	var ways []string
	if _, _, ok := r.BasicAuth(); ok {
		ways = append(ways, "basic")
	}
	if scheme, _, more := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " "); more && strings.EqualFold(scheme, "bearer") {
		ways = append(ways, "bearer")
	}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		ways = append(ways, "x509")
	}
	if len(ways) == 0 {
		return "Authentication failed, no credentials provided"
	}
	return "Authentication failed, attempted: " + strings.Join(ways, ", ")
}

// audit begins the trail of a request by u, which may be nil.
func (s *Server) audit(w *recorder, r *http.Request, info requestInfo, u *user.Info) {
	if s.config.Auditor == nil {
		return
	}
	if w.trail = s.config.Auditor.Begin(r, info.attributes(u)); w.trail == nil {
		return
	}
	w.Header().Set("Audit-Id", w.trail.ID())
	w.streams = s.longRunning(info)
	request, answer := w.trail.Wants()
	w.hears = request && !w.streams
	if answer && !w.streams {
		w.answer = &bytes.Buffer{}
	}
}

// audited ends the trail of a request.
func (s *Server) audited(w *recorder, r *http.Request, info requestInfo, panicked bool) {
	if w.trail == nil {
		return
	}
	out := Outcome{Code: w.code, Panicked: panicked, Status: w.status}
	if w.attempted != "" && w.status != nil {
		told := *w.status
		told.Message = w.attempted // which the client is not told
		out.Status = &told
	}
	k := s.kinds[info.gvr()]
	if len(w.request) > 0 {
		out.Request = s.asJSON(k, info, contentType(r), w.request)
	}
	if w.answer != nil && w.answer.Len() > 0 && w.answer.Len() <= maxAudited {
		data := w.answer.Bytes()
		if w.Header().Get("Content-Encoding") == "gzip" {
			data = gunzip(data)
		}
		media, _, _ := strings.Cut(w.Header().Get("Content-Type"), ";")
		out.Answer = s.asJSON(k, info, media, data)
	}
	w.trail.Done(out)
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

// asJSON writes an object of kind k, or about it, as JSON, whatever it is
// written in; nil where that cannot be done.
func (s *Server) asJSON(k *kind, info requestInfo, media string, data []byte) json.RawMessage {
	switch {
	case bytes.HasPrefix(data, protoMagic) && k != nil:
		data = s.protoAsJSON(k, info, data)
	case strings.HasSuffix(media, "yaml"):
		text, _, err := yamlToJSON(context.Background(), data, false)
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

func (s *Server) protoAsJSON(k *kind, info requestInfo, data []byte) []byte {
	unknown := &runtime.Unknown{}
	if err := unknown.Unmarshal(data[len(protoMagic):]); err != nil {
		return nil
	}
	var obj runtime.Object
	sub := k.subresource(info.Subresource)
	switch {
	case sub != nil && sub.New != nil && unknown.Kind == k.subKind(sub).Kind:
		obj = sub.New()
	case unknown.Kind == k.Kind:
		obj = k.New()
	case unknown.Kind == k.Kind+"List" && k.NewList != nil:
		obj = k.NewList()
	case unknown.Kind == "Status":
		obj = &metav1.Status{}
	case unknown.Kind == "DeleteOptions":
		obj = &metav1.DeleteOptions{}
	default:
		return nil
	}
	if s.codec.affordable(context.Background(), data, mediaProto, obj) != nil {
		return nil
	}
	if _, _, err := s.codec.proto.Decode(data, nil, obj); err != nil {
		return nil
	}
	text, err := s.codec.encode(mediaJSON, obj)
	if err != nil {
		return nil
	}
	return text
}
