package apiserver

import (
	"context"
	"errors"
	"slices"

	"github.com/planekit/planekit/storage"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// deleteThrough deletes the request's object as its subresource says to. It asks
// anew when the object has changed in between, but never deletes another of the
// same name that came after it.
func (s *Server) deleteThrough(q *request, body runtime.Object, dryRun bool) error {
	one := *q
	one.sub = nil
	for {
		before, err := s.read(q.r.Context(), &one, "")
		if err != nil {
			return err
		}
		parent := before.Object.Object
		o, conflict := q.sub.Delete(q.r.Context(), parent, body, others{s, q.info.Namespace, dryRun})
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
		now, err := s.read(q.r.Context(), &one, "")
		if err != nil {
			return err
		}
		if accessor(now.Object.Object).GetUID() != accessor(parent).GetUID() || now.Revision == before.Revision {
			return conflict
		}
	}
}

// others are what a server has in a namespace.
type others struct {
	s         *Server
	namespace string
	dryRun    bool
}

func (o others) kind(name, plural string) *kind {
	i := slices.IndexFunc(o.s.groups, func(g *group) bool { return g.name == name })
	if i < 0 {
		return nil
	}
	for _, version := range o.s.groups[i].versions {
		if k := o.s.kinds[schema.GroupVersionResource{Group: name, Version: version, Resource: plural}]; k != nil {
			return k
		}
	}
	return nil
}

func (o others) List(ctx context.Context, group, plural string) ([]runtime.Object, error) {
	k := o.kind(group, plural)
	if k == nil {
		return nil, nil
	}
	page, err := o.s.config.Store.List(ctx, storage.Key(k.under(o.namespace)), storage.ListOptions{})
	if err != nil {
		return nil, err
	}
	var out []runtime.Object
	for _, record := range page.Records {
		i, err := k.item(record)
		if err != nil {
			return nil, err
		}
		if i.Object.initializers == nil {
			out = append(out, i.Object.Object)
		}
	}
	return out, nil
}

func (o others) Get(ctx context.Context, group, plural, name string) (runtime.Object, error) {
	resource := schema.GroupResource{Group: group, Resource: plural}
	k := o.kind(group, plural)
	if k == nil {
		return nil, apierrors.NewNotFound(resource, name)
	}
	record, err := o.s.config.Store.Get(ctx, k.key(o.namespace, name), 0)
	if err != nil {
		return nil, storageError(err, resource, name)
	}
	i, err := k.item(record)
	if err != nil {
		return nil, err
	}
	if i.Object.initializers != nil {
		return nil, apierrors.NewNotFound(resource, name)
	}
	return i.Object.Object, nil
}

func (o others) Update(ctx context.Context, group, plural string, obj runtime.Object) error {
	k, m := o.kind(group, plural), accessor(obj)
	if k == nil {
		return apierrors.NewNotFound(schema.GroupResource{Group: group, Resource: plural}, m.GetName())
	}
	revision, err := parseRevision(m.GetResourceVersion())
	if err != nil || o.dryRun {
		return err
	}
	data, err := k.encode(obj)
	if err != nil {
		return err
	}
	change := storage.Change{Op: storage.Update, Key: k.key(o.namespace, m.GetName()), Value: data, Previous: revision}
	written, err := o.s.config.Store.Commit(ctx, change)
	if errors.Is(err, storage.ErrConflict) || errors.Is(err, storage.ErrNotFound) {
		return storageError(err, k.gr, m.GetName())
	}
	if err == nil {
		k.standAt(obj, written.Revision)
		k.cache.put(change.Key, written.Revision, obj, nil)
	}
	return err
}
