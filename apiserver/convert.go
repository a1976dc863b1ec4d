package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/planekit/planekit/storage"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Converter converts the objects of a resource between its versions where that takes time or may
// fail, as a webhook does. It replaces the functions To and From of a [Version].
//
// The server asks it only for objects that are stored in another version than the one of the
// request, for all that a request needs at once, and keeps the results until the objects change.
// Requests in the version in which objects are stored never wait for it. Two requests that need the
// same object ask once. An error fails the requests that wait for it, and ends their watches with an
// ERROR event.
//
// Convert returns objs, which are all of one version, in another one and in the same order, with
// the same name, namespace and UID. It must not change objs; the results may share their parts. It
// must return when ctx is done, and must be safe for concurrent use. An error that is not an API
// status error becomes 500.
type Converter interface {
	Convert(ctx context.Context, objs []runtime.Object, version string) ([]runtime.Object, error)
}

// ConverterFunc is a function that is a [Converter].
type ConverterFunc func(ctx context.Context, objs []runtime.Object, version string) ([]runtime.Object, error)

// Convert implements [Converter].
func (f ConverterFunc) Convert(ctx context.Context, objs []runtime.Object, version string) ([]runtime.Object, error) {
	return f(ctx, objs, version)
}

// checkConverter reports what a resource with a Converter may not have: the server cannot convert
// objects for functions that know another version.
func (r *Resource) checkConverter() error {
	if r.Allocation != nil || r.AfterCreate != nil || r.Decorate != nil || r.Packing != nil || r.StoredAs != nil || r.Answer != nil {
		return errors.New("a resource with a Converter must not have Allocation, AfterCreate, Decorate, Packing, StoredAs or Answer")
	}
	for _, v := range r.Versions {
		switch {
		case v.Name == "" || v.New == nil || v.NewList == nil:
			return fmt.Errorf("version %q: name, New and NewList must be set", v.Name)
		case v.To != nil || v.From != nil:
			return fmt.Errorf("version %q: To and From must not be set beside a Converter", v.Name)
		case v.Strategy == nil:
			return fmt.Errorf("version %q: Strategy must be set beside a Converter", v.Name)
		}
	}
	return nil
}

// inConverted is in for a resource with a Converter. Such a version inherits no function.
func (r Resource) inConverted(v Version) Resource {
	out := r
	out.Version, out.New, out.NewList, out.Versions = v.Name, v.New, v.NewList, nil
	out.Schema, out.Warnings, out.Unserved, out.Share = v.Schema, v.Warnings, false, nil
	out.Strategy, out.Columns, out.Fields, out.Subresources = v.strategy(), v.Columns, v.Fields, v.Subresources
	out.StoredAs = &StoredForm{Group: r.Group, Version: r.Version, Kind: r.Kind, Plural: r.Plural, New: r.New}
	out.storedForms = r.convertedForms()
	return out
}

// strategy returns the strategy of v with its Default.
func (v *Version) strategy() Strategy {
	s := *v.Strategy
	if v.Default == nil {
		return s
	}
	complete := s.Default
	s.Default = func(obj runtime.Object) {
		v.Default(obj)
		if complete != nil {
			complete(obj)
		}
	}
	return s
}

// A convertedForm is a version in which an object of a resource with a Converter may be stored.
type convertedForm struct {
	new          func() runtime.Object
	complete     func(runtime.Object)
	subresources []Subresource
}

// convertedForms returns the versions of r by name.
func (r Resource) convertedForms() map[string]convertedForm {
	all := map[string]convertedForm{r.Version: {r.New, r.Strategy.Default, r.Subresources}}
	for _, v := range r.Versions {
		all[v.Name] = convertedForm{v.New, v.strategy().Default, v.Subresources}
	}
	return all
}

// A versionConverter converts the objects of one kind with a Converter from and to the versions in
// which they are stored. Cached objects in another version than the kind's are unconverted until a
// request needs them.
type versionConverter struct {
	kind  *servedKind
	ask   Converter
	forms map[string]convertedForm
	// prefix begins most records in the kind's own version.
	prefix []byte
	// report, if not nil, is called after every conversion.
	report func(ConversionSummary)

	mu sync.Mutex // guards the field below and the fields of all unconverted objects
	// written holds objects of recent writes by their keys.
	written map[storage.Key]writtenObject
}

type writtenObject struct {
	revision storage.Revision
	object   *object
}

func newVersionConverter(k *servedKind) *versionConverter {
	version, _ := json.Marshal(k.gvk.GroupVersion().String()) // strings: it cannot fail
	kind, _ := json.Marshal(k.Kind)
	return &versionConverter{
		kind: k, ask: k.Converter, forms: k.storedForms, written: map[storage.Key]writtenObject{},
		prefix: fmt.Appendf(nil, `{"apiVersion":%s,"kind":%s,`, version, kind),
	}
}

// An unconverted object is cached in place of an object that is stored in another version.
type unconverted struct {
	metav1.TypeMeta // as stored
	// converted is set once the object has been converted, or cannot be decoded.
	converted *item
	// by is the conversion in progress, if there is one.
	by *conversionRun
}

// DeepCopyObject implements [runtime.Object].
func (u *unconverted) DeepCopyObject() runtime.Object { panic("an unconverted object is copied") }

// decode returns an unconverted object for a record in another version than the kind's, and false
// for all other records.
func (c *versionConverter) decode(value []byte) (*unconverted, bool) {
	if bytes.HasPrefix(value, c.prefix) {
		return nil, false
	}
	var is metav1.TypeMeta
	if json.Unmarshal(value, &is) != nil {
		return nil, false
	}
	gvk := is.GroupVersionKind()
	if gvk.GroupKind() != c.kind.gvk.GroupKind() || gvk.Version == c.kind.Version || c.forms[gvk.Version].new == nil {
		return nil, false
	}
	return &unconverted{TypeMeta: is}, true
}

// storedObject returns the object in value, which is in the named version.
func (c *versionConverter) storedObject(value []byte, version string) (runtime.Object, error) {
	form := c.forms[version]
	gvk := c.kind.gvk.GroupKind().WithVersion(version)
	obj, _, err := c.kind.codec.DecodeStored(value, gvk, form.new())
	if err != nil {
		return nil, err
	}
	if form.complete != nil {
		form.complete(obj)
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	return obj, nil
}

// convert returns objs, all of one version, in the named one.
func (c *versionConverter) convert(ctx context.Context, objs []runtime.Object, version string) ([]runtime.Object, error) {
	began := time.Now()
	out, err := c.checked(ctx, objs, version)
	if c.report != nil && len(objs) > 0 {
		c.report(ConversionSummary{
			Resource: c.kind.gr, From: objs[0].GetObjectKind().GroupVersionKind().Version, To: version,
			Objects: len(objs), Took: time.Since(began), Err: err,
		})
	}
	return out, err
}

// checked converts objs and checks the result.
func (c *versionConverter) checked(ctx context.Context, objs []runtime.Object, version string) ([]runtime.Object, error) {
	out, err := c.ask.Convert(ctx, objs, version)
	if err != nil {
		return nil, err
	}
	if len(out) != len(objs) {
		return nil, fmt.Errorf("the conversion of %d objects to %s has returned %d", len(objs), version, len(out))
	}
	for i, obj := range out {
		if _, err := meta.Accessor(obj); err != nil {
			return nil, err
		}
		if err := checkIdentity(objs[i], obj); err != nil {
			return nil, err
		}
		obj.GetObjectKind().SetGroupVersionKind(c.kind.gvk.GroupKind().WithVersion(version))
	}
	return out, nil
}

// toStored returns obj in the version in which objects are stored.
func (c *versionConverter) toStored(ctx context.Context, obj runtime.Object) (runtime.Object, error) {
	if c.kind.StoredAs == nil {
		return obj, nil
	}
	out, err := c.convert(ctx, []runtime.Object{obj}, c.kind.stored.Version)
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// asStored returns what a read will show of obj once data, which encode has returned for it, is
// stored. That is obj in the version in which objects are stored, and where conversions lose nothing.
// Otherwise the stored form may drop fields and have defaults of its own.
func (k *servedKind) asStored(ctx context.Context, obj runtime.Object, data []byte) (runtime.Object, error) {
	if k.StoredAs == nil || k.converter == nil && k.Relabel == nil {
		return obj, nil
	}
	_, value, err := cutHidden(data)
	if err != nil {
		return nil, err
	}
	var out runtime.Object
	if k.converter != nil {
		out, err = k.converter.decodeServed(ctx, value)
	} else {
		out, err = k.decodeServed(value)
	}
	if err != nil {
		return nil, err
	}
	accessor(out).SetResourceVersion(accessor(obj).GetResourceVersion())
	return out, nil
}

// decodeServed returns the object in value, which is in the version in which objects are stored, in the
// version of the kind.
func (c *versionConverter) decodeServed(ctx context.Context, value []byte) (runtime.Object, error) {
	stored, err := c.storedObject(value, c.kind.stored.Version)
	if err != nil {
		return nil, err
	}
	out, err := c.convert(ctx, []runtime.Object{stored}, c.kind.Version)
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// convertOwned converts obj between versions to find out who owns its fields.
func (c *versionConverter) convertOwned(ctx context.Context, obj runtime.Object, to schema.GroupVersionKind) (runtime.Object, error) {
	if c.forms[to.Version].new == nil {
		return nil, fmt.Errorf("no conversion from %s to %s", obj.GetObjectKind().GroupVersionKind(), to)
	}
	out, err := c.convert(ctx, []runtime.Object{obj}, to.Version)
	if err != nil {
		return nil, err
	}
	return out[0], nil
}
