package apiserver

import (
	"net/http"

	"github.com/planekit/planekit/admission"
	"k8s.io/apimachinery/pkg/runtime"
)

// answerSub serves a subresource which is a question: the object is read, and
// stays as it is.
func (s *Server) answerSub(q *request, body runtime.Object, dryRun bool) error {
	m := accessor(body)
	if err := q.sameNamespace(m); err != nil {
		return err
	}
	if m.GetName() == "" {
		m.SetName(q.info.Name)
	}
	i, err := s.read(q.r.Context(), q, "")
	if err != nil {
		return err
	}
	in := q.admissionRequest(admission.Create, body, nil, dryRun)
	if err := s.mutate(q, in); err != nil {
		return err
	}
	if err := s.validate(q, in); err != nil {
		return err
	}
	reply, err := q.sub.Answer(q.answering(), i.Object.Object, admitted(in))
	if err != nil {
		return err
	}
	reply.GetObjectKind().SetGroupVersionKind(q.bodyKind())
	return s.respond(q, http.StatusCreated, reply)
}
