package apiserver

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/apiserver/internal/requestline"
	"github.com/planekit/planekit/apiserver/internal/wire"
	"github.com/planekit/planekit/internal/budget"
	"github.com/planekit/planekit/storage"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func (s *Server) delete(q *request) error {
	o, err := q.deleteOptions(s)
	if err != nil {
		return err
	}
	q.warnOfDeletion(o)
	obj, gone, err := s.remove(q, o)
	if err != nil {
		return err
	}
	code := http.StatusOK
	//lint:ignore SA1019 old clients still send it
	if orphan := o.OrphanDependents; !gone && orphan != nil && !*orphan {
		code = http.StatusAccepted // as in Kubernetes, which has only these clients know that the object is still there
	}
	if !gone || q.kind.Strategy.ShowDeleted {
		return s.responder.respond(q, code, obj)
	}
	q.out.Shape = wire.Whole
	s.responder.Object(q.w, q.r, http.StatusOK, q.out, &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusSuccess,
		Details: &metav1.StatusDetails{ // Kubernetes puts the resource in Kind
			Name: q.info.Name, Group: q.kind.Group, Kind: q.kind.Plural, UID: accessor(obj).GetUID(),
		},
	})
	return nil
}

// warnOfDeletion says what the kind warns of where a deletion names no propagation policy.
func (q *request) warnOfDeletion(o *metav1.DeleteOptions) {
	//lint:ignore SA1019 old clients still send it
	if text := q.kind.Strategy.DeleteWarning; text != "" && o.PropagationPolicy == nil && o.OrphanDependents == nil {
		q.warn(text)
	}
}

// deleteOptions reads the options from the body, or from the query where there
// is none.
func (q *request) deleteOptions(s *Server) (*metav1.DeleteOptions, error) {
	o := &metav1.DeleteOptions{}
	data := q.body()
	if len(data) == 0 {
		if err := requestline.Options(q.r.URL.Query(), o); err != nil {
			return nil, err
		}
	} else {
		from, err := s.codec.Reader(wire.ContentType(q.r), metav1.FieldValidationIgnore, o)
		if err != nil {
			return nil, err
		}
		// Clients write any group's version here; only the kind tells.
		want := schema.GroupVersionKind{Version: "v1", Kind: "DeleteOptions"}
		text, _, err := s.codec.AsJSON(q.r.Context(), data, wire.ContentType(q.r), false)
		if err != nil {
			return nil, badRequest("%v", err)
		}
		if err := s.codec.Affordable(q.r.Context(), text, wire.ContentType(q.r), o); err != nil {
			return nil, err
		}
		_, got, err := from.Decode(text, &want, o)
		if err != nil {
			return nil, badRequest("%v", err)
		}
		if got.Kind != want.Kind {
			return nil, badRequest("%s in version %q cannot be handled as a DeleteOptions", got.Kind, got.Version)
		}
	}
	if o.GracePeriodSeconds != nil && *o.GracePeriodSeconds < 0 {
		*o.GracePeriodSeconds = 1 // as Kubernetes understands it
	}
	o.IgnoreStoreReadErrorWithClusterBreakingPotential = nil // as without the feature gate for it
	q.options = o
	return o, requestline.Invalid("DeleteOptions", metavalidation.ValidateDeleteOptions(o))
}

// remove deletes the request's object, or marks it as being deleted if grace or
// finalizers keep it. It returns the object in its last state and whether it is gone.
func (s *Server) remove(q *request, o *metav1.DeleteOptions) (obj runtime.Object, gone bool, err error) {
	obj, err = s.changeRecord(q, func(record storage.Record) (runtime.Object, error) {
		i, err := q.kind.current(q.r.Context(), record)
		if err != nil {
			return nil, err
		}
		old := i.Object.Object
		q.hiding.was = i.Object.hidden
		if err := q.checkPreconditions(old, o.Preconditions); err != nil {
			return nil, err
		}
		in := q.admissionRequest(admission.Delete, nil, old, len(o.DryRun) > 0)
		if err := s.admitter.mutate(q, in); err != nil {
			return nil, err
		}
		if err := s.admitter.validate(q, in); err != nil {
			return nil, err
		}
		var last runtime.Object
		last, gone, err = s.removeRecord(q, o, record, old)
		return last, err
	})
	return obj, gone, storageError(err, q.kind.gr, q.info.Name)
}

func (s *Server) removeRecord(q *request, o *metav1.DeleteOptions, record storage.Record, old runtime.Object) (runtime.Object, bool, error) {
	obj := old.DeepCopyObject()
	// Finalizers do not keep a hidden object: their controllers have not seen it.
	stays := q.hiding.was == nil && q.kind.beginDelete(obj, o, time.Now())
	change := storage.Change{Op: storage.Delete, Key: record.Key, Previous: record.Revision}
	if stays {
		data, err := q.kind.encode(q.r.Context(), obj)
		if err != nil || bytes.Equal(data, record.Value) && !record.Stale {
			return obj, false, err
		}
		if obj, err = q.kind.asStored(q.r.Context(), obj, data); err != nil {
			return nil, false, err
		}
		change.Op, change.Value = storage.Update, data
	}
	if len(o.DryRun) > 0 {
		return obj, !stays, nil
	}
	written, err := s.commit(q.r.Context(), change)
	if err != nil {
		return nil, false, err
	}
	q.kind.standAt(obj, written.Revision)
	if stays {
		q.kind.cache.put(record.Key, written.Revision, obj, nil)
	} else {
		q.giveBack(old, nil, written.Revision)
	}
	return obj, !stays, nil
}

func (q *request) checkPreconditions(obj runtime.Object, p *metav1.Preconditions) error {
	if p == nil {
		return nil
	}
	m := accessor(obj)
	if p.UID != nil && *p.UID != m.GetUID() {
		return q.unmet("UID", string(*p.UID), string(m.GetUID()), "deleted and then recreated")
	}
	if p.ResourceVersion != nil && *p.ResourceVersion != m.GetResourceVersion() {
		return q.unmet("ResourceVersion", *p.ResourceVersion, m.GetResourceVersion(), "modified")
	}
	return nil
}

// unmet is Kubernetes' text for a precondition of a deletion, which names the
// kind where other conflicts name the resource.
func (q *request) unmet(what, want, have, why string) error {
	text := fmt.Sprintf("the %s in the precondition (%s) does not match the %s in record (%s). The object might have been %s", what, want, what, have, why)
	return apierrors.NewConflict(schema.GroupResource{Group: q.kind.Group, Resource: q.kind.Kind}, q.info.Name, errors.New(text))
}

func (q *request) failed(what, want, have string) error {
	text := fmt.Sprintf("Precondition failed: %s in precondition: %s, %s in object meta: %s", what, want, what, have)
	return apierrors.NewConflict(q.kind.gr, q.info.Name, errors.New(text))
}

// deleteCollection deletes the objects that a list with the same options would show, one
// after another, and responds with the list of them. It is no error if another request
// deletes some of them meanwhile.
func (s *Server) deleteCollection(q *request) error {
	var lo metav1.ListOptions
	if err := requestline.Options(q.r.URL.Query(), &lo); err != nil {
		return err
	}
	o, err := q.deleteOptions(s)
	if err != nil {
		return err
	}
	selected, err := newSelection(q.kind, q.info.Namespace, lo.LabelSelector, lo.FieldSelector)
	if err != nil {
		return err
	}
	switch lo.Limit = max(lo.Limit, 0); {
	case lo.ResourceVersionMatch == "" && lo.ResourceVersion != "" && lo.ResourceVersion != "0":
		lo.ResourceVersionMatch = metav1.ResourceVersionMatchExact // as if it had a limit: Kubernetes reads the list in pages
	case lo.Watch && lo.SendInitialEvents != nil && lo.ResourceVersion == "":
		lo.ResourceVersionMatch = "" // an option of watches, which has no effect here
	}
	selected.hidden = true // else they would outlive their namespace
	q.warnOfDeletion(o)
	found, err := s.reader.find(q.r.Context(), selected, &lo)
	if err != nil {
		return err
	}
	for _, i := range found.items {
		obj := i.Object.Object
		m := accessor(obj)
		one := *q
		one.info.Namespace, one.info.Name = m.GetNamespace(), m.GetName()
		// Each deletion has the budget of one: the request ends with its client, and any number of objects may go.
		one.r = q.r.WithContext(budget.Attach(q.r.Context(), budget.Default))
		_, _, err := s.remove(&one, withUID(o, obj))
		if apierrors.IsNotFound(err) || (o.Preconditions == nil && apierrors.IsConflict(err)) {
			continue // gone, and perhaps a successor in its place
		}
		if err != nil {
			return err
		}
	}
	return s.responder.respondList(q, found) // the objects as they were, as in Kubernetes
}

// withUID guards a deletion against hitting a successor of the same name.
func withUID(o *metav1.DeleteOptions, obj runtime.Object) *metav1.DeleteOptions {
	one := o.DeepCopy()
	if one.Preconditions == nil {
		one.Preconditions = &metav1.Preconditions{}
	}
	if one.Preconditions.UID == nil {
		uid := accessor(obj).GetUID()
		one.Preconditions.UID = &uid
	}
	return one
}

// beginDelete decides what a delete means for obj, a copy of the stored object. If the
// object stays for a while, it reports so and has marked the object as being deleted:
// with a deletionTimestamp in the future for grace, and now for finalizers.
func (k *servedKind) beginDelete(obj runtime.Object, o *metav1.DeleteOptions, now time.Time) (stays bool) {
	m := accessor(obj)
	m.SetFinalizers(k.finalizers(m.GetFinalizers(), o))
	waits := k.grace(obj, o, now)
	if !waits && len(m.GetFinalizers()) == 0 && (k.Strategy.Finalizing == nil || !k.Strategy.Finalizing(obj)) {
		return false
	}
	if m.GetDeletionTimestamp() == nil {
		mark(m, now, 0)
	}
	if k.Strategy.PrepareForDelete != nil {
		k.Strategy.PrepareForDelete(obj)
	}
	return true
}

// grace applies the kind's grace period and reports whether obj waits for it.
// A period that has begun can only be made shorter.
func (k *servedKind) grace(obj runtime.Object, o *metav1.DeleteOptions, now time.Time) bool {
	m := accessor(obj)
	if k.Strategy.Grace == nil {
		return false
	}
	if m.GetDeletionTimestamp() == nil {
		seconds := k.Strategy.Grace(obj, o)
		mark(m, now, max(seconds, 0)) // the response shows the mark of an object that goes at once
		return seconds > 0
	}
	begun := m.GetDeletionGracePeriodSeconds()
	if begun == nil || *begun == 0 {
		return false
	}
	if o.GracePeriodSeconds == nil || *o.GracePeriodSeconds >= *begun {
		return true
	}
	seconds := *o.GracePeriodSeconds
	at := metav1.NewTime(m.GetDeletionTimestamp().Add(time.Duration(seconds-*begun) * time.Second))
	m.SetDeletionTimestamp(&at)
	m.SetDeletionGracePeriodSeconds(&seconds)
	return seconds > 0
}

// mark sets the deletionTimestamp. A deletion changes the desired state, so mark raises
// the generation, if there is one.
func mark(m metav1.Object, now time.Time, seconds int64) {
	at := metav1.NewTime(now.Add(time.Duration(seconds) * time.Second)).Rfc3339Copy()
	m.SetDeletionTimestamp(&at)
	m.SetDeletionGracePeriodSeconds(&seconds)
	if m.GetGeneration() > 0 {
		m.SetGeneration(m.GetGeneration() + 1)
	}
}

// NoGarbageCollection is the policy of kinds whose objects own no others: events.
const NoGarbageCollection metav1.DeletionPropagation = "NoGarbageCollection"

// finalizers returns have with the finalizer of the garbage collector that the
// propagation policy demands. Without a policy, either of the two stays if it is there;
// otherwise the kind's own policy applies.
func (k *servedKind) finalizers(have []string, o *metav1.DeleteOptions) []string {
	policy := k.Strategy.GarbageCollection
	//lint:ignore SA1019 old clients still send it
	orphan := o.OrphanDependents
	switch {
	case policy == NoGarbageCollection:
	case o.PropagationPolicy != nil:
		policy = *o.PropagationPolicy
	case orphan != nil && *orphan:
		policy = metav1.DeletePropagationOrphan
	case orphan != nil:
		policy = metav1.DeletePropagationBackground
	case slices.Contains(have, metav1.FinalizerOrphanDependents), slices.Contains(have, metav1.FinalizerDeleteDependents):
		return have
	}
	want := slices.DeleteFunc(slices.Clone(have), func(f string) bool {
		return f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
	})
	switch policy {
	case metav1.DeletePropagationOrphan:
		want = append(want, metav1.FinalizerOrphanDependents)
	case metav1.DeletePropagationForeground:
		want = append(want, metav1.FinalizerDeleteDependents)
	}
	return want
}
