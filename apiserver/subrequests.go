package apiserver

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/apiserver/internal/intake"
	"github.com/planekit/planekit/apiserver/internal/requestline"
	"github.com/planekit/planekit/internal/invalid"
	"github.com/planekit/planekit/storage"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
		if _, ok := as[Deletion](q.sub); ok {
			wipe(accessor(body)) // what a View gets may be a condition
		}
		err = q.namesObject(accessor(body))
	}
	if err == nil {
		body, err = s.admitCreate(q, body, dryRun)
	}
	return body, dryRun, err
}

// namesObject checks that the body of a create that acts on an existing object names it. As in Kubernetes, a body without a name
// is refused too.
func (q *request) namesObject(m metav1.Object) error {
	if m.GetName() != q.info.Name {
		return badRequest("name in URL does not match name in %s object", q.bodyKind().Kind)
	}
	return q.sameNamespace(m)
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
	if obj, err = q.show(v.From, obj); err != nil {
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
		o, conflict := d.Delete(q.r.Context(), parent, body, objectsIn{q.call.catalog, s.config.Store, q.info.Namespace, dryRun})
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

// objectsIn is the Namespace of a server. In a dry run it changes nothing.
type objectsIn struct {
	catalog   *catalog
	store     storage.Store
	namespace string
	dryRun    bool
}

func (o objectsIn) List(ctx context.Context, group, plural string) ([]runtime.Object, error) {
	k := o.catalog.storedKind(group, plural)
	if k == nil {
		return nil, nil
	}
	page, err := o.store.List(ctx, storage.Key(k.under(o.namespace)), storage.ListOptions{})
	if err != nil {
		return nil, err
	}
	var out []runtime.Object
	for _, record := range page.Records {
		i, err := k.current(ctx, record)
		if err != nil {
			return nil, err
		}
		if i.Object.hidden == nil {
			out = append(out, i.Object.Object)
		}
	}
	return out, nil
}

func (o objectsIn) Get(ctx context.Context, group, plural, name string) (runtime.Object, error) {
	resource := schema.GroupResource{Group: group, Resource: plural}
	k := o.catalog.storedKind(group, plural)
	if k == nil {
		return nil, apierrors.NewNotFound(resource, name)
	}
	record, err := o.store.Get(ctx, k.key(o.namespace, name), 0)
	if err != nil {
		return nil, storageError(err, resource, name)
	}
	i, err := k.current(ctx, record)
	if err != nil {
		return nil, err
	}
	if i.Object.hidden != nil {
		return nil, apierrors.NewNotFound(resource, name)
	}
	return i.Object.Object, nil
}

func (o objectsIn) Update(ctx context.Context, group, plural string, obj runtime.Object) error {
	k, m := o.catalog.storedKind(group, plural), accessor(obj)
	if k == nil {
		return apierrors.NewNotFound(schema.GroupResource{Group: group, Resource: plural}, m.GetName())
	}
	revision, err := parseRevision(m.GetResourceVersion())
	if err != nil || o.dryRun {
		return err
	}
	data, err := k.encode(ctx, obj)
	if err != nil {
		return err
	}
	if obj, err = k.asStored(ctx, obj, data); err != nil {
		return err
	}
	change := storage.Change{Op: storage.Update, Key: k.key(o.namespace, m.GetName()), Value: data, Previous: revision}
	written, err := o.store.Commit(ctx, change)
	if errors.Is(err, storage.ErrConflict) || errors.Is(err, storage.ErrNotFound) {
		return storageError(err, k.gr, m.GetName())
	}
	if err == nil {
		k.standAt(obj, written.Revision)
		k.cache.put(change.Key, written.Revision, obj, nil)
	}
	return err
}

// created answers a create after which there is nothing to show.
func (p *responder) created(q *request) {
	p.Object(q.w, q.r, http.StatusCreated, q.out, &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusSuccess, Code: http.StatusCreated,
	})
}

// answeringKey is the key of the request that a context is for.
type answeringKey struct{}

// answering is the context of q for an Answer or a strategy, which may have to say more than
// what it returns.
func (q *request) answering() context.Context {
	return context.WithValue(q.r.Context(), answeringKey{}, q)
}

// Annotate adds to the audit of a request that is being answered: ctx is that of
// an Answer, of a resource or a subresource, or of a Strategy. Without an audit, and with any other
// context, it does nothing. Neither key nor value may contain a credential.
func Annotate(ctx context.Context, key, value string) {
	if q, ok := ctx.Value(answeringKey{}).(*request); ok {
		q.annotate(key, value)
	}
}

// Warn adds a Warning header to the response, which kubectl shows. ctx is that of an Answer or a Strategy; Warn
// does nothing with any other context.
func Warn(ctx context.Context, text string) {
	if q, ok := ctx.Value(answeringKey{}).(*request); ok {
		q.warn(text)
	}
}

// answer serves a resource which is a question: nothing is stored.
func (s *Server) answer(q *request, obj runtime.Object, dryRun bool) error {
	wipe(accessor(obj))
	if err := q.sameNamespace(accessor(obj)); err != nil {
		return err
	}
	q.uniqueOwners(accessor(obj), "")
	in := q.admissionRequest(admission.Create, obj, nil, dryRun)
	in.Name = accessor(obj).GetName()
	if err := s.admitter.mutate(q, in); err != nil {
		return err
	}
	if check := q.kind.Strategy.Validate; check != nil {
		if errs := check(q.answering(), admitted(in)); len(errs) > 0 {
			return invalid.Object(q.kind.gvk.GroupKind(), "", errs)
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

// connect leads a request to what runs behind the object. It ends with the
// server, like a watch.
func (s *Server) connect(q *request, p Proxy) error {
	if p.Paths {
		q.info.Name = plainName(q.info.Name)
	}
	options, err := p.options(q.r.URL.Query(), q.behind())
	if err != nil {
		return err
	}
	i, err := s.reader.read(q.r.Context(), q, "")
	if err != nil {
		return err
	}
	obj := i.Object.Object
	if options != nil {
		options.GetObjectKind().SetGroupVersionKind(q.bodyKind())
		in := q.admissionRequest(admission.Connect, options, nil, false)
		if err := s.admitter.mutate(q, in); err != nil {
			return err
		}
		if err := s.admitter.validate(q, in); err != nil {
			return err
		}
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
