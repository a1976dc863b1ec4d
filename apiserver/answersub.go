package apiserver

import (
	"errors"
	"net/http"
	"slices"

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

// checkAnswer finds subresources with Answer that would fail when they are used.
func (s *Subresource) checkAnswer() error {
	if s.New == nil || !slices.Equal(s.Verbs, []string{"create"}) {
		return errors.New("what has Answer needs New and serves create alone")
	}
	return nil
}
