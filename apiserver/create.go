package apiserver

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/apiserver/internal/requestline"
	"github.com/planekit/planekit/internal/budget"
	"github.com/planekit/planekit/internal/invalid"
	"github.com/planekit/planekit/storage"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Generated names are the prefix, cut so that the whole is a DNS label, and
// random characters, as in Kubernetes. Eight collisions in a row mean that the
// prefix is used up.
const (
	generatedSuffix   = 5
	generatedLength   = 63
	generatedAttempts = 8
)

func (s *Server) create(q *request) error {
	var o metav1.CreateOptions
	if err := requestline.Options(q.r.URL.Query(), &o); err != nil {
		return err
	}
	q.options = &o
	if err := requestline.Invalid("CreateOptions", metavalidation.ValidateCreateOptions(&o)); err != nil {
		return err
	}
	obj := q.kind.New()
	if err := q.decode(s, o.FieldValidation, obj); err != nil {
		return err
	}
	if q.kind.Strategy.Default != nil {
		q.kind.Strategy.Default(obj)
	}
	if q.kind.Answer != nil {
		return s.answer(q, obj, len(o.DryRun) > 0)
	}
	wipe(accessor(obj))
	if err := q.beginLife(obj); err != nil {
		return err
	}
	q.uniqueOwners(accessor(obj), "")
	s.ownNew(q, obj, o.FieldManager)
	created, err := s.admitNew(q, obj, len(o.DryRun) > 0)
	if err != nil {
		return err
	}
	if created, err = s.initializing.finish(q, created, len(o.DryRun) > 0); err != nil {
		return err
	}
	return s.responder.respond(q, http.StatusCreated, created)
}

// beginLife gives a new object its namespace, and fails if there can be no new objects.
func (q *request) beginLife(obj runtime.Object) error {
	if err := q.sameNamespace(accessor(obj)); err != nil {
		return err
	}
	return q.kind.Closed
}

// wipe removes what a client says of fields that the server alone sets, so that mutating admission does
// not see them.
func wipe(m metav1.Object) {
	m.SetUID("")
	m.SetCreationTimestamp(metav1.Time{})
	m.SetDeletionTimestamp(nil)
	m.SetDeletionGracePeriodSeconds(nil)
	m.SetSelfLink("")
}

// admitNew admits obj and stores it, under a generated name if it asks for one. Mutating admission
// runs once and sees no generated name. If the name is taken, admitNew tries another, and everything
// that is derived from the name, such as the labels of a Job, is derived again.
func (s *Server) admitNew(q *request, obj runtime.Object, dryRun bool) (runtime.Object, error) {
	in, err := s.mutateNew(q, obj, dryRun)
	if err != nil {
		return nil, err
	}
	unnamed := admitted(in)
	if m := accessor(unnamed); m.GetName() != "" || m.GetGenerateName() == "" {
		in.Name = cmp.Or(in.Name, m.GetName())
		created, err := s.tryNew(q, in)
		return created, storageError(err, q.kind.gr, m.GetName())
	}
	for attempt := 1; ; attempt++ {
		named := unnamed.DeepCopyObject()
		m := accessor(named)
		m.SetName(s.namer.generateName(q, m.GetGenerateName()))
		in.Object, in.Name = named, m.GetName()
		created, err := s.tryNew(q, in)
		switch {
		case !errors.Is(err, storage.ErrExists):
			return created, storageError(err, q.kind.gr, m.GetName())
		case attempt == generatedAttempts:
			return nil, apierrors.NewGenerateNameConflict(q.kind.gr, m.GetName(), 1)
		}
	}
}

// mutateNew returns the create of obj as mutating admission has left it.
func (s *Server) mutateNew(q *request, obj runtime.Object, dryRun bool) (*admission.Request, error) {
	in := q.admissionRequest(admission.Create, obj, nil, dryRun)
	in.Name = accessor(obj).GetName()
	return in, s.admitter.mutate(q, in)
}

// tryNew completes, checks and stores the object of in under the name it has.
func (s *Server) tryNew(q *request, in *admission.Request) (_ runtime.Object, err error) {
	if err := q.sameNamespace(accessor(admitted(in))); err != nil {
		return nil, err
	}
	s.namer.identify(q, accessor(admitted(in)))
	// After admission, which may set what only the server may, and on which depends
	// what the server sets, such as a pod's quality of service.
	if prepare := q.kind.Strategy.PrepareForCreate; prepare != nil {
		prepare(q.answering(), admitted(in))
	}
	if err := s.initializing.decide(q, in); err != nil {
		return nil, err
	}
	holds, err := s.allocate(q, admitted(in), nil, in.DryRun)
	defer func() { holds.settle(err) }()
	if err != nil {
		return nil, err
	}
	if err := q.validateNew(admitted(in)); err != nil {
		return nil, err
	}
	if err := s.admitter.validate(q, in); err != nil {
		return nil, err
	}
	if err := holds.late(); err != nil {
		return nil, err
	}
	return s.insert(q, admitted(in), in.DryRun)
}

// A namer chooses what is random in a new object, unless identities does.
type namer struct{ identities Identities }

func (n *namer) generateName(q *request, prefix string) string {
	if most := generatedLength - generatedSuffix; len(prefix) > most {
		prefix = prefix[:most]
	}
	if n.identities != nil {
		return prefix + n.identities.Suffix(q.kind.gr, q.info.Namespace, prefix)
	}
	return prefix + rand.String(generatedSuffix)
}

// Identities chooses what otherwise is random in a new object. Its methods are called by
// many goroutines at once, and also for objects that are then refused.
type Identities interface {
	// UID returns the UID of a new object. No two objects may have the same.
	UID(resource schema.GroupResource, namespace, name string) types.UID
	// Suffix returns the end of a generated name, five characters that may end a DNS label.
	// If the name exists, Suffix is called again, eight times at most.
	Suffix(resource schema.GroupResource, namespace, prefix string) string
}

// identify gives a new object, which has its name, a UID and a creationTimestamp, whatever mutating
// admission has set.
func (n *namer) identify(q *request, m metav1.Object) {
	m.SetCreationTimestamp(metav1.Now().Rfc3339Copy())
	m.SetUID(n.uid(q.kind.gr, q.info.Namespace, m.GetName()))
}

// uid returns the UID of a new object.
func (n *namer) uid(resource schema.GroupResource, namespace, name string) types.UID {
	if n.identities != nil {
		return n.identities.UID(resource, namespace, name)
	}
	return uuid.NewUUID()
}

func (q *request) validateNew(obj runtime.Object) error {
	m := accessor(obj)
	name := validation.NameIsDNSSubdomain
	if own := q.kind.Strategy.ValidateName; own != nil {
		name = own
	}
	errs := validation.ValidateObjectMetaAccessor(m, q.kind.Namespaced, name, field.NewPath("metadata"))
	errs = append(errs, q.kind.checkFinalizers(m.GetFinalizers(), nil)...)
	if check := q.kind.Strategy.Validate; check != nil {
		errs = append(errs, check(q.answering(), obj)...)
	}
	if err := budget.From(q.r.Context()).Err(); err != nil {
		return err // errs are not complete
	}
	// The name becomes a part of the storage key, whatever ValidateName thinks. As in kube-apiserver this is looked at last.
	if len(errs) == 0 {
		for _, one := range []struct {
			field, value string
			prefix       bool
		}{{"generateName", m.GetGenerateName(), true}, {"name", m.GetName(), false}} {
			for _, problem := range PathSegmentName(one.value, one.prefix) {
				errs = append(errs, field.Invalid(field.NewPath("metadata", one.field), one.value, problem))
			}
		}
	}
	if len(errs) == 0 && requestline.CheckSegment(m.GetName()) != nil {
		errs = field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), m.GetName(), "must be usable as a path segment")}
	}
	if len(errs) > 0 {
		return invalid.Object(q.kind.invalidAs(), m.GetName(), errs)
	}
	q.warnOf(&q.kind.Strategy, obj, nil)
	return nil
}

// insert stores a new object in one transaction and returns it with its revision.
func (s *Server) insert(q *request, obj runtime.Object, dryRun bool) (runtime.Object, error) {
	m, ctx := accessor(obj), q.r.Context()
	if err := budget.From(ctx).Err(); err != nil {
		return nil, err // a step that cannot fail, or that admission ignores, has not been finished
	}
	key := q.kind.key(q.info.Namespace, m.GetName())
	data, err := q.kind.encodeHidden(ctx, obj, q.hiding.is)
	if err != nil {
		return nil, err
	}
	if obj, err = q.kind.asStored(ctx, obj, data); err != nil {
		return nil, err
	}
	if dryRun {
		return obj, s.absent(ctx, key)
	}
	// Only here, as in kube-apiserver: an object that is invalid, or a dry run, may have one.
	if m.GetResourceVersion() != "" {
		return nil, badRequest("resourceVersion should not be set on objects to be created")
	}
	record, err := s.commit(ctx, storage.Change{Op: storage.Create, Key: key, Value: data, TTL: q.kind.TTL})
	if err != nil {
		return nil, err
	}
	q.kind.standAt(obj, record.Revision)
	q.kind.cache.put(key, record.Revision, obj, q.hiding.is)
	if q.kind.AfterCreate != nil {
		q.kind.AfterCreate(ctx, obj)
	}
	return obj, nil
}

// absent fails with ErrExists where there is something at key.
func (s *Server) absent(ctx context.Context, key storage.Key) error {
	_, err := s.config.Store.Get(ctx, key, 0)
	switch {
	case err == nil:
		return storage.ErrExists
	case errors.Is(err, storage.ErrNotFound):
		return nil
	}
	return err
}
