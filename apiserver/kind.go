package apiserver

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/planekit/planekit/apiserver/internal/ownership"
	"github.com/planekit/planekit/storage"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var allVerbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

// kind is a Resource with what is derived from it once.
type kind struct {
	Resource
	subresources []subresource

	gvk schema.GroupVersionKind
	gvr schema.GroupVersionResource
	gr  schema.GroupResource
	// stored is how objects are stored; without From and Into, as they are.
	stored   Stored
	root     string // storage prefix of all objects, with the final slash
	held     string // storage prefix of what they hold, with the final slash
	proto    bool   // objects and lists can be written as protobuf
	codec    *codec
	cache    objects
	watchers atomic.Int64
	metas    metaParts
	wire     wire
	adoption adoption
	// trackers record who owns the fields, by subresource.
	trackers map[string]func() (*ownership.Tracker, error)
	// owners is where objects of all kinds share what their managedFields say.
	owners *ownership.Shared
}

// group is an API group as discovery shows it, versions in the order given.
type group struct {
	name     string
	versions []string
}

func (s *Server) addKinds(resources []Resource) error {
	stored := map[schema.GroupResource]bool{}
	keys := layout{s.config.Prefix, s.config.Layout}
	for _, r := range resources {
		k, err := newKind(r, keys, s.codec)
		if err == nil {
			err = k.addCache(s.feed)
		}
		if err != nil {
			return fmt.Errorf("resource %s/%s %s: %w", r.Group, r.Version, r.Plural, err)
		}
		if stored[k.gr] {
			return fmt.Errorf("resource %s is given twice; it is stored and served in one version", k.gr)
		}
		stored[k.gr] = true
		s.kinds[k.gvr] = k
		s.addGroup(r.Group, r.Version)
	}
	s.addTrackers()
	return s.checkPlaces()
}

func (s *Server) addGroup(name, version string) {
	i := slices.IndexFunc(s.groups, func(g *group) bool { return g.name == name })
	if i < 0 {
		s.groups = append(s.groups, &group{name: name, versions: []string{version}})
		return
	}
	if g := s.groups[i]; !slices.Contains(g.versions, version) {
		g.versions = append(g.versions, version)
	}
}

func newKind(r Resource, keys layout, c *codec) (*kind, error) {
	switch {
	case r.Version == "" || r.Kind == "" || r.Plural == "":
		return nil, errors.New("version, kind and plural must be set")
	case r.New == nil || r.NewList == nil && r.Answer == nil:
		return nil, errors.New("New and NewList must be set")
	case strings.Contains(r.Plural+r.Version+r.Group, "/"):
		return nil, errors.New("a name contains a slash")
	}
	if _, err := meta.Accessor(r.New()); err != nil {
		return nil, err
	}
	if r.Answer != nil {
		r.Verbs = []string{"create"}
	} else if _, err := meta.GetItemsPtr(r.NewList()); err != nil {
		return nil, err
	}
	r.Singular = cmp.Or(r.Singular, strings.ToLower(r.Kind))
	if len(r.Verbs) == 0 {
		r.Verbs = allVerbs
	}
	stored := Stored{Group: r.Group, Version: r.Version, Kind: r.Kind, Plural: r.Plural, New: r.New}
	if r.StoredAs != nil {
		stored = *r.StoredAs
	}
	root, err := keys.root(schema.GroupResource{Group: stored.Group, Resource: stored.Plural})
	if err != nil {
		return nil, err
	}
	k := &kind{
		Resource: r,
		gvk:      schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind},
		gvr:      schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Plural},
		gr:       schema.GroupResource{Group: r.Group, Resource: r.Plural},
		stored:   stored,
		root:     root,
		held:     keys.held(schema.GroupResource{Group: r.Group, Resource: r.Plural}),
		proto:    canProto(r.New()) && canProto(stored.New()) && (r.Answer != nil || canProto(r.NewList())),
		codec:    c,
		metas:    newMetaParts(),
		adoption: newAdoption(),
	}
	k.addWire()
	for _, one := range r.Subresources {
		sub, err := one.subresource()
		if err != nil {
			return nil, fmt.Errorf("subresource %q: %w", sub.Name, err)
		}
		k.subresources = append(k.subresources, sub)
	}
	return k, nil
}

// key is where an object is stored.
func (k *kind) key(namespace, name string) storage.Key {
	return storage.Key(k.under(namespace) + name)
}

// under is the prefix of the keys in namespace, or of all.
func (k *kind) under(namespace string) string {
	if k.Namespaced && namespace != "" {
		return k.root + namespace + "/"
	}
	return k.root
}

// subresource returns the named subresource, nil if there is none.
func (k *kind) subresource(name string) *subresource {
	for i := range k.subresources {
		if k.subresources[i].Name == name {
			return &k.subresources[i]
		}
	}
	return nil
}

// subKind is the kind that a subresource takes and shows.
func (k *kind) subKind(sub *subresource) schema.GroupVersionKind {
	if sub.Kind == "" {
		return k.gvk
	}
	if sub.Version == "" {
		return schema.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: sub.Kind}
	}
	return schema.GroupVersionKind{Group: sub.Group, Version: sub.Version, Kind: sub.Kind}
}

// decode turns a record into an object. The object is shared and must not be
// changed; writers copy it.
func (k *kind) decode(record storage.Record) (runtime.Object, error) {
	i, err := k.item(record)
	if err != nil {
		return nil, err
	}
	return i.Object.Object, nil
}

// settle gives a decoded object its type and its revision.
func (k *kind) settle(obj runtime.Object, revision storage.Revision) {
	obj.GetObjectKind().SetGroupVersionKind(k.gvk)
	k.standAt(obj, revision)
}

// standAt makes obj what clients see of the object that the store has at
// revision. Nobody else has obj yet.
func (k *kind) standAt(obj runtime.Object, revision storage.Revision) {
	accessor(obj).SetResourceVersion(formatRevision(revision))
	if k.Decorate != nil {
		k.Decorate(obj)
	}
	k.share(obj)
}

// encode returns what is stored for obj: no resourceVersion, for that is the
// store's.
func (k *kind) encode(obj runtime.Object) ([]byte, error) {
	m := accessor(obj)
	version := m.GetResourceVersion()
	m.SetResourceVersion("")
	defer m.SetResourceVersion(version)
	obj.GetObjectKind().SetGroupVersionKind(k.gvk)
	if k.StoredAs != nil {
		obj = k.stored.Into(obj)
		obj.GetObjectKind().SetGroupVersionKind(k.storedKind())
	}
	media := mediaJSON
	if k.proto {
		media = mediaProto
	}
	return k.codec.encode(media, obj)
}

func (k *kind) storedKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: k.stored.Group, Version: k.stored.Version, Kind: k.stored.Kind}
}

// accessor returns the metadata of an object whose type newKind has checked.
func accessor(obj runtime.Object) metav1.Object {
	m, err := meta.Accessor(obj)
	if err != nil {
		panic(err)
	}
	return m
}
