package apiserver

import (
	"net/http"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/apiserver/internal/requestline"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
)

// readCreate reads the options and the body of a POST to a subresource.
func (s *Server) readCreate(q *request) (body runtime.Object, dryRun bool, err error) {
	var o metav1.CreateOptions
	if err := requestline.Options(q.r.URL.Query(), &o); err != nil {
		return nil, false, err
	}
	q.options = &o
	if err := requestline.Invalid("CreateOptions", metavalidation.ValidateCreateOptions(&o)); err != nil {
		return nil, false, err
	}
	body = q.newBody()
	return body, len(o.DryRun) > 0, q.decode(s, o.FieldValidation, body)
}

// admitCreate returns the body as admission has left it.
func (s *Server) admitCreate(q *request, body runtime.Object, dryRun bool) (runtime.Object, error) {
	in := q.admissionRequest(admission.Create, body, nil, dryRun)
	if err := s.admitter.mutate(q, in); err != nil {
		return nil, err
	}
	if err := s.admitter.validate(q, in); err != nil {
		return nil, err
	}
	return admitted(in), nil
}

// readAdmitted reads and admits the body of a create that acts on an existing object.
func (s *Server) readAdmitted(q *request) (body runtime.Object, dryRun bool, err error) {
	body, dryRun, err = s.readCreate(q)
	if err == nil {
		err = q.sameObject(body)
	}
	if err == nil {
		body, err = s.admitCreate(q, body, dryRun)
	}
	return body, dryRun, err
}

// createView changes the object as the body demands: a binding.
func (s *Server) createView(q *request, v View) error {
	body, dryRun, err := s.readAdmitted(q)
	if err != nil {
		return err
	}
	obj, err := s.edit(q, edit{admitted: true, dryRun: dryRun, apply: func(old runtime.Object) (runtime.Object, error) {
		return q.intoParent(v, old, body)
	}})
	if err != nil {
		return err
	}
	if v.From == nil {
		s.responder.created(q)
		return nil
	}
	if obj, err = q.show(v, obj); err != nil {
		return err
	}
	return s.responder.respond(q, http.StatusCreated, obj)
}

// createDeletion deletes the object as the body demands: an eviction.
func (s *Server) createDeletion(q *request, d Deletion) error {
	body, dryRun, err := s.readAdmitted(q)
	if err == nil {
		err = s.deleteThrough(q, d, body, dryRun)
	}
	if err != nil {
		return err
	}
	s.responder.created(q)
	return nil
}

// deleteThrough deletes the request's object as d demands. It asks d again if the object has
// changed in between, but never deletes a later object of the same name.
func (s *Server) deleteThrough(q *request, d Deletion, body runtime.Object, dryRun bool) error {
	one := *q
	one.sub = nil
	for {
		before, err := s.reader.read(q.r.Context(), &one, "")
		if err != nil {
			return err
		}
		parent := before.Object.Object
		o, conflict := d.Delete(q.r.Context(), parent, body, objectsIn{s, q.info.Namespace, dryRun})
		if conflict == nil {
			o = o.DeepCopy()
			if dryRun {
				o.DryRun = []string{metav1.DryRunAll}
			}
			if o.Preconditions == nil {
				o.Preconditions = &metav1.Preconditions{}
			}
			if o.Preconditions.UID == nil {
				o.Preconditions.UID = new(accessor(parent).GetUID())
			}
			_, _, conflict = s.remove(&one, o)
		}
		if !apierrors.IsConflict(conflict) {
			return conflict
		}
		now, err := s.reader.read(q.r.Context(), &one, "")
		if err != nil {
			return err
		}
		if accessor(now.Object.Object).GetUID() != accessor(parent).GetUID() || now.Revision == before.Revision {
			return conflict
		}
	}
}

// created answers a create after which there is nothing to show.
func (p *responder) created(q *request) {
	p.write(q.w, q.r, http.StatusCreated, q.out, &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusSuccess, Code: http.StatusCreated,
	})
}
