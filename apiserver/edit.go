package apiserver

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/apiserver/internal/ownership"
	"github.com/planekit/planekit/storage"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// edit is one change to a stored object. It is tried again whenever another change
// comes in between. A change that names the resourceVersion it was made from fails
// then, since the version is compared on every attempt.
type edit struct {
	// apply returns what the object shall become. It must not change old.
	apply func(old runtime.Object) (runtime.Object, error)
	// admitted says that apply has asked admission about the request's body, as
	// it must where the body is not the object itself.
	admitted bool
	// manager becomes the owner of what changes. Without tracks, no manager does.
	tracks  bool
	manager string
	// applies says that apply has recorded owners itself, and that without an
	// object the edit shall fail with errAbsent.
	applies bool
	dryRun  bool
}

// edit applies e to the request's object and returns the object as stored.
func (s *Server) edit(q *request, e edit) (runtime.Object, error) {
	obj, err := s.onRecord(q, func(record storage.Record) (runtime.Object, error) { return s.attempt(q, e, record) })
	if e.applies && errors.Is(err, storage.ErrNotFound) {
		return nil, errAbsent
	}
	return obj, storageError(err, q.kind.gr, q.info.Name)
}

// attempt applies e to record. It fails with storage.ErrConflict when the
// record is no longer the newest.
func (s *Server) attempt(q *request, e edit, record storage.Record) (_ runtime.Object, err error) {
	i, err := q.kind.item(record)
	if err != nil {
		return nil, err
	}
	old := i.Object.Object
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
	// First, so that what a client leaves out is no change.
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
		return s.replace(q, obj, old, record, e)
	}
	in := q.admissionRequest(admission.Update, obj, old, e.dryRun)
	if err := s.admitter.mutate(q, in); err != nil {
		return nil, err
	}
	if s.config.Admission != nil {
		q.prepare(admitted(in), old) // again, for admission may have set anything
	}
	holds, err := q.allocate(admitted(in), old, e.dryRun)
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

// prepare keeps from old what the request may not change.
func (q *request) prepare(obj, old runtime.Object) {
	if prepare := q.strategy().PrepareForUpdate; prepare != nil {
		// A copy, for what is kept from it becomes part of obj, which the steps
		// after this one may change in place; old itself is shared.
		prepare(q.r.Context(), obj, old.DeepCopyObject())
	}
}

// carry checks what obj demands of the stored object and takes over from it
// what no client may change.
func (q *request) carry(obj, old runtime.Object) error {
	m, was := accessor(obj), accessor(old)
	if uid := m.GetUID(); uid != "" && uid != was.GetUID() {
		return q.failed("UID", string(uid), string(was.GetUID()))
	}
	revision, err := parseRevision(m.GetResourceVersion())
	if err != nil {
		return err
	}
	if revision != 0 && formatRevision(revision) != was.GetResourceVersion() {
		return apierrors.NewConflict(q.kind.gr, q.info.Name, errModified)
	}
	m.SetResourceVersion(was.GetResourceVersion())
	m.SetUID(was.GetUID())
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

func (q *request) validateChange(obj, old runtime.Object) error {
	errs := validation.ValidateObjectMetaAccessorUpdate(accessor(obj), accessor(old), field.NewPath("metadata"))
	strategy := q.strategy()
	switch {
	case q.hiding.was != nil && q.sub == nil: // a hidden object may become anything
		if strategy.Validate != nil {
			errs = append(errs, strategy.Validate(q.r.Context(), obj)...)
		}
	case strategy.ValidateUpdate != nil:
		errs = append(errs, strategy.ValidateUpdate(q.r.Context(), obj, old)...)
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(q.kind.gvk.GroupKind(), q.info.Name, errs)
	}
	return nil
}

// replace stores obj in place of record, or deletes record where obj has lost
// the last that kept it from going. Nothing is written where nothing changed.
func (s *Server) replace(q *request, obj, old runtime.Object, record storage.Record, e edit) (runtime.Object, error) {
	if e.applies {
		same, err := q.appliedBefore(obj, old, record)
		if err != nil || same {
			return old, err
		}
	}
	data, err := q.kind.encodeHidden(obj, q.hiding.is)
	if err != nil {
		return nil, err
	}
	change := storage.Change{Op: storage.Update, Key: record.Key, Value: data, Previous: record.Revision, TTL: q.kind.TTL}
	switch {
	case q.kind.released(obj, old):
		change.Op, change.Value, change.TTL = storage.Delete, nil, 0
	case bytes.Equal(data, record.Value) && !record.Stale:
		return s.initializing.finish(q, old, e.dryRun) // a server that stored it before may have failed
	}
	if e.dryRun {
		return obj, nil
	}
	written, err := s.config.Store.Commit(q.r.Context(), change)
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
	return s.initializing.finish(q, obj, false)
}

// appliedBefore reports whether an apply has changed nothing but the time of
// its entry in managedFields, and need not be stored.
func (q *request) appliedBefore(obj, old runtime.Object, record storage.Record) (bool, error) {
	now, kept := ownership.KeepTimes(accessor(obj), accessor(old))
	if !kept {
		return false, nil
	}
	data, err := q.kind.encodeHidden(obj, q.hiding.is)
	accessor(obj).SetManagedFields(now)
	return bytes.Equal(data, record.Value) && !record.Stale && !q.kind.released(obj, old), err
}

// released reports whether obj, which was being deleted, may go now.
func (k *kind) released(obj, old runtime.Object) bool {
	was := accessor(old)
	if was.GetDeletionTimestamp() == nil || len(accessor(obj).GetFinalizers()) > 0 {
		return false
	}
	if grace := was.GetDeletionGracePeriodSeconds(); grace != nil && *grace > 0 {
		return false
	}
	return k.Strategy.Finalizing == nil || !k.Strategy.Finalizing(obj)
}

// onRecord has try change the request's record, again whenever another change
// came in between (storage.ErrConflict). try returns the object in its new state,
// with the revision of what it has committed, if anything.
//
// It begins with the record as the cache has it, which saves a read and may be
// old. A change which is committed was right, since its guard held. Any other
// outcome stands only if the store has the same record.
func (s *Server) onRecord(q *request, try func(storage.Record) (runtime.Object, error)) (runtime.Object, error) {
	ctx := q.r.Context()
	header := q.w.Header()
	warned, warnings := q.warned, slices.Clone(header["Warning"])
	record, sure, err := s.guess(ctx, q)
	for {
		if err != nil {
			return nil, err
		}
		// What an attempt before this one has warned of is no longer so.
		if header.Del("Warning"); len(warnings) > 0 {
			header["Warning"] = slices.Clone(warnings)
		}
		q.warned = warned.Clone()
		obj, failure := try(record)
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

// guess returns the request's record from the cache, or else from the store,
// which makes it sure.
func (s *Server) guess(ctx context.Context, q *request) (record storage.Record, sure bool, err error) {
	if i, ok := q.kind.cache.Peek(q.key()); ok && i.Err == nil {
		return i.Record, false, nil
	}
	record, err = s.config.Store.Get(ctx, q.key(), 0)
	return record, true, err
}
