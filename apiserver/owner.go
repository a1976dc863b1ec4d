package apiserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"unicode"

	"github.com/planekit/planekit/apiserver/internal/documents"
	"github.com/planekit/planekit/apiserver/internal/openapi"
	"github.com/planekit/planekit/apiserver/internal/ownership"
	"github.com/planekit/planekit/apiserver/internal/wire"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// maxManager bounds the names of field managers, as in Kubernetes.
const maxManager = 128

// addTrackers lets every stored kind know who owns its fields. How types merge
// is read from their schemas at the first write to a group version.
func (t *catalog) addTrackers() {
	types := map[schema.GroupVersion]func() (*ownership.Types, error){}
	for _, g := range t.groups {
		whole := t.typesOf(g.Name, g.Versions...)
		for _, v := range g.Versions {
			gv := schema.GroupVersion{Group: g.Name, Version: v}
			types[gv] = t.typesOf(g.Name, v)
			if t.converts(gv) {
				types[gv] = whole
			}
		}
	}
	shared := t.owners
	for _, k := range t.kinds {
		k.owners = shared
		k.addTrackers(types[k.gvk.GroupVersion()], t.versionsOf(k))
	}
}

// trackAdded lets kinds, all versions of one resource that is not one of Config, know who owns their
// fields. Their types are forgotten with them.
func (t *catalog) trackAdded(kinds []*servedKind, shared *ownership.Shared) {
	var all []documents.Resource
	for _, k := range kinds {
		all = append(all, k.described())
	}
	types := sync.OnceValues(func() (*ownership.Types, error) {
		definitions, err := openapi.Definitions(documents.OpenAPI(all))
		if err != nil {
			return nil, err
		}
		return ownership.NewTypes(definitions)
	})
	for _, k := range kinds {
		k.owners = shared
		k.addTrackers(types, kinds)
	}
}

// typesOf reads the schemas of versions of a group when it is first called.
func (t *catalog) typesOf(group string, versions ...string) func() (*ownership.Types, error) {
	return sync.OnceValues(func() (*ownership.Types, error) {
		var all []openapi.Resource
		for _, v := range versions {
			all = append(all, documents.OpenAPI(t.Resources(group, v))...)
		}
		return readTypes(all)
	})
}

// converts reports whether gv has a kind that is served in several versions.
func (t *catalog) converts(gv schema.GroupVersion) bool {
	for _, k := range t.kindsOf(gv.Group, gv.Version) {
		if len(t.versionsOf(k)) > 1 {
			return true
		}
	}
	return false
}

func (k *servedKind) addTrackers(types func() (*ownership.Types, error), all []*servedKind) {
	c := ownership.Config{Kind: k.gvk, New: k.New, Default: k.Strategy.Default, Ignored: k.resets(), Shared: k.owners}
	if len(all) > 1 {
		for _, other := range all {
			c.Versions = append(c.Versions, ownership.Version{Kind: other.gvk, New: other.New})
		}
		c.Convert = func(ctx context.Context, obj runtime.Object, to schema.GroupVersionKind) (runtime.Object, error) {
			if k.converter != nil {
				return k.converter.convertOwned(ctx, obj, to)
			}
			return convert(ctx, obj, to, all)
		}
	}
	k.trackers = map[string]func() (*ownership.Tracker, error){"": newTracker(types, c)}
	for i := range k.subresources {
		sub := &k.subresources[i]
		status, _ := as[Status](sub)
		c.Subresource, c.Ignored = sub.name, status.Resets
		k.trackers[sub.name] = newTracker(types, c)
		if view, ok := as[View](sub); ok && view.Replicas != "" {
			k.trackers[viewOf(sub)] = newTracker(types, ownership.Config{
				Kind: k.subKind(sub), Subresource: sub.name, New: view.New, Shared: k.owners,
			})
			sub.replicas = k.replicas(sub.name, all)
		}
	}
}

// replicas returns the paths of the field that a subresource of all, the served versions of the kind, shows
// as spec.replicas. Other versions have owners, too, from the time when they were served.
func (k *servedKind) replicas(sub string, all []*servedKind) ownership.Replicas {
	out := ownership.Replicas{}
	add := func(version string, subresources []Subresource) {
		gv := schema.GroupVersion{Group: k.Group, Version: version}
		out[gv] = ""
		for _, one := range subresources {
			if view, ok := one.(View); ok && view.Name == sub {
				out[gv] = view.Replicas
			}
		}
	}
	if k.StoredAs != nil {
		add(k.stored.Version, k.stored.subresources)
	}
	for _, v := range k.stored.versions {
		add(v.Name, v.Subresources)
	}
	for name, form := range k.storedForms {
		add(name, form.subresources)
	}
	for _, other := range all {
		add(other.Version, other.Resource.Subresources)
	}
	return out
}

// convert converts obj, of one of kinds, to another of them.
func convert(ctx context.Context, obj runtime.Object, to schema.GroupVersionKind, kinds []*servedKind) (runtime.Object, error) {
	from, into := (*servedKind)(nil), (*servedKind)(nil)
	for _, k := range kinds {
		if k.gvk == obj.GetObjectKind().GroupVersionKind() {
			from = k
		}
		if k.gvk == to {
			into = k
		}
	}
	if from == nil || into == nil {
		return nil, fmt.Errorf("no conversion from %s to %s", obj.GetObjectKind().GroupVersionKind(), to)
	}
	stored, err := from.toStored(ctx, obj)
	if err != nil {
		return nil, err
	}
	return into.fromStored(stored)
}

// typesRead holds the result of every call of readTypes, by the key of its resources: tests run
// many servers in one process, and reading the built-in schemas is a third of a server's start.
// The entries stay, because the kinds of a server are fixed and few sets of them occur.
var typesRead sync.Map // string to func() (*ownership.Types, error)

// readTypes returns how the types of resources merge.
func readTypes(resources []openapi.Resource) (*ownership.Types, error) {
	read, _ := typesRead.LoadOrStore(openapi.DefinitionsKey(resources), sync.OnceValues(func() (*ownership.Types, error) {
		definitions, err := openapi.Definitions(resources)
		if err != nil {
			return nil, err
		}
		return ownership.NewTypes(definitions)
	}))
	return read.(func() (*ownership.Types, error))()
}

// viewOf names the tracker of what a subresource shows, which is a type of its own.
func viewOf(sub *subresource) string { return sub.name + "/" + sub.gvk.Kind }

func newTracker(types func() (*ownership.Types, error), c ownership.Config) func() (*ownership.Tracker, error) {
	return sync.OnceValues(func() (*ownership.Tracker, error) {
		var err error
		if c.Types, err = types(); err != nil {
			return nil, err
		}
		return ownership.New(c)
	})
}

func (k *servedKind) resets() []string {
	if k.Resets == nil && k.subresource("status") != nil {
		return []string{"status"}
	}
	return k.Resets
}

// tracker follows changes made through the named subresource, or the object's
// own path where that is empty.
func (k *servedKind) tracker(sub string) (*ownership.Tracker, error) {
	made := k.trackers[sub]
	if made == nil {
		return nil, errors.New("apiserver: no tracker of " + k.Kind + "/" + sub)
	}
	return made()
}

// tracker returns the tracker of the kind, bound to the request if it has to convert objects.
func (q *request) tracker(sub string) (*ownership.Tracker, error) {
	t, err := q.kind.tracker(sub)
	if err != nil || q.kind.converter == nil {
		return t, err
	}
	return t.WithContext(q.r.Context())
}

// applier returns the tracker for an apply. It completes the merged object within the budget of the request.
func (q *request) applier(sub string) (*ownership.Tracker, error) {
	t, err := q.kind.tracker(sub)
	_, bounded := q.kind.New().(wire.Bounded)
	if err != nil || q.kind.converter == nil && !bounded {
		return t, err
	}
	return t.WithContext(q.r.Context())
}

// ownNew makes manager the owner of what a new object says. An object with list items
// that cannot be distinguished is stored without owners.
func (s *Server) ownNew(q *request, obj runtime.Object, manager string) {
	tracker, err := q.tracker("")
	if err == nil {
		err = tracker.Create(obj, q.manager(manager))
	}
	s.ownerless(q, obj, err)
}

// own makes manager the owner of the fields in which obj differs from old.
func (s *Server) own(q *request, old, obj runtime.Object, manager string) {
	tracker, err := q.tracker(q.info.Subresource)
	if err == nil {
		err = tracker.Update(old, obj, q.manager(manager))
	}
	s.ownerless(q, obj, err)
}

func (s *Server) ownerless(q *request, obj runtime.Object, err error) {
	if err == nil {
		return
	}
	s.config.Log.Error(err, "owners of fields are lost", "resource", q.kind.gr.String(), "object", q.info.Namespace+"/"+q.info.Name)
	accessor(obj).SetManagedFields(nil)
}

// manager is the name under which the request's changes are recorded: the one
// given, or the client's program as its User-Agent begins.
func (q *request) manager(given string) string {
	if given != "" {
		return given
	}
	name, _, _ := strings.Cut(q.r.UserAgent(), "/")
	name = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, name)
	if len(name) > maxManager {
		name = strings.ToValidUTF8(name[:maxManager], "")
	}
	return cmp.Or(name, "unknown")
}
