package apiserver

import (
	"context"
	"errors"
	"slices"

	"github.com/planekit/planekit/apiserver/internal/claims"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/cache"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// addClaims makes the tables of what the objects of the kinds have, if they have anything.
func (t *catalog) addClaims(c *Config) {
	for _, k := range t.kinds {
		if k.Allocation == nil {
			continue
		}
		config := claims.Config{
			Store: c.Store, Held: storage.Key(k.held), Objects: storage.Key(k.root), Log: c.Log,
			Names: func(record storage.Record) (types.UID, []string, error) {
				obj, err := k.decode(record)
				if err != nil {
					return "", nil, err
				}
				return accessor(obj).GetUID(), k.Allocation.Names(obj), nil
			},
		}
		if s := k.Allocation.Shown; s != nil {
			if shown := t.storedKind(s.Resource.Group, s.Resource.Resource); shown != nil && !shown.Namespaced && shown.Converter == nil {
				k.shown = &shownClaims{s, k, shown, namer{c.Identities}}
				config.Shown, config.ShownRoot = k.shown, storage.Key(shown.root)
			}
		}
		k.claims = claims.New(config)
	}
}

// holds are the names that one attempt to store an object has taken. The nil
// value holds nothing.
type holds struct {
	q       *request
	attempt *claims.Attempt
	dryRun  bool
}

// allocate completes obj with what it needs for itself alone. The caller
// settles what it returns, with an error too.
func (s *Server) allocate(q *request, obj, old runtime.Object, dryRun bool) (*holds, error) {
	if q.kind.claims == nil || q.sub != nil {
		return nil, nil
	}
	m := accessor(obj)
	attempt, err := q.kind.claims.Begin(q.r.Context(), q.kind.key(m.GetNamespace(), m.GetName()), m.GetUID(), old != nil)
	if err != nil {
		return nil, err
	}
	h := &holds{q, attempt, dryRun}
	return h, q.kind.Allocation.Fill(obj, old, values{h, s})
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
	var unknown *unknownOutcome
	if h != nil && err != nil && !errors.As(err, &unknown) {
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
	m := accessor(old)
	q.kind.claims.Release(q.r.Context(), q.kind.key(m.GetNamespace(), m.GetName()), m.GetUID(), names, revision)
}

// values implements [Values].
type values struct {
	*holds
	server *Server
}

func (v values) Take(name string) (bool, error) {
	return v.attempt.Take(v.q.r.Context(), name, v.dryRun)
}

func (v values) Taken(now bool) (func(name string) bool, error) {
	shown := v.q.kind.shown
	if shown == nil {
		return func(string) bool { return false }, nil
	}
	ctx := v.q.r.Context()
	if !now {
		return shown.present, shown.kind.cache.Wait(ctx, 0)
	}
	if err := v.q.kind.cache.Wait(ctx, 0); err != nil {
		return nil, err
	}
	state, err := shown.kind.state(ctx)
	return func(name string) bool { return shown.taken(state, name) }, err
}

func (v values) All(resource schema.GroupResource) ([]runtime.Object, error) {
	k := v.server.catalog.Load().storedKind(resource.Group, resource.Resource)
	if k == nil {
		return nil, nil
	}
	state, err := k.state(v.q.r.Context())
	if err != nil {
		return nil, err
	}
	var all []runtime.Object
	for i := range state.All(storage.Key(k.root), "") {
		if i.Err == nil {
			all = append(all, i.Object.Object)
		}
	}
	return all, nil
}

// state returns the objects of a kind with every change that was acknowledged before, or the newest
// that are known if the store does not send these in time.
func (k *servedKind) state(ctx context.Context) (cache.Snapshot[*object], error) {
	state, err := k.cache.Current(ctx)
	if errors.Is(err, cache.ErrBehind) {
		return k.cache.Latest(), nil
	}
	return state, err
}
