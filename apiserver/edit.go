package apiserver

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/apiserver/internal/ownership"
	"github.com/planekit/planekit/internal/budget"
	"github.com/planekit/planekit/internal/invalid"
	"github.com/planekit/planekit/storage"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// edit is one change to a stored object. It is retried when another change was stored in the
// meantime. A change with a resourceVersion then fails, because every attempt compares the version.
type edit struct {
	// apply returns the object in its new state. It must not change old.
	apply func(old runtime.Object) (runtime.Object, error)
	// admitted means that apply has called mutating admission with the request's body, as is required if the
	// body is not the object itself, and that validate calls validating admission; nil if apply has called both.
	admitted bool
	validate func(obj, old runtime.Object) error
	// manager becomes the owner of the changed fields if tracks is set.
	tracks  bool
	manager string
	// applies means that apply has recorded the owners itself.
	applies bool
	// creates means that the edit fails with errAbsent if there is no object, which apply then makes of nil.
	creates bool
	dryRun  bool
}

// errAbsent is the error of an edit that could create, if there is no object yet.
var errAbsent = errors.New("nothing to edit")

// edit applies e to the request's object and returns the object as stored.
func (s *Server) edit(q *request, e edit) (runtime.Object, error) {
	obj, err := s.changeRecord(q, func(record storage.Record) (runtime.Object, error) { return s.attempt(q, e, record) })
	switch {
	case err == nil:
		// Also if nothing has changed: a server that stored it before may have failed.
		return s.initializing.finish(q, obj, e.dryRun)
	case e.creates && errors.Is(err, storage.ErrNotFound):
		return nil, errAbsent
	}
	return nil, storageError(err, q.kind.gr, q.info.Name)
}

// attempt applies e to record. It fails with storage.ErrConflict when the
// record is no longer the newest.
func (s *Server) attempt(q *request, e edit, record storage.Record) (_ runtime.Object, err error) {
	i, err := q.kind.current(q.r.Context(), record)
	if err != nil {
		return nil, err
	}
	old, err := q.editable(i.Object.Object)
	if err != nil {
		return nil, err
	}
	q.hiding.was = i.Object.hidden
	obj, err := e.apply(old)
	if err != nil {
		return nil, err
	}
	if err := q.carry(obj, old); err != nil {
		return nil, err
	}
	if err := s.initializing.decide(q, nil); err != nil {
		return nil, err
	}
	// Set defaults first: a field that the client has left out is not a change.
	if q.kind.Strategy.Default != nil {
		q.kind.Strategy.Default(obj)
	}
	q.prepare(obj, old)
	if e.tracks {
		s.own(q, old, obj, e.manager)
	}
	if e.admitted {
		if err := q.validateChange(obj, old); err != nil {
			return nil, err
		}
		if e.validate != nil {
			if err := e.validate(obj, old); err != nil {
				return nil, err
			}
		}
		return s.replace(q, obj, old, record, e)
	}
	in := q.admissionRequest(admission.Update, obj, old, e.dryRun)
	if err := s.admitter.mutate(q, in); err != nil {
		return nil, err
	}
	if s.config.Admission != nil {
		if err := q.sameNamespace(accessor(admitted(in))); err != nil {
			return nil, err
		}
		accessor(admitted(in)).SetGeneration(accessor(old).GetGeneration())
		q.prepare(admitted(in), old) // again, because admission may have set any field
	}
	holds, err := s.allocate(q, admitted(in), old, e.dryRun)
	defer func() { holds.settle(err) }()
	if err != nil {
		return nil, err
	}
	if err := q.validateChange(admitted(in), old); err != nil {
		return nil, err
	}
	if err := s.admitter.validate(q, in); err != nil {
		return nil, err
	}
	if err := holds.late(); err != nil {
		return nil, err
	}
	return s.replace(q, admitted(in), old, record, e)
}

// editable returns a cached object as the request needs it to change it. A status without the fields that it
// resets does not need packed parts.
func (q *request) editable(obj runtime.Object) (runtime.Object, error) {
	status, isStatus := as[Status](q.sub)
	if q.kind.Packing == nil || isStatus && len(status.Resets) > 0 {
		return obj, nil
	}
	return q.kind.Packing.Unpack(obj)
}

// prepare restores from old the fields that the request may not change.
func (q *request) prepare(obj, old runtime.Object) {
	if prepare := q.strategy().PrepareForUpdate; prepare != nil {
		// Pass a copy: its kept parts become parts of obj, which later steps may change in place, and
		// old is shared.
		prepare(q.answering(), obj, old.DeepCopyObject())
	}
}

// carry checks the preconditions in obj, its resourceVersion and, of a view, its UID, and copies from the
// stored object the metadata that no client may change. Another UID of the object itself is invalid.
func (q *request) carry(obj, old runtime.Object) error {
	m, was := accessor(obj), accessor(old)
	if m.GetUID() == "" {
		m.SetUID(was.GetUID())
	}
	if uid := m.GetUID(); uid != was.GetUID() && q.ownType() {
		return q.failed("UID", string(uid), string(was.GetUID()))
	}
	revision, err := parseRevision(m.GetResourceVersion())
	if err != nil {
		return err
	}
	if revision == 0 && q.conditional() {
		return q.unconditional()
	}
	if revision != 0 && formatRevision(revision) != was.GetResourceVersion() {
		return apierrors.NewConflict(q.kind.gr, q.info.Name, errModified)
	}
	m.SetResourceVersion(was.GetResourceVersion())
	m.SetCreationTimestamp(was.GetCreationTimestamp())
	m.SetGeneration(was.GetGeneration())
	m.SetSelfLink("")
	if was.GetDeletionTimestamp() != nil {
		m.SetDeletionTimestamp(was.GetDeletionTimestamp())
		if m.GetDeletionGracePeriodSeconds() == nil {
			m.SetDeletionGracePeriodSeconds(was.GetDeletionGracePeriodSeconds())
		}
	}
	return nil
}

// conditional reports whether a change must name a resourceVersion. A view, such as a scale, need not.
func (q *request) conditional() bool {
	_, isView := as[View](q.sub)
	return q.kind.Conditional && !isView
}

// unconditional is the error of a change without the resourceVersion that it must name. It has the
// name of the resource as its kind, as in Kubernetes.
func (q *request) unconditional() error {
	at := field.NewPath("metadata", "resourceVersion")
	kind := schema.GroupKind{Group: q.kind.gr.Group, Kind: q.kind.gr.Resource}
	return invalid.Object(kind, q.info.Name, field.ErrorList{field.Invalid(at, 0, "must be specified for an update")})
}

func (q *request) validateChange(obj, old runtime.Object) error {
	strategy := q.strategy()
	errs := q.validateMetadata(accessor(obj), accessor(old), strategy.MetadataChecks)
	switch {
	case q.hiding.was != nil && q.sub == nil: // a hidden object may become anything
		if strategy.Validate != nil {
			errs = append(errs, strategy.Validate(q.answering(), obj)...)
		}
	case strategy.ValidateUpdate != nil:
		errs = append(errs, strategy.ValidateUpdate(q.answering(), obj, old)...)
	}
	if err := budget.From(q.r.Context()).Err(); err != nil {
		return err // errs are not complete
	}
	if len(errs) > 0 {
		return invalid.Object(q.kind.invalidAs(), accessor(obj).GetName(), errs)
	}
	q.warnOf(strategy, obj, old)
	return nil
}

// onlyChange is the check of most strategies.
var onlyChange = []MetadataCheck{CheckChange}

// validateMetadata returns the errors of changed metadata. As in kube-apiserver, they come again for each check that a
// strategy makes of metadata itself. Metadata that has not changed was checked when it was stored.
func (q *request) validateMetadata(m, was metav1.Object, checks []MetadataCheck) field.ErrorList {
	at, name := field.NewPath("metadata"), q.kind.Strategy.ValidateName
	if name == nil {
		name = validation.NameIsDNSSubdomain
	}
	if checks == nil {
		checks = onlyChange
	}
	changed := !sameMetadata(m, was)
	asNew := func(name validation.ValidateNameFunc) field.ErrorList {
		if !changed {
			return nil
		}
		return validation.ValidateObjectMetaAccessor(m, q.kind.Namespaced, name, at)
	}
	change := validation.ValidateObjectMetaAccessorUpdate(m, was, at)
	errs := slices.Concat(asNew(PathSegmentName), change)
	for _, check := range checks {
		if check == CheckNew {
			errs = append(errs, asNew(name)...)
		} else {
			errs = append(errs, change...)
		}
		errs = append(errs, q.kind.checkFinalizers(m.GetFinalizers(), was.GetFinalizers())...)
	}
	return errs
}

// sameMetadata reports whether all is the same that a client may change.
func sameMetadata(m, was metav1.Object) bool {
	return m.GetName() == was.GetName() && m.GetNamespace() == was.GetNamespace() && m.GetGenerateName() == was.GetGenerateName() && m.GetGeneration() == was.GetGeneration() &&
		maps.Equal(m.GetLabels(), was.GetLabels()) && maps.Equal(m.GetAnnotations(), was.GetAnnotations()) &&
		slices.Equal(m.GetFinalizers(), was.GetFinalizers()) && equality.Semantic.DeepEqual(m.GetOwnerReferences(), was.GetOwnerReferences())
}

// replace stores obj in place of record, or deletes record if nothing blocks the deletion of obj any
// more. It writes nothing if nothing has changed.
func (s *Server) replace(q *request, obj, old runtime.Object, record storage.Record, e edit) (runtime.Object, error) {
	if err := budget.From(q.r.Context()).Err(); err != nil {
		return nil, err // as in insert
	}
	if e.applies {
		same, err := q.appliedBefore(obj, old, record)
		if err != nil || same {
			return old, err
		}
	}
	data, err := q.kind.encodeHidden(q.r.Context(), obj, q.hiding.is)
	if err != nil {
		return nil, err
	}
	change := storage.Change{Op: storage.Update, Key: record.Key, Value: data, Previous: record.Revision, TTL: q.kind.TTL}
	switch {
	case q.kind.released(obj, old):
		change.Op, change.Value, change.TTL = storage.Delete, nil, 0
	case bytes.Equal(data, record.Value) && !record.Stale:
		return old, nil
	}
	if change.Op == storage.Update {
		if obj, err = q.kind.asStored(q.r.Context(), obj, data); err != nil {
			return nil, err
		}
	}
	if e.dryRun {
		return obj, nil
	}
	written, err := s.commit(q.r.Context(), change)
	if err != nil {
		if errors.Is(err, storage.ErrNotFound) {
			err = storageError(err, q.kind.gr, q.info.Name)
		}
		return nil, err
	}
	q.kind.standAt(obj, written.Revision)
	if change.Op == storage.Delete {
		q.giveBack(old, nil, written.Revision)
	} else {
		q.kind.cache.put(record.Key, written.Revision, obj, q.hiding.is)
		q.giveBack(old, obj, written.Revision)
	}
	return obj, nil
}

// appliedBefore reports whether an apply has changed nothing but the time of
// its entry in managedFields, and need not be stored.
func (q *request) appliedBefore(obj, old runtime.Object, record storage.Record) (bool, error) {
	now, kept := ownership.KeepTimes(accessor(obj), accessor(old))
	if !kept {
		return false, nil
	}
	data, err := q.kind.encodeHidden(q.r.Context(), obj, q.hiding.is)
	accessor(obj).SetManagedFields(now)
	return bytes.Equal(data, record.Value) && !record.Stale && !q.kind.released(obj, old), err
}

// released reports whether obj, which was being deleted, may go now.
func (k *servedKind) released(obj, old runtime.Object) bool {
	was := accessor(old)
	if was.GetDeletionTimestamp() == nil || len(accessor(obj).GetFinalizers()) > 0 {
		return false
	}
	if grace := was.GetDeletionGracePeriodSeconds(); grace != nil && *grace > 0 {
		return false
	}
	return k.Strategy.Finalizing == nil || !k.Strategy.Finalizing(obj)
}

// changeRecord calls try with the request's record, and again while another change was stored in the
// meantime (storage.ErrConflict). try returns the object in its new state, with the revision that it
// has committed, if any.
//
// It begins with the record in the cache, which saves a read and may be old. A committed change is
// correct, because the commit compared the revision. Any other outcome counts only if the store has
// the same record, except an unknownOutcome: the store's record may already be the result of try.
func (s *Server) changeRecord(q *request, try func(storage.Record) (runtime.Object, error)) (runtime.Object, error) {
	ctx := q.r.Context()
	header := q.w.Header()
	warned, warnings := q.warned, slices.Clone(header["Warning"])
	record, sure, err := s.probableRecord(ctx, q)
	for {
		if err != nil {
			return nil, err
		}
		// Drop the warnings of the previous attempt.
		if header.Del("Warning"); len(warnings) > 0 {
			header["Warning"] = slices.Clone(warnings)
		}
		q.warned = warned.Clone()
		obj, failure := try(record)
		var unknown *unknownOutcome
		if errors.As(failure, &unknown) {
			return nil, failure
		}
		conflict := errors.Is(failure, storage.ErrConflict)
		if !conflict && (sure || failure == nil && accessor(obj).GetResourceVersion() != formatRevision(record.Revision)) {
			return obj, failure
		}
		was := record.Revision
		record, err = s.config.Store.Get(ctx, q.key(), 0)
		if err == nil && record.Revision == was && !conflict {
			return obj, failure
		}
		sure = true
	}
}

// probableRecord returns the request's record from the cache, or else from the store,
// which makes it sure.
func (s *Server) probableRecord(ctx context.Context, q *request) (record storage.Record, sure bool, err error) {
	if i, ok := q.kind.cache.Peek(q.key()); ok && i.Err == nil {
		return i.Record, false, nil
	}
	record, err = s.config.Store.Get(ctx, q.key(), 0)
	return record, true, err
}
