package apiserver

import (
	"errors"

	"github.com/planekit/planekit/admission"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// mutate runs the mutating half of admission and completes what it left.
func (s *Server) mutate(q *request, in *admission.Request) error {
	if s.config.Admission == nil {
		return nil
	}
	if err := s.config.Admission.Mutate(q.r.Context(), in); err != nil {
		return refused(q, in, err)
	}
	if complete := q.kind.Strategy.Default; complete != nil && in.Object != nil && (q.sub == nil || q.sub.New == nil) {
		complete(in.Object)
	}
	return nil
}

// validate runs the validating half of admission.
func (s *Server) validate(q *request, in *admission.Request) error {
	if s.config.Admission == nil {
		return nil
	}
	if err := s.config.Admission.Validate(q.r.Context(), in); err != nil {
		return refused(q, in, err)
	}
	return nil
}

// refused makes a plugin's error an API error: those that are one already pass,
// all others mean that the request is forbidden.
func refused(q *request, in *admission.Request, err error) error {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return err
	}
	return apierrors.NewForbidden(q.kind.gr, in.Name, err)
}
