package apiserver

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/planekit/planekit/apiserver/internal/requestline"
	"github.com/planekit/planekit/apiserver/internal/warning"
	"github.com/planekit/planekit/apiserver/internal/wire"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/storage"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// request is one authorized request for a resource.
type request struct {
	call *call
	w    http.ResponseWriter
	r    *http.Request
	info requestline.Info
	kind *servedKind
	sub  *subresource // nil for the object itself
	user *user.Info
	out  wire.Output
	// options holds the options of a write, such as a *metav1.CreateOptions.
	options any

	hiding hiding
	// unnamed says that an applied configuration has no name, which an object that exists does not need.
	unnamed bool

	warned *warning.Headers // nil is none yet
}

// warn tells the client something beside the answer.
func (q *request) warn(text string) {
	if q.warned == nil {
		q.warned = &warning.Headers{}
	}
	q.warned.Add(q.w.Header(), text)
}

func (q *request) accepts() wire.Accepts {
	proto := q.kind.proto
	if q.ownType() {
		proto = wire.CanProto(q.sub.newBody())
	}
	return wire.Accepts{Proto: proto, Tables: !q.ownType() && q.kind.Answer == nil, Parts: true, CBOR: true, Stream: q.info.Verb == "watch", Lists: q.info.Verb == "list" || q.info.Verb == "watch"}
}

// bodyKind is the kind that the request's body and response are of.
func (q *request) bodyKind() schema.GroupVersionKind {
	if q.sub != nil {
		return q.kind.subKind(q.sub)
	}
	return q.kind.gvk
}

// strategy completes and checks the stored object in this request.
func (q *request) strategy() *Strategy {
	if q.sub != nil {
		return q.sub.strategy()
	}
	return &q.kind.Strategy
}

func (q *request) key() storage.Key { return q.kind.key(q.info.Namespace, q.info.Name) }

// decode reads the body as an object of the request's kind.
func (q *request) decode(s *Server, validation string, into runtime.Object) error {
	data := q.body()
	if err := s.initializing.read(q, data, wire.ContentType(q.r)); err != nil {
		return err
	}
	return q.decodeFrom(s, data, wire.ContentType(q.r), validation, into)
}

func (q *request) decodeFrom(s *Server, data []byte, media, validation string, into runtime.Object) error {
	want := q.bodyKind()
	deletion, _ := as[Deletion](q.sub)
	unknown, err := s.codec.DecodeBody(q.r.Context(), data, media, validation, want, into, deletion.Older...)
	if err != nil {
		return err
	}
	unknown = q.hiding.said.Known(unknown)
	if len(unknown) > 0 && validation == metav1.FieldValidationStrict {
		return wire.StrictError(want, unknown)
	}
	if validation != metav1.FieldValidationIgnore {
		q.warnUnknown(unknown)
	}
	into.GetObjectKind().SetGroupVersionKind(want)
	if q.ownType() || q.kind.Answer != nil || q.kind.converter != nil {
		return nil
	}
	_, err = q.kind.toStored(q.r.Context(), into) // so that admission sees only what can be stored
	return err
}

// warnUnknown warns of fields that are unknown or come twice. The YAML parser
// reports all of them in one error of several lines.
func (q *request) warnUnknown(unknown []error) {
	for _, field := range unknown {
		text := strings.TrimPrefix(strings.TrimPrefix(field.Error(), "yaml: "), "unmarshal errors:")
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" {
				q.warn(line)
			}
		}
	}
}

// waited adds to the time in which the request waited for webhooks.
func (q *request) waited(d time.Duration) { q.call.summary.WebhookTime += d }

// annotate adds to the request's audit event, if there is one.
func (q *request) annotate(key, value string) { q.call.annotate(key, value) }

// audited reports whether the request's audit event has its body.
func (q *request) audited() bool {
	if q.call.audit.trail == nil {
		return false
	}
	body, _ := q.call.audit.trail.Wants()
	return body
}

func formatRevision(revision storage.Revision) string {
	if revision == 0 {
		return ""
	}
	return strconv.FormatInt(int64(revision), 10)
}

// parseRevision reads a resourceVersion; empty is zero.
func parseRevision(text string) (storage.Revision, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || strings.HasPrefix(text, "+") {
		return 0, badRequest("Invalid value: %q: resourceVersion must be a decimal number", text)
	}
	return storage.Revision(n), nil
}
