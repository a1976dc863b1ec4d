package apiserver

import (
	"context"
	"strings"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/apiserver/internal/intake"
)

// connect leads a request to what runs behind the object. It ends with the
// server, like a watch.
func (s *Server) connect(q *request, p Proxy) error {
	if p.Paths {
		q.info.Name = plainName(q.info.Name)
	}
	i, err := s.reader.read(q.r.Context(), q, "")
	if err != nil {
		return err
	}
	obj := i.Object.Object
	in := q.admissionRequest(admission.Connect, nil, obj, false)
	if err := s.admitter.mutate(q, in); err != nil {
		return err
	}
	if err := s.admitter.validate(q, in); err != nil {
		return err
	}
	handler, err := p.Connect(obj)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(q.r.Context())
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)()
	intake.RemoveReadDeadline(q.w)
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
