// Package ownership maintains metadata.managedFields: which manager last set each field of an
// object. Server-side apply is built on it
// (https://kubernetes.io/docs/reference/using-api/server-side-apply/).
//
// apimachinery merges the objects of an apply. This package supplies the types, and the version of
// an object without converting it to maps.
//
// Creates and updates merge nothing. For them, this package finds the changed fields in the Go
// structs, by a plan that is made once for each type and its schema, or in the JSON of objects that
// have no Go type, by the schema. The result is byte for byte what apimachinery would write. Fields of unusual types, and objects with entries of another
// version, are left to apimachinery.
package ownership

import (
	"context"
	"fmt"
	"reflect"
	"sync/atomic"

	"github.com/planekit/planekit/internal/budget"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	smdschema "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// Config describes what is tracked: objects of one type, changed through their
// own path or through one subresource.
type Config struct {
	Kind        schema.GroupVersionKind
	Subresource string
	// New returns an empty object of the Go type.
	New func() runtime.Object
	// Default completes a merged object; may be nil.
	Default func(runtime.Object)
	// Types knows how the fields of the type merge.
	Types *Types
	// Ignored are the paths of fields that requests here cannot change, such as
	// status or metadata.ownerReferences. Trying makes no manager their owner.
	Ignored []string
	// Versions are all versions of the kind, if there are several, and Convert converts an object
	// of one of them to another. What it returns may share parts of obj.
	Versions []Version
	Convert  func(ctx context.Context, obj runtime.Object, to schema.GroupVersionKind) (runtime.Object, error)
	// Shared is where texts of managedFields are shared; nil is a place of its own.
	Shared *Shared
}

// Version is one version of a kind.
type Version struct {
	Kind schema.GroupVersionKind
	// New returns an empty object of the version's Go type.
	New func() runtime.Object
}

// Tracker tracks the changes of one kind through one path. It is safe for
// concurrent use.
type Tracker struct {
	fields *managedfields.FieldManager
	config Config
	// The remaining fields let most updates go without fields.
	version string
	goType  reflect.Type
	plan    *plan              // nil: there is no other way, unless root is set
	root    *smdschema.TypeRef // of objects that are not of a Go type
	schema  *smdschema.Schema
	nothing *typed.TypedValue
	mask    mask
	shared  *Shared
	sets    recent[*known]
	// detours counts the updates that fields handled.
	detours atomic.Int64
}

// New returns a tracker.
func New(c Config) (*Tracker, error) {
	version := c.Kind.GroupVersion()
	if len(c.Versions) == 0 {
		c.Versions = []Version{{c.Kind, c.New}}
	}
	fields, err := c.manager(context.Background())
	if err != nil {
		return nil, err
	}
	t := &Tracker{fields: fields, config: c, version: version.String(), mask: maskOf(c.Ignored), shared: c.Shared}
	if t.shared == nil {
		t.shared = &Shared{}
	}
	return t, t.compile()
}

// WithContext returns a tracker of the same kind for one change: Config.Convert gets ctx, and objects are
// completed within its budget.
func (t *Tracker) WithContext(ctx context.Context) (*Tracker, error) {
	fields, err := t.config.manager(ctx)
	if err != nil {
		return nil, err
	}
	return &Tracker{fields: fields, config: t.config, version: t.version, mask: t.mask, shared: t.shared}, nil
}

// manager returns apimachinery's field manager, which converts with ctx.
func (c Config) manager(ctx context.Context) (*managedfields.FieldManager, error) {
	ignored := fieldpath.NewSet()
	for _, name := range c.Ignored {
		ignored.Insert(pathOf(name))
	}
	version, one := c.Kind.GroupVersion(), versioned{c, ctx}
	fields, err := managedfields.NewDefaultFieldManager(c.Types, one, one, one, c.Kind, version, c.Subresource,
		map[fieldpath.APIVersion]fieldpath.Filter{
			fieldpath.APIVersion(version.String()): fieldpath.NewExcludeSetFilter(ignored),
		})
	if err != nil {
		return nil, fmt.Errorf("ownership of %s: %w", c.Kind, err)
	}
	return fields, nil
}

// compile prepares for direct updates.
func (t *Tracker) compile() error {
	empty := t.config.empty()
	kind, known := t.config.Types.kinds[t.config.Kind]
	t.goType = reflect.TypeOf(empty)
	if !known || t.goType.Kind() != reflect.Pointer {
		return nil
	}
	nothing, err := t.config.Types.ObjectToTyped(empty, typed.AllowDuplicates)
	if err != nil {
		return err
	}
	t.nothing, t.schema = nothing, kind.Schema
	if _, ok := empty.(runtime.Unstructured); ok {
		t.root = &kind.TypeRef
	} else {
		t.plan = t.config.Types.plan(t.goType.Elem(), kind)
	}
	return nil
}

// Create makes manager the owner of all fields of obj, which is new.
func (t *Tracker) Create(obj runtime.Object, manager string) error {
	return t.Update(t.config.empty(), obj, manager)
}

// Update makes manager the owner of the fields in which obj differs from live. The managedFields of
// obj are kept if they can be decoded; an empty list ends tracking. live is not changed.
func (t *Tracker) Update(live, obj runtime.Object, manager string) error {
	t.bound(live, obj)
	if t.direct(live, obj, manager) {
		return nil
	}
	t.detours.Add(1)
	_, err := t.fields.Update(live, obj, manager)
	return err
}

// Apply merges patch into live and makes manager the owner of the fields in patch. Without force,
// it returns an API status error if patch changes fields of other owners. live is nil if there is
// no object. The result is a new object.
func (t *Tracker) Apply(live runtime.Object, patch *unstructured.Unstructured, manager string, force bool) (runtime.Object, error) {
	if live == nil {
		live = t.config.empty()
	}
	return t.fields.Apply(live, patch, manager, force)
}

// KeepTimes gives obj the managedFields of live if they differ only in their times, so that
// applying the same again changes nothing. It returns the former managedFields of obj, and whether
// it replaced them.
func KeepTimes(obj, live metav1.Object) ([]metav1.ManagedFieldsEntry, bool) {
	now, was := obj.GetManagedFields(), live.GetManagedFields()
	if len(now) != len(was) {
		return now, false
	}
	for i := range now {
		a, b := now[i], was[i]
		if a.Manager != b.Manager || a.Operation != b.Operation || a.APIVersion != b.APIVersion || a.Subresource != b.Subresource ||
			(a.FieldsV1 == nil) != (b.FieldsV1 == nil) || a.FieldsV1 != nil && a.FieldsV1.GetRawString() != b.FieldsV1.GetRawString() {
			return now, false
		}
	}
	obj.SetManagedFields(was)
	return now, true
}

func (c Config) empty() runtime.Object {
	obj := c.New()
	obj.GetObjectKind().SetGroupVersionKind(c.Kind)
	return obj
}

// versioned converts between the versions of a kind.
type versioned struct {
	Config
	ctx context.Context // of the change
}

func (c versioned) New(schema.GroupVersionKind) (runtime.Object, error) { return c.empty(), nil }

func (c versioned) Default(obj runtime.Object) {
	if c.Config.Default != nil {
		c.Config.Default(obj)
	}
}

// ConvertToVersion returns merged objects as objects of their Go type, and converts objects of
// another version.
func (c versioned) ConvertToVersion(obj runtime.Object, to runtime.GroupVersioner) (runtime.Object, error) {
	kinds := make([]schema.GroupVersionKind, len(c.Versions))
	for i, v := range c.Versions {
		kinds[i] = v.Kind
	}
	want, ok := to.KindForGroupVersionKinds(kinds)
	if !ok {
		return nil, runtime.NewNotRegisteredErrForTarget("apiserver", nil, to)
	}
	if merged, ok := obj.(*merged); ok {
		var err error
		if obj, err = c.object(merged); err != nil {
			return nil, err
		}
	}
	if c.Config.Convert == nil || obj.GetObjectKind().GroupVersionKind() == want {
		return obj, nil
	}
	return c.Config.Convert(c.ctx, obj, want)
}

// object converts a merged object to its Go type.
func (c versioned) object(m *merged) (runtime.Object, error) {
	fields, ok := m.value.AsValue().Unstructured().(map[string]any)
	if !ok {
		return nil, fmt.Errorf("merged to %T", m.value.AsValue().Unstructured())
	}
	is := Version{c.Kind, c.Config.New}
	for _, v := range c.Versions {
		if v.Kind == m.GroupVersionKind() {
			is = v
		}
	}
	out := is.New()
	if u, ok := out.(runtime.Unstructured); ok {
		if len(c.Versions) > 1 {
			// SetUnstructuredContent takes the fields over, and the merged object is converted again for
			// each version that has an owner.
			fields = runtime.DeepCopyJSON(fields)
		}
		if bounded, ok := out.(interface{ Within(context.Context) }); ok {
			bounded.Within(c.ctx)
		}
		u.SetUnstructuredContent(fields)
		return out, budget.From(c.ctx).Err() // else out is not complete
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, out); err != nil {
		return nil, err
	}
	out.GetObjectKind().SetGroupVersionKind(is.Kind)
	return out, nil
}

func (versioned) Convert(in, out, context any) error {
	return fmt.Errorf("no conversion from %T to %T", in, out)
}

func (versioned) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

// Without returns obj without its managedFields: a shallow copy if it has any.
func Without(obj runtime.Object) runtime.Object {
	m, err := meta.Accessor(obj)
	if err != nil || m.GetManagedFields() == nil {
		return obj
	}
	out := shallow(obj)
	if m, err := meta.Accessor(out); err == nil {
		m.SetManagedFields(nil)
	}
	return out
}
