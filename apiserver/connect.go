package apiserver

import (
	"context"
	"net/http"
	"strings"

	"github.com/planekit/planekit/admission"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

// connect leads a request to what runs behind the object. It ends with the
// server, like a watch.
func (s *Server) connect(q *request) error {
	if q.sub.Paths {
		q.info.Name = plainName(q.info.Name)
	}
	i, err := s.read(q.r.Context(), q, "")
	if err != nil {
		return err
	}
	obj := i.Object.Object
	in := q.admissionRequest(admission.Connect, nil, obj, false)
	if err := s.mutate(q, in); err != nil {
		return err
	}
	if err := s.validate(q, in); err != nil {
		return err
	}
	handler, err := q.sub.Connect(obj)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(q.r.Context())
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)()
	unhurry(q.w)
	handler.ServeHTTP(q.w, q.r.WithContext(ctx))
	return nil
}

// plainName is the name of the object in NAME, NAME:PORT and SCHEME:NAME:PORT.
// Authorization has seen all of it, as in Kubernetes.
func plainName(name string) string {
	switch parts := strings.Split(name, ":"); len(parts) {
	case 2:
		return parts[0]
	case 3:
		return parts[1]
	}
	return name
}

// answer serves a resource which is a question: nothing is stored.
func (s *Server) answer(q *request, obj runtime.Object, dryRun bool) error {
	accessor(obj).SetNamespace(q.info.Namespace)
	in := q.admissionRequest(admission.Create, obj, nil, dryRun)
	if err := s.mutate(q, in); err != nil {
		return err
	}
	if check := q.kind.Strategy.Validate; check != nil {
		if errs := check(q.r.Context(), admitted(in)); len(errs) > 0 {
			return apierrors.NewInvalid(q.kind.gvk.GroupKind(), "", errs)
		}
	}
	if err := s.validate(q, in); err != nil {
		return err
	}
	reply, err := q.kind.Answer(q.answering(), admitted(in))
	if err != nil {
		return err
	}
	reply.GetObjectKind().SetGroupVersionKind(q.kind.gvk)
	return s.respond(q, http.StatusCreated, reply)
}
