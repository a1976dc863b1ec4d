package apiserver

import (
	"net/http"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/apiserver/internal/requestline"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
)

// update replaces the object, or what a subresource shows of it.
func (s *Server) update(q *request) error {
	var o metav1.UpdateOptions
	if err := requestline.Options(q.r.URL.Query(), &o); err != nil {
		return err
	}
	q.options = &o
	if err := requestline.Invalid("UpdateOptions", metavalidation.ValidateUpdateOptions(&o)); err != nil {
		return err
	}
	body := q.newBody()
	if err := q.decode(s, o.FieldValidation, body); err != nil {
		return err
	}
	if err := q.sameObject(body); err != nil {
		return err
	}
	return s.change(q, o.FieldManager, len(o.DryRun) > 0, func(runtime.Object) (runtime.Object, error) {
		return body.DeepCopyObject(), nil
	})
}

// change edits the object to what next makes of the request's view of it and
// answers with the new view.
func (s *Server) change(q *request, manager string, dryRun bool, next func(view runtime.Object) (runtime.Object, error)) error {
	e := edit{apply: next, tracks: true, manager: manager, dryRun: dryRun}
	view, isView := as[View](q.sub)
	if isView {
		e.admitted = true
		e.apply = func(old runtime.Object) (runtime.Object, error) { return s.changeView(q, view, dryRun, old, next) }
	}
	obj, err := s.edit(q, e)
	if err != nil {
		return err
	}
	if isView {
		if obj, err = q.show(view, obj); err != nil {
			return err
		}
	}
	return s.responder.respond(q, http.StatusOK, obj)
}

// changeView lets next change the subresource's view of old, asks admission
// about the view and returns the object which the view demands.
func (s *Server) changeView(q *request, v View, dryRun bool, old runtime.Object, next func(runtime.Object) (runtime.Object, error)) (runtime.Object, error) {
	view, err := q.show(v, old)
	if err != nil {
		return nil, err
	}
	body, err := next(view)
	if err != nil {
		return nil, err
	}
	in := q.admissionRequest(admission.Update, body, view, dryRun)
	if err := s.admitter.mutate(q, in); err != nil {
		return nil, err
	}
	if err := s.admitter.validate(q, in); err != nil {
		return nil, err
	}
	return q.intoParent(v, old, admitted(in))
}

// intoParent returns a copy of old changed as body, of the subresource's type,
// demands, on body's conditions of uid and resourceVersion.
func (q *request) intoParent(v View, old, body runtime.Object) (runtime.Object, error) {
	obj := old.DeepCopyObject()
	if err := v.Into(obj, body); err != nil {
		return nil, err
	}
	to, from := accessor(obj), accessor(body)
	to.SetResourceVersion(from.GetResourceVersion())
	to.SetUID(from.GetUID())
	return obj, nil
}

// ownType reports whether the request is for a subresource of its own type.
func (q *request) ownType() bool { return q.sub != nil && q.sub.newBody != nil }

func (q *request) newBody() runtime.Object {
	if q.ownType() {
		return q.sub.newBody()
	}
	return q.kind.New()
}

// sameObject checks that the body is about the object in the URL.
func (q *request) sameObject(body runtime.Object) error {
	m := accessor(body)
	if m.GetName() == "" && q.ownType() {
		m.SetName(q.info.Name)
	}
	return q.sameName(m)
}

// sameName checks name and namespace against the URL, and completes the latter.
func (q *request) sameName(m metav1.Object) error {
	if m.GetName() != q.info.Name {
		if m.GetName() == "" {
			return badRequest("the name of the object (%s based on URL) was undeterminable: name must be provided", q.info.Name)
		}
		return badRequest("the name of the object (%s) does not match the name on the URL (%s)", m.GetName(), q.info.Name)
	}
	return q.sameNamespace(m)
}

// sameNamespace checks the namespace against the URL, and completes it.
func (q *request) sameNamespace(m metav1.Object) error {
	if ns := m.GetNamespace(); ns != "" && ns != q.info.Namespace {
		return badRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	m.SetNamespace(q.info.Namespace)
	return nil
}
