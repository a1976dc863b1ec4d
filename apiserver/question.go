package apiserver

import (
	"context"
	"net/http"

	"github.com/planekit/planekit/admission"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

// answeringKey is the key of the request that a context is for.
type answeringKey struct{}

// answering is the context of q for an Answer, which may have to say more than
// what it returns.
func (q *request) answering() context.Context {
	return context.WithValue(q.r.Context(), answeringKey{}, q)
}

// Annotate adds to the audit of a request that is being answered: ctx is that of
// an Answer, of a resource or a subresource. Without an audit, and with any other
// context, it does nothing. Neither key nor value may contain a credential.
func Annotate(ctx context.Context, key, value string) {
	if q, ok := ctx.Value(answeringKey{}).(*request); ok {
		q.annotate(key, value)
	}
}

// Warn tells the client something beside the answer, as a Warning header that
// kubectl shows. ctx is that of an Answer; with any other it does nothing.
func Warn(ctx context.Context, text string) {
	if q, ok := ctx.Value(answeringKey{}).(*request); ok {
		q.warn(text)
	}
}

// answer serves a resource which is a question: nothing is stored.
func (s *Server) answer(q *request, obj runtime.Object, dryRun bool) error {
	accessor(obj).SetNamespace(q.info.Namespace)
	in := q.admissionRequest(admission.Create, obj, nil, dryRun)
	if err := s.admitter.mutate(q, in); err != nil {
		return err
	}
	if check := q.kind.Strategy.Validate; check != nil {
		if errs := check(q.r.Context(), admitted(in)); len(errs) > 0 {
			return apierrors.NewInvalid(q.kind.gvk.GroupKind(), "", errs)
		}
	}
	if err := s.admitter.validate(q, in); err != nil {
		return err
	}
	reply, err := q.kind.Answer(q.answering(), admitted(in))
	if err != nil {
		return err
	}
	reply.GetObjectKind().SetGroupVersionKind(q.kind.gvk)
	return s.responder.respond(q, http.StatusCreated, reply)
}

// createQuestion answers the body. The object is read, and stays as it is.
func (s *Server) createQuestion(q *request, u Question) error {
	body, dryRun, err := s.readCreate(q)
	if err != nil {
		return err
	}
	m := accessor(body)
	if err := q.sameNamespace(m); err != nil {
		return err
	}
	if m.GetName() == "" {
		m.SetName(q.info.Name)
	}
	i, err := s.reader.read(q.r.Context(), q, "")
	if err != nil {
		return err
	}
	if body, err = s.admitCreate(q, body, dryRun); err != nil {
		return err
	}
	reply, err := u.Answer(q.answering(), i.Object.Object, body)
	if err != nil {
		return err
	}
	reply.GetObjectKind().SetGroupVersionKind(q.bodyKind())
	return s.responder.respond(q, http.StatusCreated, reply)
}
