package apiserver

import (
	"errors"
	"slices"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/apiserver/internal/claims"
	"github.com/planekit/planekit/storage"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// addClaims makes the table of what the objects of the kind have, if they have anything.
func (k *servedKind) addClaims(store storage.Store, log logr.Logger) {
	if k.Allocation == nil {
		return
	}
	k.claims = claims.New(claims.Config{
		Store: store, Held: storage.Key(k.held), Objects: storage.Key(k.root), Log: log,
		Names: func(record storage.Record) (types.UID, []string, error) {
			obj, err := k.decode(record)
			if err != nil {
				return "", nil, err
			}
			return accessor(obj).GetUID(), k.Allocation.Names(obj), nil
		},
	})
}

// holds are the names that one attempt to store an object has taken. The nil
// value holds nothing.
type holds struct {
	q       *request
	attempt *claims.Attempt
}

// allocate completes obj with what it needs for itself alone. The caller
// settles what it returns, with an error too.
func (q *request) allocate(obj, old runtime.Object, dryRun bool) (*holds, error) {
	if q.kind.claims == nil || q.sub != nil {
		return nil, nil
	}
	m, ctx := accessor(obj), q.r.Context()
	attempt, err := q.kind.claims.Begin(ctx, q.kind.key(m.GetNamespace(), m.GetName()), m.GetUID())
	if err != nil {
		return nil, err
	}
	take := func(name string) (bool, error) { return attempt.Take(ctx, name, dryRun) }
	return &holds{q, attempt}, q.kind.Allocation.Fill(obj, old, take)
}

// late refuses to store the object if another server may soon take over its claims.
func (h *holds) late() error {
	if h != nil && h.attempt.Late() {
		return apierrors.NewServerTimeout(h.q.kind.gr, h.q.info.Verb, 0)
	}
	return nil
}

// settle gives back what was taken where the object was certainly not stored.
func (h *holds) settle(err error) {
	var status apierrors.APIStatus
	if h == nil || err == nil {
		return
	}
	if errors.As(err, &status) || errors.Is(err, storage.ErrExists) ||
		errors.Is(err, storage.ErrConflict) || errors.Is(err, storage.ErrNotFound) {
		h.attempt.GiveUp(h.q.r.Context())
	}
}

// giveBack releases what old had and obj, nil when it is gone, has not since revision.
func (q *request) giveBack(old, obj runtime.Object, revision storage.Revision) {
	a := q.kind.Allocation
	if a == nil {
		return
	}
	names := a.Names(old)
	if obj != nil {
		kept := a.Names(obj)
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(kept, name) })
	}
	q.kind.claims.Release(q.r.Context(), accessor(old).GetUID(), names, revision)
}
