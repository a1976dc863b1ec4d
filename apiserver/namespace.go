package apiserver

import (
	"context"
	"errors"

	"github.com/planekit/planekit/storage"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Namespace reads and writes the objects of all resources in the namespace of a request, as they
// are stored now.
type Namespace interface {
	// List returns the objects of a resource; none of one that is not served. They
	// are shared and must not be changed.
	List(ctx context.Context, group, plural string) ([]runtime.Object, error)
	// Get returns one object of a resource as it is stored now. It is shared and must
	// not be changed. Get fails with NotFound where there is none.
	Get(ctx context.Context, group, plural, name string) (runtime.Object, error)
	// Update stores a changed copy of one of them, which is the server's from then
	// on, without admission. It fails with a Conflict when the object has changed since it was read.
	Update(ctx context.Context, group, plural string, obj runtime.Object) error
}

// objectsIn is the Namespace of a server. In a dry run it changes nothing.
type objectsIn struct {
	s         *Server
	namespace string
	dryRun    bool
}

func (o objectsIn) List(ctx context.Context, group, plural string) ([]runtime.Object, error) {
	k := o.s.catalog.storedKind(group, plural)
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
		if i.Object.hidden == nil {
			out = append(out, i.Object.Object)
		}
	}
	return out, nil
}

func (o objectsIn) Get(ctx context.Context, group, plural, name string) (runtime.Object, error) {
	resource := schema.GroupResource{Group: group, Resource: plural}
	k := o.s.catalog.storedKind(group, plural)
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
	if i.Object.hidden != nil {
		return nil, apierrors.NewNotFound(resource, name)
	}
	return i.Object.Object, nil
}

func (o objectsIn) Update(ctx context.Context, group, plural string, obj runtime.Object) error {
	k, m := o.s.catalog.storedKind(group, plural), accessor(obj)
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
