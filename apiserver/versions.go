package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/version"
)

// A Version is a further version in which a resource is served. Its objects are those of the
// resource: what is written in one version is read and watched in all. They are stored in the
// resource's own version. Which version that is may change: an object that was stored in another
// is read as if a client had written it in that version. Its next write stores it in the new one.
//
// A request is served in the version of its path: bodies, patches, field selectors, tables and
// the entries in managedFields are of that version, and so is what admission sees. The resource's
// strategy runs on objects that To has converted, so there is one strategy for all versions.
type Version struct {
	// Name is the version, such as "v1beta1". Required.
	Name string
	// New returns an empty object of this version's Go type, and NewList an empty list. Required.
	New, NewList func() runtime.Object
	// To converts an object of this version to the stored version, and From the reverse. Both
	// must copy the metadata and must not change their argument; the result may share its parts.
	// An error of To refuses a request with 400, or with its own code if it is an API status
	// error. An object that From refuses is treated as one that cannot be decoded. Fields that
	// the other version does not have are lost unless they are kept, for example in an
	// annotation. Required unless the resource has a Converter.
	To, From func(obj runtime.Object) (runtime.Object, error)
	// Default completes an object of this version before To does; may be nil.
	Default func(obj runtime.Object)
	// Schema, if not nil, describes objects of this version whose Go type does not.
	Schema *Schema
	// Warnings are sent with every response in this version.
	Warnings []string
	// Unserved keeps the version from being served: it is one in which objects may be stored.
	Unserved bool
	// Strategy, if not nil, completes and checks objects of this version, instead of the resource's
	// strategy.
	Strategy *Strategy
	// Columns lists the columns of this version's tables; nil means those of the resource.
	Columns []Column
	// Fields are the selectable fields of this version; nil means those of the resource.
	Fields map[string]func(runtime.Object) string
	// Subresources lists the subresources of this version; nil means those of the resource, whose
	// functions get objects of the stored version. An inherited View does not accept server-side
	// apply.
	Subresources []Subresource
}

// mergeVersions returns the versions of a kind, each with what more has under its name, and the
// others of more.
func mergeVersions(versions, more []Version) []Version {
	more = slices.Clone(more)
	for i := range versions {
		v := &versions[i]
		if at := versionNamed(more, v.Name); at >= 0 {
			same := more[at]
			same.New, same.NewList, same.To, same.From = v.New, v.NewList, v.To, v.From
			*v = same
			more = slices.Delete(more, at, at+1)
		}
	}
	return append(versions, more...)
}

// versionNamed returns the index of the named version, -1 if there is none.
func versionNamed(versions []Version, name string) int {
	for i := range versions {
		if versions[i].Name == name {
			return i
		}
	}
	return -1
}

// expand returns r and a resource for each of its versions, the most stable version first.
func (r Resource) expand() ([]Resource, error) {
	var all []*Resource
	if r.Converter != nil {
		if err := r.checkConverter(); err != nil {
			return nil, err
		}
		r.storedForms = r.convertedForms()
	}
	if !r.Unserved {
		all = append(all, &r)
	}
	for _, v := range r.Versions {
		switch {
		case r.Converter != nil:
		case r.StoredAs != nil || r.Answer != nil:
			return nil, errors.New("a resource that is not stored as it is has no versions")
		case v.Name == "" || v.New == nil || v.NewList == nil || v.To == nil || v.From == nil:
			return nil, fmt.Errorf("version %q: name, New, NewList, To and From must be set", v.Name)
		}
		if v.Unserved {
			continue
		}
		in := r.in(v)
		all = append(all, &in)
	}
	if len(all) == 0 {
		return nil, errors.New("no version is served")
	}
	slices.SortStableFunc(all, func(a, b *Resource) int { return -version.CompareKubeAwareVersionStrings(a.Version, b.Version) })
	sorted := make([]Resource, len(all))
	for i, one := range all {
		sorted[i] = *one
	}
	return sorted, nil
}

// in returns r as it is served in version v.
func (r Resource) in(v Version) Resource {
	if r.Converter != nil {
		return r.inConverted(v)
	}
	c := &conversion{to: v.To, from: v.From}
	out := r
	out.Version, out.New, out.NewList, out.Versions = v.Name, v.New, v.NewList, nil
	out.Schema, out.Warnings, out.Unserved = v.Schema, v.Warnings, false
	out.StoredAs = &StoredForm{
		Group: r.Group, Version: r.Version, Kind: r.Kind, Plural: r.Plural, New: r.New,
		To: v.To, From: v.From, complete: r.Strategy.Default, versions: r.Versions, subresources: r.Subresources,
	}
	if v.Strategy != nil {
		out.Strategy = *v.Strategy
	} else {
		out.Strategy = c.strategy(r.Strategy)
	}
	if complete := out.Strategy.Default; v.Default != nil {
		out.Strategy.Default = func(obj runtime.Object) {
			v.Default(obj)
			if complete != nil {
				complete(obj)
			}
		}
	}
	if out.Columns = v.Columns; out.Columns == nil {
		out.Columns = c.columns(r.Columns)
	}
	if out.Fields = v.Fields; out.Fields == nil {
		out.Fields = c.fields(r.Fields)
	}
	if out.Subresources = v.Subresources; out.Subresources == nil {
		for _, sub := range r.Subresources {
			out.Subresources = append(out.Subresources, sub.convert(r, c))
		}
	}
	if after := r.AfterCreate; after != nil {
		out.AfterCreate = func(ctx context.Context, obj runtime.Object) {
			if stored, err := c.to(obj); err == nil {
				after(ctx, stored)
			}
		}
	}
	if decorate := r.Decorate; decorate != nil {
		out.Decorate = func(obj runtime.Object) { c.change(obj, decorate) }
	}
	out.Share = nil // the parts that it knows are those of the stored version
	if a := r.Allocation; a != nil {
		out.Allocation = c.allocation(a)
	}
	return out
}

// A conversion lets functions for objects of the stored version work on those of another.
// The server has refused objects that cannot be converted before it calls these functions.
type conversion struct {
	to, from func(obj runtime.Object) (runtime.Object, error)
}

// change applies f to the stored version of obj, and changes obj accordingly.
func (c *conversion) change(obj runtime.Object, f func(stored runtime.Object)) {
	_ = c.tryChange(obj, func(stored runtime.Object) error { f(stored); return nil })
}

func (c *conversion) tryChange(obj runtime.Object, f func(stored runtime.Object) error) error {
	stored, err := c.to(obj)
	if err != nil {
		return err
	}
	stored = stored.DeepCopyObject() // it may share parts with obj
	if err := f(stored); err != nil {
		return err
	}
	back, err := c.from(stored)
	if err != nil {
		return err
	}
	back.GetObjectKind().SetGroupVersionKind(obj.GetObjectKind().GroupVersionKind())
	reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(back).Elem())
	return nil
}

// ask returns what f says of the stored version of obj.
func ask[T any](c *conversion, f func(stored runtime.Object) T) func(obj runtime.Object) T {
	return func(obj runtime.Object) (out T) {
		if stored, err := c.to(obj); err == nil {
			out = f(stored)
		}
		return out
	}
}

func (c *conversion) strategy(s Strategy) Strategy {
	out := s
	if f := s.Default; f != nil {
		out.Default = func(obj runtime.Object) { c.change(obj, f) }
	}
	if f := s.PrepareForCreate; f != nil {
		out.PrepareForCreate = func(ctx context.Context, obj runtime.Object) {
			c.change(obj, func(stored runtime.Object) { f(ctx, stored) })
		}
	}
	if f := s.PrepareForUpdate; f != nil {
		out.PrepareForUpdate = func(ctx context.Context, obj, old runtime.Object) {
			if was, err := c.to(old); err == nil {
				c.change(obj, func(stored runtime.Object) { f(ctx, stored, was.DeepCopyObject()) })
			}
		}
	}
	if f := s.Validate; f != nil {
		out.Validate = func(ctx context.Context, obj runtime.Object) field.ErrorList {
			stored, err := c.to(obj)
			if err != nil {
				return field.ErrorList{field.InternalError(nil, err)}
			}
			return f(ctx, stored)
		}
	}
	if f := s.ValidateUpdate; f != nil {
		out.ValidateUpdate = func(ctx context.Context, obj, old runtime.Object) field.ErrorList {
			stored, err := c.to(obj)
			was, errOld := c.to(old)
			if err := errors.Join(err, errOld); err != nil {
				return field.ErrorList{field.InternalError(nil, err)}
			}
			return f(ctx, stored, was)
		}
	}
	if f := s.Grace; f != nil {
		out.Grace = func(obj runtime.Object, options *metav1.DeleteOptions) (seconds int64) {
			c.change(obj, func(stored runtime.Object) { seconds = f(stored, options) })
			return seconds
		}
	}
	if f := s.Finalizing; f != nil {
		out.Finalizing = ask(c, f)
	}
	if f := s.PrepareForDelete; f != nil {
		out.PrepareForDelete = func(obj runtime.Object) { c.change(obj, f) }
	}
	return out
}

func (c *conversion) columns(columns []Column) []Column {
	out := slices.Clone(columns)
	for i := range out {
		out[i].Value = ask(c, out[i].Value)
	}
	return out
}

func (c *conversion) fields(fields map[string]func(runtime.Object) string) map[string]func(runtime.Object) string {
	out := map[string]func(runtime.Object) string{}
	for name, f := range fields {
		out[name] = ask(c, f)
	}
	return out
}

func (c *conversion) allocation(a *Allocation) *Allocation {
	return &Allocation{
		Names: ask(c, a.Names),
		Fill: func(obj, old runtime.Object, values Values) error {
			var was runtime.Object
			if old != nil {
				var err error
				if was, err = c.to(old); err != nil {
					return err
				}
			}
			return c.tryChange(obj, func(stored runtime.Object) error { return a.Fill(stored, was, values) })
		},
		Shown: a.Shown,
	}
}

func (s Status) convert(_ Resource, c *conversion) Subresource {
	s.Strategy = c.strategy(s.Strategy)
	return s
}

func (v View) convert(r Resource, c *conversion) Subresource {
	readable, into := v.Readable, v.Into
	v.Strategy, v.Replicas = c.strategy(v.Strategy), ""
	if v.Version == "" {
		v.Group, v.Version = r.Group, r.Version
	}
	v.From, v.Base = c.shown(v.From), c.shown(v.Base)
	if readable != nil {
		v.Readable = func(parent runtime.Object) error {
			stored, err := c.to(parent)
			if err != nil {
				return err
			}
			return readable(stored)
		}
	}
	if into != nil {
		v.Into = func(parent, body runtime.Object) error {
			return c.tryChange(parent, func(stored runtime.Object) error { return into(stored, body) })
		}
	}
	return v
}

// shown returns the function of a View that shows what show does of the stored version; nil if show is nil.
func (c *conversion) shown(show func(runtime.Object) (runtime.Object, error)) func(runtime.Object) (runtime.Object, error) {
	if show == nil {
		return nil
	}
	return func(parent runtime.Object) (runtime.Object, error) {
		stored, err := c.to(parent)
		if err != nil {
			return nil, err
		}
		return show(stored)
	}
}

func (d Deletion) convert(r Resource, c *conversion) Subresource {
	f := d.Delete
	if d.Version == "" {
		d.Group, d.Version = r.Group, r.Version
	}
	d.Delete = func(ctx context.Context, parent, body runtime.Object, in Namespace) (*metav1.DeleteOptions, error) {
		stored, err := c.to(parent)
		if err != nil {
			return nil, err
		}
		return f(ctx, stored, body, in)
	}
	return d
}

func (q Question) convert(r Resource, c *conversion) Subresource {
	f := q.Answer
	if q.Version == "" {
		q.Group, q.Version = r.Group, r.Version
	}
	q.Answer = func(ctx context.Context, parent, body runtime.Object) (runtime.Object, error) {
		stored, err := c.to(parent)
		if err != nil {
			return nil, err
		}
		return f(ctx, stored, body)
	}
	return q
}

func (p Proxy) convert(_ Resource, c *conversion) Subresource {
	f := p.Connect
	p.Connect = func(parent runtime.Object) (http.Handler, error) {
		stored, err := c.to(parent)
		if err != nil {
			return nil, err
		}
		return f(stored)
	}
	return p
}
