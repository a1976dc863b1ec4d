package apiserver

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/storage"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// request is one authorized request for a resource.
type request struct {
	w    http.ResponseWriter
	r    *http.Request
	info requestInfo
	kind *kind
	sub  *subresource // nil for the object itself
	user *user.Info
	out  output
	// options are those of a write, such as a *metav1.CreateOptions.
	options any

	// sent is what the request says of initializers; was is what its object waits
	// for and state what it waits for after the request, as it is shown.
	sent       sent
	was, state *initializers

	warned *warnings // nil is none yet
}

// warn tells the client something beside the answer.
func (q *request) warn(text string) {
	if q.warned == nil {
		q.warned = &warnings{}
	}
	q.warned.add(q.w.Header(), text)
}

func (q *request) accepts() accepts {
	proto := q.kind.proto
	if q.sub != nil && q.sub.New != nil {
		proto = canProto(q.sub.New())
	}
	return accepts{proto: proto, tables: true, noYAML: q.info.Verb == "watch"}
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
		return &q.sub.Strategy
	}
	return &q.kind.Strategy
}

func (q *request) key() storage.Key { return q.kind.key(q.info.Namespace, q.info.Name) }

// decode reads the body as an object of the request's kind.
func (q *request) decode(s *Server, validation string, into runtime.Object) error {
	data, err := q.body()
	if err != nil {
		return err
	}
	if err := q.hear(s, data, contentType(q.r)); err != nil {
		return err
	}
	return q.decodeFrom(s, data, contentType(q.r), validation, into)
}

func (q *request) decodeFrom(s *Server, data []byte, media, validation string, into runtime.Object) error {
	want := q.bodyKind()
	unknown, err := s.codec.decodeBody(q.r.Context(), data, media, validation, want, into)
	if err != nil {
		return err
	}
	unknown = q.unknownBut(unknown)
	if len(unknown) > 0 && validation == metav1.FieldValidationStrict {
		return strictError(want, unknown)
	}
	if validation != metav1.FieldValidationIgnore {
		q.warnUnknown(unknown)
	}
	into.GetObjectKind().SetGroupVersionKind(want)
	return nil
}

// warnUnknown warns of fields that are unknown or come twice. The YAML parser
// tells of all in one error of several lines.
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

// admissionRequest describes the request to admission plugins.
func (q *request) admissionRequest(op admission.Operation, obj, old runtime.Object, dryRun bool) *admission.Request {
	in := &admission.Request{
		Operation:   op,
		Resource:    admission.GroupVersionResource(q.kind.gvr),
		Kind:        admission.GroupVersionKind(q.bodyKind()),
		Subresource: q.info.Subresource,
		Namespace:   q.info.Namespace,
		Name:        q.info.Name,
		User:        q.user,
		DryRun:      dryRun,
		Options:     q.options,
		Warn:        q.warn,
		Annotate:    q.annotate,
	}
	if q.audited() {
		in.AnnotateBody = q.annotate
	}
	if obj != nil { // or else it would be no nil
		in.Object = obj
	}
	if old != nil {
		in.OldObject = old
	}
	return in
}

// annotate adds to the request's audit event, if there is one.
func (q *request) annotate(key, value string) {
	if r, ok := q.w.(*recorder); ok && r.trail != nil {
		r.trail.Annotate(key, value)
	}
}

// audited reports whether the request's audit event has its body.
func (q *request) audited() bool {
	r, ok := q.w.(*recorder)
	if !ok || r.trail == nil {
		return false
	}
	body, _ := r.trail.Wants()
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
