package apiserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/apiserver/internal/initialize"
	"github.com/planekit/planekit/apiserver/internal/wire"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/internal/invalid"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/cache"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Initializers returns the names of the initializers that a new object waits for before all
// clients see it, in the order in which they act; usually there are none. in is the create as
// mutating admission has left it. Errors are treated as those of admission. It must be safe for
// concurrent use. Package admission/initializers has one.
type Initializers interface {
	Pending(ctx context.Context, in *admission.Request) ([]string, error)
}

// initializing is all that the rest of the server knows of initializers. Beside it, the server knows
// that an object may be hidden. A request asks
//
//   - while it reads what the client sent: read, or patch;
//   - before it stores the object: decide;
//   - after it has stored the object: finish.
type initializing struct {
	initializers Initializers // nil if there are none
	store        storage.Store
	stopping     context.Context // done when the server takes no more requests
	guard        *guard
}

// hidden is why an object is hidden: the initializers for which it waits. A nil pointer means
// that the object is visible.
type hidden = initialize.State

// hiding holds what a request says and does about its object being hidden.
type hiding struct {
	// said holds what the client has sent.
	said initialize.Said
	// was is the state of the stored object, is the state after the request.
	was, is *hidden
}

// initializeTimeout is how long a create waits for the initializers.
const initializeTimeout = 30 * time.Second

// includesHidden reports whether the client wants to see hidden objects.
func (q *request) includesHidden() bool {
	if !strings.Contains(q.r.URL.RawQuery, "includeUninitialized") { // as in almost all requests
		return false
	}
	values := q.r.URL.Query()["includeUninitialized"]
	return len(values) > 0 && values[0] != "false" && values[0] != "0" // how Kubernetes reads booleans
}

// concerns reports whether the request can say something of initializers.
func (z *initializing) concerns(q *request) bool { return z.initializers != nil && q.sub == nil }

// read reads what the body of a request for an object says.
func (z *initializing) read(q *request, data []byte, media string) (err error) {
	q.hiding.said = initialize.Said{}
	if !z.concerns(q) || !initialize.Mentioned(data) {
		return nil
	}
	switch media {
	case wire.YAML:
		if data, _, err = wire.YAMLToJSON(q.r.Context(), data, false); err != nil {
			return badRequest("error decoding YAML: %v", err)
		}
	case wire.Proto: // which does not have the field
		return nil
	}
	q.hiding.said, err = initialize.Read(data)
	return clientError(err)
}

// patch returns what apply makes of view, and reads what the patch says. apply gets the patch without
// that, and the object to which it must apply the patch if it applies it to a whole object.
func (z *initializing) patch(q *request, media types.PatchType, patch []byte, view runtime.Object, apply func(patch []byte, whole runtime.Object) ([]byte, error)) ([]byte, error) {
	q.hiding.said = initialize.Said{}
	if !z.concerns(q) {
		return apply(patch, view)
	}
	if media == types.JSONPatchType {
		result, err := apply(patch, initialize.Show(view, q.hiding.was))
		if err != nil {
			return nil, err
		}
		q.hiding.said, err = q.hiding.was.ReadPatched(result)
		return result, clientError(err)
	}
	var err error
	patch, q.hiding.said, err = q.hiding.was.Patch(q.r.Context(), patch, media == types.StrategicMergePatchType, wire.MaxDepth)
	if err != nil {
		return nil, clientError(err)
	}
	return apply(patch, view)
}

// clientError returns err as a 400.
func clientError(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return badRequest("%v", err)
}

// decide decides what the object waits for after the request. in is the create of a new object as
// mutating admission has left it, nil for a change of the object that is there.
func (z *initializing) decide(q *request, in *admission.Request) error {
	if in != nil {
		return z.decideNew(q, in)
	}
	return z.decideNext(q)
}

// decideNew decides what a new object waits for: the initializers that it names, if its creator
// may do that, or else the configured ones.
func (z *initializing) decideNew(q *request, in *admission.Request) error {
	q.hiding.was, q.hiding.is = nil, nil
	if z.initializers == nil {
		return nil
	}
	if said := q.hiding.said; said.Said {
		if err := z.mayInitialize(q, in.Name, "create with initializers denied"); err != nil {
			return err
		}
		if errs := initialize.CheckNew(said.State); len(errs) > 0 {
			return invalid.Object(q.kind.gvk.GroupKind(), in.Name, errs)
		}
		q.hiding.is = said.State
	} else {
		names, err := z.initializers.Pending(q.r.Context(), in)
		if err != nil {
			return refused(q, in, err)
		}
		q.hiding.is = initialize.New(names)
	}
	q.auditInitializers("pending", q.hiding.is.Names())
	return nil
}

// decideNext decides what the request's object waits for after it: as before unless the request
// says otherwise. Only users with the verb initialize may change a hidden object.
func (z *initializing) decideNext(q *request) error {
	was, next := q.hiding.was, q.hiding.was
	if q.hiding.said.Said {
		next = q.hiding.said.State
	}
	q.hiding.is = next
	if was == nil && next == nil {
		return nil
	}
	if err := z.mayInitialize(q, q.info.Name, "update to uninitialized resource denied"); err != nil {
		return err
	}
	if errs := initialize.CheckNext(was, next); len(errs) > 0 {
		return invalid.Object(q.kind.gvk.GroupKind(), q.info.Name, errs)
	}
	acting := was.Names()[:min(1, len(was.Pending))]
	switch {
	case next.Failed() && !was.Failed():
		q.auditInitializers("failed", acting)
	case next == nil || len(next.Pending) < len(was.Pending):
		q.auditInitializers("completed", acting)
	}
	return nil
}

// auditInitializers records in the audit which initializers are pending, or which one has acted
// or failed.
func (q *request) auditInitializers(what string, names []string) {
	if len(names) > 0 {
		q.annotate("initializers.admission.k8s.io/"+what, strings.Join(names, ","))
	}
}

// mayInitialize asks whether the user has the verb initialize for the object.
func (z *initializing) mayInitialize(q *request, name, otherwise string) error {
	info := q.info
	info.Verb, info.Name, info.Subresource = "initialize", name, ""
	a := info.Attributes(q.user)
	decision, reason, err := z.guard.authorizer.Authorize(q.r.Context(), a)
	if decision == authz.Allow {
		return nil
	}
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	return apierrors.NewForbidden(q.kind.gr, name, fmt.Errorf("%s: %s", otherwise, forbidden(a, reason)))
}

// finish does what is to be done once obj is stored. If it is new and hidden, finish waits until all
// initializers have acted on it, and returns the object that they have left, or why there is none; a
// request that includes hidden objects does not wait. If an initializer has failed, finish deletes the
// object. A dry run does nothing.
func (z *initializing) finish(q *request, obj runtime.Object, dryRun bool) (runtime.Object, error) {
	switch {
	case q.hiding.is == nil || dryRun:
		return obj, nil
	case q.hiding.is.Failed():
		return obj, z.dropFailed(q, q.key())
	case q.hiding.was != nil || q.includesHidden():
		return obj, nil
	}
	return z.await(q, obj)
}

// await waits until all initializers have acted on the new object.
func (z *initializing) await(q *request, obj runtime.Object) (runtime.Object, error) {
	q.call.leave() // Initializers need seats as well.
	m := accessor(obj)
	revision, err := parseRevision(m.GetResourceVersion())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(q.r.Context(), initializeTimeout)
	defer cancel()
	defer context.AfterFunc(z.stopping, cancel)()
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
				q.hiding.is = nil
				if failure != nil {
					// The initializer's own request drops it, too, but maybe after this
					// response, and the client must not find the object after that.
					if err := z.dropFailed(q, key); err != nil {
						return nil, err
					}
				}
				if failure != nil {
					return nil, failure
				}
				shown, err := q.kind.converted(ctx, []*item{last})
				if err != nil {
					return nil, err
				}
				return shown[0].Object.Object, shown[0].Err
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

// outcome returns what an event means to a create that waits for its object.
func outcome(event *cache.Event[*object]) (done bool, is *item, err error) {
	last := event.Item
	if last == nil {
		last = event.Previous
	}
	switch {
	case last.Err != nil:
		return true, nil, last.Err
	case last.Object.hidden.Failed():
		return true, nil, apierrors.FromObject(last.Object.hidden.Result)
	case event.Item == nil:
		return true, nil, apierrors.NewInternalError(errors.New("object deleted while waiting for creation"))
	case last.Object.hidden == nil:
		return true, last, nil
	}
	return false, nil, nil
}

// dropFailed deletes the object of key if its initialization has failed, whatever finalizers it
// has: their controllers have not seen it. The failure was stored before, so that all servers
// with a waiting create see it.
func (z *initializing) dropFailed(q *request, key storage.Key) error {
	ctx := context.WithoutCancel(q.r.Context())
	for {
		record, err := z.store.Get(ctx, key, 0)
		if errors.Is(err, storage.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		i, err := q.kind.item(record)
		if err != nil || !i.Object.hidden.Failed() {
			return err
		}
		written, err := z.store.Commit(ctx, storage.Change{Op: storage.Delete, Key: record.Key, Previous: record.Revision})
		if err == nil {
			q.giveBack(i.Object.Object, nil, written.Revision)
		}
		if !errors.Is(err, storage.ErrConflict) && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
	}
}

// encodeHidden returns what is stored for obj with state h.
func (k *servedKind) encodeHidden(ctx context.Context, obj runtime.Object, h *hidden) ([]byte, error) {
	data, err := k.encode(ctx, obj)
	if err != nil || h == nil {
		return data, err
	}
	return initialize.Prepend(h, data)
}

// cutHidden splits a stored value into why its object is hidden and the object.
func cutHidden(value []byte) (*hidden, []byte, error) { return initialize.Cut(value) }

// shown returns obj in the form in which it is written as JSON while it is hidden.
func shown(obj runtime.Object, h *hidden) runtime.Object { return initialize.Show(obj, h) }
