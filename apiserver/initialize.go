package apiserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/cache"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Initializers tells which initializers a new object waits for before it is
// there for everybody, in the order in which they act; none is the usual. in is
// the create as mutating admission has left it. Errors are treated as those of
// admission. It must be safe for concurrent use. Package admission/initializers
// has one.
type Initializers interface {
	Pending(ctx context.Context, in *admission.Request) ([]string, error)
}

// initializeTimeout is how long a create waits for the initializers.
const initializeTimeout = 30 * time.Second

var initializersPath = field.NewPath("metadata", "initializers")

// includesUninitialized reports whether the client wants to see objects that
// wait for initializers.
func (q *request) includesUninitialized() bool {
	if !strings.Contains(q.r.URL.RawQuery, "includeUninitialized") { // as it never does
		return false
	}
	values := q.r.URL.Query()["includeUninitialized"]
	return len(values) > 0 && values[0] != "false" && values[0] != "0" // how Kubernetes reads booleans
}

// pendingNew is what a new object waits for: what it says itself, if its creator
// may, and else what is configured.
func (s *Server) pendingNew(q *request, in *admission.Request) (*initializers, error) {
	if s.config.Initializers == nil {
		return nil, nil
	}
	if q.sent.said {
		if err := s.mayInitialize(q, in.Name, "create with initializers denied"); err != nil {
			return nil, err
		}
		if errs := checkNew(q.sent.state); len(errs) > 0 {
			return nil, apierrors.NewInvalid(q.kind.gvk.GroupKind(), in.Name, errs)
		}
		q.noteInitializers("pending", q.sent.state)
		return q.sent.state, nil
	}
	names, err := s.config.Initializers.Pending(q.r.Context(), in)
	if err != nil {
		return nil, refused(q, in, err)
	}
	if len(names) == 0 {
		return nil, nil
	}
	state := &initializers{Pending: make([]initializer, len(names))}
	for i, name := range names {
		state.Pending[i].Name = name
	}
	q.noteInitializers("pending", state)
	return state, nil
}

// noteInitializers tells the audit of the initializers that the object waits for,
// or of one that has acted or failed.
func (q *request) noteInitializers(what string, state *initializers) {
	if state != nil && len(state.Pending) > 0 {
		q.annotate("initializers.admission.k8s.io/"+what, strings.Join(namesOf(state), ","))
	}
}

// checkNew checks initializers that a creator has chosen.
func checkNew(state *initializers) (errs field.ErrorList) {
	if state == nil {
		return nil
	}
	if state.Result != nil {
		errs = append(errs, field.Forbidden(initializersPath.Child("result"), "may only be set by an initializer"))
	}
	seen := sets.New[string]()
	for i, one := range state.Pending {
		at := initializersPath.Child("pending").Index(i).Child("name")
		for _, message := range validation.IsQualifiedName(one.Name) {
			errs = append(errs, field.Invalid(at, one.Name, message))
		}
		if seen.Has(one.Name) {
			errs = append(errs, field.Duplicate(at, one.Name))
		}
		seen.Insert(one.Name)
	}
	return errs
}

// pendingNext is what the request's object waits for after it: as before unless
// the request says otherwise. What waits may only be changed by those who may
// initialize it.
func (s *Server) pendingNext(q *request) (*initializers, error) {
	was, next := q.was, q.was
	if q.sent.said {
		next = q.sent.state
	}
	if was == nil && next == nil {
		return nil, nil
	}
	if err := s.mayInitialize(q, q.info.Name, "update to uninitialized resource denied"); err != nil {
		return nil, err
	}
	if errs := checkNext(was, next); len(errs) > 0 {
		return nil, apierrors.NewInvalid(q.kind.gvk.GroupKind(), q.info.Name, errs)
	}
	switch acting := (&initializers{Pending: was.Pending[:min(1, len(was.Pending))]}); {
	case next.failed() && !was.failed():
		q.noteInitializers("failed", acting)
	case next == nil || len(next.Pending) < len(was.Pending):
		q.noteInitializers("completed", acting)
	}
	return next, nil
}

// checkNext checks a step: the first initializer has acted, or failed, or has
// changed the object and is not done. A result is the last of them.
func checkNext(was, next *initializers) field.ErrorList {
	if was == nil {
		return field.ErrorList{field.Invalid(initializersPath, nil, "field is immutable once initialization has completed")}
	}
	if next == nil {
		next = &initializers{}
	}
	var errs field.ErrorList
	result := initializersPath.Child("result")
	switch {
	case was.Result != nil && !equality.Semantic.DeepEqual(was.Result, next.Result):
		errs = append(errs, field.Invalid(result, "", "field is immutable"))
	case next.Result != nil && next.Result.Status != metav1.StatusFailure:
		errs = append(errs, field.Invalid(result.Child("status"), next.Result.Status, "status must be 'Failure'"))
	case next.Result != nil && next.Result.Code != 0 && (next.Result.Code < 400 || next.Result.Code > 599):
		errs = append(errs, field.Invalid(result.Child("code"), next.Result.Code, "must be that of an HTTP error"))
	}
	if !slices.Equal(next.Pending, was.Pending) && (len(was.Pending) == 0 || !slices.Equal(next.Pending, was.Pending[1:])) {
		errs = append(errs, field.Invalid(initializersPath.Child("pending"), namesOf(next), "only the first pending initializer may be removed"))
	}
	return errs
}

func namesOf(state *initializers) []string {
	names := make([]string, len(state.Pending))
	for i, one := range state.Pending {
		names[i] = one.Name
	}
	return names
}

// mayInitialize asks whether the user has the verb initialize for the object.
func (s *Server) mayInitialize(q *request, name, otherwise string) error {
	info := q.info
	info.Verb, info.Name, info.Subresource = "initialize", name, ""
	a := info.attributes(q.user)
	decision, reason, err := s.config.Authorizer.Authorize(q.r.Context(), a)
	if decision == authz.Allow {
		return nil
	}
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	return apierrors.NewForbidden(q.kind.gr, name, fmt.Errorf("%s: %s", otherwise, forbidden(a, reason)))
}

// awaitInitialized returns the new object as it is when nobody has yet to act on
// it, or why that will not be. A creator who asks for uninitialized objects, or
// for a dry run, does not wait.
func (s *Server) awaitInitialized(q *request, obj runtime.Object, dryRun bool) (runtime.Object, error) {
	if q.state == nil || dryRun || q.includesUninitialized() {
		return obj, nil
	}
	leaveEarly(q.w) // Initializers need seats as well.
	m := accessor(obj)
	revision, err := parseRevision(m.GetResourceVersion())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(q.r.Context(), initializeTimeout)
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)()
	source, err := q.kind.cache.Watch(ctx, revision)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	key := q.kind.key(q.info.Namespace, m.GetName())
	for {
		events, err := source.Next(ctx)
		for _, event := range events {
			if event.Key() != key {
				continue
			}
			if done, last, failure := outcome(event); done {
				q.state = nil
				if failure != nil {
					// The initializer's own request drops it, too, but maybe after this
					// answer, and who was refused must not find it any more.
					if err := s.dropFailed(q, key); err != nil {
						return nil, err
					}
				}
				return last, failure
			}
		}
		switch {
		case err == nil:
		case ctx.Err() != nil && q.r.Context().Err() == nil:
			return nil, apierrors.NewTimeoutError(fmt.Sprintf(
				"server has timed out waiting for the initialization of %s %s", q.kind.gr, m.GetName()), 0)
		default:
			return nil, err
		}
	}
}

// outcome is what an event means to who waits for a new object.
func outcome(event *cache.Event[*object]) (done bool, obj runtime.Object, err error) {
	last := event.Item
	if last == nil {
		last = event.Previous
	}
	switch {
	case last.Err != nil:
		return true, nil, last.Err
	case last.Object.initializers.failed():
		return true, nil, apierrors.FromObject(last.Object.initializers.Result)
	case event.Item == nil:
		return true, nil, apierrors.NewInternalError(errors.New("object deleted while waiting for creation"))
	case last.Object.initializers == nil:
		return true, last.Object.Object, nil
	}
	return false, nil, nil
}

// dropFailed deletes the object of key if its initialization has failed, with
// all that would keep another: nobody who has a finalizer on it has seen it. The
// failure has been stored before, where all servers see it whose creates wait.
func (s *Server) dropFailed(q *request, key storage.Key) error {
	ctx := context.WithoutCancel(q.r.Context())
	for {
		record, err := s.config.Store.Get(ctx, key, 0)
		if errors.Is(err, storage.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		i, err := q.kind.item(record)
		if err != nil || !i.Object.initializers.failed() {
			return err
		}
		written, err := s.config.Store.Commit(ctx, storage.Change{Op: storage.Delete, Key: record.Key, Previous: record.Revision})
		if err == nil {
			s.giveBack(q, i.Object.Object, nil, written.Revision)
		}
		if !errors.Is(err, storage.ErrConflict) && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
	}
}
