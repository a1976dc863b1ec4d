package apiserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/planekit/planekit/apiserver/internal/claims"
	"github.com/planekit/planekit/apiserver/internal/layout"
	"github.com/planekit/planekit/apiserver/internal/ownership"
	"github.com/planekit/planekit/apiserver/internal/wire"
	"github.com/planekit/planekit/storage"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

var allVerbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

// servedKind is a Resource with what is derived from it once.
type servedKind struct {
	Resource
	subresources []subresource

	gvk schema.GroupVersionKind
	gvr schema.GroupVersionResource
	gr  schema.GroupResource
	// stored is how objects are stored; without StoredAs, as they are.
	stored   StoredForm
	root     string // storage prefix of all objects, with the final slash
	held     string // storage prefix of what they hold, with the final slash
	proto    bool   // objects and lists can be written as protobuf
	codec    *wire.Codec
	cache    objects
	watchers atomic.Int64
	metas    metaParts
	forms    forms
	// claims are the names that no two objects may have; nil without Allocation.
	claims *claims.Table
	// shown has those claims that are objects of another kind; nil if there are none.
	shown *shownClaims
	// trackers record who owns the fields, by subresource.
	trackers map[string]func() (*ownership.Tracker, error)
	// equivalents holds, by subresource, the kinds that have the same objects; nil if there are none.
	equivalents map[string]equivalents
	// life counts the requests for a kind that may be removed; nil for all others.
	life *lifetime
	// converter converts objects that are stored in another version; nil without a Converter.
	converter *versionConverter
	// removedRelease is the release of Kubernetes that removes the kind, empty if none does.
	removedRelease string
	// owners is where objects of all kinds share what their managedFields say.
	owners *ownership.Shared
}

// check reports names that are missing or not valid, types that are missing, and columns that cannot be
// shown.
func (r *Resource) check() error {
	switch {
	case r.Version == "" || r.Kind == "" || r.Plural == "":
		return errors.New("version, kind and plural must be set")
	case r.New == nil || r.NewList == nil && r.Answer == nil:
		return errors.New("New and NewList must be set")
	case strings.Contains(r.Plural+r.Version+r.Group, "/"):
		return errors.New("a name contains a slash")
	}
	if problems := validation.IsDNS1123Label(r.Plural); len(problems) > 0 {
		return fmt.Errorf("plural %q: %s", r.Plural, strings.Join(problems, "; "))
	}
	for _, c := range r.Columns {
		if err := c.check(); err != nil {
			return fmt.Errorf("column %q: %w", c.Name, err)
		}
	}
	_, err := meta.Accessor(r.New())
	return err
}

func newKind(r Resource, config *Config, c *wire.Codec) (*servedKind, error) {
	keys := layout.Layout{Prefix: config.Prefix, Below: config.Layout}
	if err := r.check(); err != nil {
		return nil, err
	}
	if r.Answer != nil {
		r.Verbs = []string{"create"}
	} else if _, err := meta.GetItemsPtr(r.NewList()); err != nil {
		return nil, err
	}
	r.Singular = cmp.Or(r.Singular, strings.ToLower(r.Kind))
	r.ListKind = cmp.Or(r.ListKind, r.Kind+"List")
	if len(r.Verbs) == 0 {
		r.Verbs = allVerbs
	}
	stored := StoredForm{Group: r.Group, Version: r.Version, Kind: r.Kind, Plural: r.Plural, New: r.New, versions: r.Versions}
	if r.StoredAs != nil {
		if stored = *r.StoredAs; stored.New == nil || r.Converter == nil && (stored.To == nil || stored.From == nil) {
			return nil, errors.New("StoredAs needs New, To and From")
		}
	}
	root, err := keys.Root(schema.GroupResource{Group: stored.Group, Resource: stored.Plural})
	if err != nil {
		return nil, err
	}
	k := &servedKind{
		Resource: r,
		gvk:      schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind},
		gvr:      schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Plural},
		gr:       schema.GroupResource{Group: r.Group, Resource: r.Plural},
		stored:   stored,
		root:     root,
		held:     keys.Held(schema.GroupResource{Group: r.Group, Resource: r.Plural}),
		proto:    wire.CanProto(r.New()) && wire.CanProto(stored.New()) && (r.Answer != nil || wire.CanProto(r.NewList())),
		codec:    c,
		metas:    newMetaParts(),
	}
	var warning string
	if warning, k.removedRelease = deprecation(k.gvk, r.New(), config.Version); warning != "" {
		k.Warnings = append(slices.Clip(k.Warnings), warning)
	}
	k.addForms()
	if r.Converter != nil {
		k.converter = newVersionConverter(k)
		k.converter.report = config.Hooks.Converted
	}
	for _, one := range r.Subresources {
		sub, err := one.resolve()
		if err != nil {
			return nil, fmt.Errorf("subresource %q: %w", sub.name, err)
		}
		sub.verbs = slices.Sorted(slices.Values(sub.verbs)) // as discovery shows them
		k.subresources = append(k.subresources, sub)
	}
	return k, nil
}

// key is where an object is stored.
func (k *servedKind) key(namespace, name string) storage.Key {
	return storage.Key(k.under(namespace) + name)
}

// under is the prefix of the keys in namespace, or of all.
func (k *servedKind) under(namespace string) string {
	if k.Namespaced && namespace != "" {
		return k.root + namespace + "/"
	}
	return k.root
}

// subresource returns the named subresource, nil if there is none.
func (k *servedKind) subresource(name string) *subresource {
	for i := range k.subresources {
		if k.subresources[i].name == name {
			return &k.subresources[i]
		}
	}
	return nil
}

// subKind is the kind that a subresource takes and shows.
func (k *servedKind) subKind(sub *subresource) schema.GroupVersionKind {
	switch {
	case sub.gvk.Kind == "":
		return k.gvk
	case sub.gvk.Version == "":
		return k.gvk.GroupVersion().WithKind(sub.gvk.Kind)
	}
	return sub.gvk
}

// decode turns a record of a kind without a Converter into an object. The object is shared and must not be
// changed; writers copy it.
func (k *servedKind) decode(record storage.Record) (runtime.Object, error) {
	i, err := k.item(record)
	if err != nil {
		return nil, err
	}
	return i.Object.Object, nil
}

// settle gives a decoded object its type and its revision.
func (k *servedKind) settle(obj runtime.Object, revision storage.Revision) {
	obj.GetObjectKind().SetGroupVersionKind(k.gvk)
	k.standAt(obj, revision)
}

// standAt gives obj, which must still be the caller's alone, the revision at which the
// store has it, and what clients see of it beside that.
func (k *servedKind) standAt(obj runtime.Object, revision storage.Revision) {
	accessor(obj).SetResourceVersion(formatRevision(revision))
	if k.Decorate != nil {
		k.Decorate(obj)
	}
	k.share(obj)
}

// invalidAs returns the kind that errors of invalid objects name: that of the first group which had it.
func (k *servedKind) invalidAs() schema.GroupKind {
	if k.StoredAs != nil {
		return schema.GroupKind{Group: k.StoredAs.Group, Kind: k.StoredAs.Kind}
	}
	return k.gvk.GroupKind()
}

// encode returns what is stored for obj: no resourceVersion, for that is the
// store's, and no selfLink. It removes the latter from obj.
func (k *servedKind) encode(ctx context.Context, obj runtime.Object) ([]byte, error) {
	m := accessor(obj)
	version := m.GetResourceVersion()
	m.SetResourceVersion("")
	m.SetSelfLink("")
	defer m.SetResourceVersion(version)
	obj.GetObjectKind().SetGroupVersionKind(k.gvk)
	obj, err := k.toStored(ctx, obj)
	if err != nil {
		return nil, err
	}
	media := wire.JSON
	if k.proto && !k.StoredJSON {
		media = wire.Proto
	}
	return k.codec.Encode(media, obj)
}

// toStored returns obj as it is stored. The result may share its parts.
func (k *servedKind) toStored(ctx context.Context, obj runtime.Object) (runtime.Object, error) {
	if k.converter != nil {
		return k.converter.toStored(ctx, obj)
	}
	if k.StoredAs == nil {
		return obj, nil
	}
	stored, err := k.stored.To(obj)
	if err != nil {
		return nil, k.unconvertible(err)
	}
	if same := checkIdentity(obj, stored); same != nil {
		return nil, same
	}
	stored.GetObjectKind().SetGroupVersionKind(k.storedKind())
	return stored, nil
}

// decodeStored returns the object in value in the stored version. value is in another version of the
// resource if it was written when objects were stored in that one.
func (k *servedKind) decodeStored(value []byte) (runtime.Object, error) {
	if k.converter != nil {
		obj, _, err := k.codec.DecodeStored(value, k.gvk, k.New())
		return obj, err
	}
	want := k.storedKind()
	obj, got, err := k.codec.DecodeStored(value, want, k.stored.New())
	if got == want || got.GroupKind() != want.GroupKind() {
		return obj, err
	}
	i := versionNamed(k.stored.versions, got.Version)
	if i < 0 {
		return nil, err
	}
	v := &k.stored.versions[i]
	former, _, err := k.codec.DecodeStored(value, got, v.New())
	if err != nil {
		return nil, err
	}
	if v.Default != nil {
		v.Default(former)
	}
	obj, err = v.To(former)
	if err == nil {
		err = checkIdentity(former, obj)
	}
	if err != nil {
		return nil, fmt.Errorf("no %s: %w", want, err)
	}
	obj.GetObjectKind().SetGroupVersionKind(want)
	return obj, nil
}

// fromStored returns what is served of a stored object. The result may share its parts.
func (k *servedKind) fromStored(stored runtime.Object) (runtime.Object, error) {
	if k.StoredAs == nil || k.converter != nil {
		return stored, nil
	}
	obj, err := k.stored.From(stored)
	if err == nil {
		err = checkIdentity(stored, obj)
	}
	if err != nil {
		return nil, fmt.Errorf("no %s: %w", k.gvk, err)
	}
	obj.GetObjectKind().SetGroupVersionKind(k.gvk)
	return obj, nil
}

// checkIdentity returns an error if a conversion has lost what identifies an object.
func checkIdentity(before, after runtime.Object) error {
	was, is := accessor(before), accessor(after)
	if was.GetName() != is.GetName() || was.GetNamespace() != is.GetNamespace() || was.GetUID() != is.GetUID() {
		return fmt.Errorf("the conversion to %T has changed the metadata", after)
	}
	return nil
}

// unconvertible returns the client's error for an object that cannot be stored.
func (k *servedKind) unconvertible(err error) error {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return err
	}
	return badRequest("%s in version %q cannot be handled as a %s: %v", k.Kind, k.gvk.GroupVersion(), k.storedKind().Kind, err)
}

func (k *servedKind) storedKind() schema.GroupVersionKind {
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
