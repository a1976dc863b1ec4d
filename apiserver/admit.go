package apiserver

import (
	"errors"
	"fmt"

	"github.com/planekit/planekit/admission"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// mutate runs the mutating half of admission and completes what it left.
func (s *Server) mutate(q *request, in *admission.Request) error {
	if s.config.Admission == nil {
		return nil
	}
	if err := s.config.Admission.Mutate(q.r.Context(), in); err != nil {
		return refused(q, in, err)
	}
	if in.Object == nil {
		return nil
	}
	obj, ok := in.Object.(runtime.Object)
	if !ok {
		return fmt.Errorf("admission made a %T of the object", in.Object)
	}
	if complete := q.kind.Strategy.Default; complete != nil && (q.sub == nil || q.sub.New == nil) {
		complete(obj)
	}
	return nil
}

// admitted is the object as mutate has left it.
func admitted(in *admission.Request) runtime.Object { return in.Object.(runtime.Object) }

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
	var forbidden *admission.ForbiddenError
	if errors.As(err, &forbidden) { // whatever it is because of
		return apierrors.NewForbidden(schema.GroupResource{Group: forbidden.Group, Resource: forbidden.Resource}, forbidden.Name, forbidden.Err)
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return err
	}
	return apierrors.NewForbidden(q.kind.gr, in.Name, err)
}
