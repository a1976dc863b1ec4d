package crd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/internal/budget"
	"github.com/planekit/planekit/internal/structural"
	"github.com/planekit/planekit/kinds/apiextensions"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// paidFor is the context in which definitions are compiled that have been accepted.
var paidFor = budget.Attach(context.Background(), budget.Unlimited)

// A version is one version of a custom resource.
type version struct {
	gvk  schema.GroupVersionKind
	spec *apiextensions.CustomResourceDefinitionVersion
	// schema compiles the schema at its first use. Without one, it knows no field.
	schema func() (*structural.Schema, error)
	// rules compiles the CEL rules at their first use. It returns nil if there are none, and if they
	// are not evaluated.
	rules func() Rules
}

func newVersion(d *apiextensions.CustomResourceDefinition, spec *apiextensions.CustomResourceDefinitionVersion, compile func(*structural.Schema) Rules) *version {
	v := &version{spec: spec, gvk: schema.GroupVersionKind{Group: d.Spec.Group, Version: spec.Name, Kind: d.Status.AcceptedNames.Kind}}
	ruled := false
	v.schema = sync.OnceValues(func() (*structural.Schema, error) {
		source, err := v.source()
		if err != nil {
			return nil, err
		}
		ruled = hasRules(source)
		if source == nil {
			source = &props{Type: "object"}
		}
		compiled, err := structural.Compile(paidFor, source)
		if err != nil {
			return nil, err
		}
		return compiled.Shared(), nil
	})
	v.rules = sync.OnceValue(func() Rules {
		s, err := v.schema()
		if err != nil || compile == nil || !ruled {
			return nil
		}
		return compile(s)
	})
	return v
}

// source returns the schema as it is in the definition; nil if there is none.
func (v *version) source() (*props, error) { return v.spec.Schema.Schema() }

func hasRules(s *props) bool {
	return !s.Subschemas(func(part *props) bool { return len(part.XValidations) == 0 })
}

func (v *version) new() runtime.Object { return &Object{version: v} }

func newList() runtime.Object { return &List{} }

// DefaultLike sets the defaults of the version that other, an Object, has. It charges them to the budget of ctx, and fails if
// that does not cover them.
func (o *Object) DefaultLike(ctx context.Context, other any) error {
	like, ok := other.(*Object)
	if !ok || like.version == nil {
		return nil
	}
	s, err := like.version.schema()
	if err != nil || o.Fields == nil {
		return err
	}
	o.version = like.version
	return s.Fill(ctx, o.Fields)
}

// complete sets the defaults of an object that has not been decoded as it is: the program or admission has made it.
func (v *version) complete(obj runtime.Object) {
	o := obj.(*Object)
	ctx := o.ctx
	o.ctx = nil
	if o.completed {
		return
	}
	if ctx == nil { // the program has made it
		ctx = paidFor
	}
	o.version = v
	if s, err := v.schema(); err == nil && o.Fields != nil {
		_, _ = s.Complete(ctx, o.Fields, true) // the budget of a request remembers that it did not suffice
	}
	o.completed = true
}

func (v *version) hasStatus() bool {
	return v.spec.Subresources != nil && v.spec.Subresources.Status != nil
}

func (v *version) scale() *apiextensions.CustomResourceSubresourceScale {
	if v.spec.Subresources == nil {
		return nil
	}
	return v.spec.Subresources.Scale
}

// strategy returns how objects are completed and checked.
func (v *version) strategy() apiserver.Strategy {
	return apiserver.Strategy{
		Default: v.complete,
		PrepareForCreate: func(_ context.Context, obj runtime.Object) {
			o := obj.(*Object)
			if v.hasStatus() {
				delete(o.Fields, "status")
			}
			o.Generation = 1
		},
		PrepareForUpdate: func(_ context.Context, obj, old runtime.Object) {
			o, was := obj.(*Object), old.(*Object)
			if v.hasStatus() {
				if status, ok := was.Fields["status"]; ok {
					o.set("status", status)
				} else {
					delete(o.Fields, "status")
				}
			}
			o.Generation = was.Generation
			if !sameBut(o.Fields, was.Fields, "status", v.hasStatus()) {
				o.Generation++
			}
		},
		Validate: func(ctx context.Context, obj runtime.Object) field.ErrorList {
			o := obj.(*Object)
			s, err := v.schema()
			if err != nil {
				return field.ErrorList{field.InternalError(nil, err)}
			}
			errs := s.Validate(ctx, nil, o.content(s))
			errs = append(errs, v.validateScale(o, true)...)
			errs = append(errs, s.ValidateMetadata(nil, o.Fields, true)...)
			errs = append(errs, s.ValidateLists(nil, o.Fields)...)
			return append(errs, v.validateRules(ctx, errs, o, nil)...)
		},
		ValidateUpdate: func(ctx context.Context, obj, old runtime.Object) field.ErrorList {
			o, was := obj.(*Object), old.(*Object)
			s, err := v.schema()
			if err != nil {
				return field.ErrorList{field.InternalError(nil, err)}
			}
			errs := s.ValidateUpdate(ctx, nil, o.content(s), was.content(s), true)
			errs = append(errs, v.validateScale(o, true)...)
			errs = append(errs, s.ValidateMetadata(nil, o.Fields, true)...)
			if more := s.ValidateLists(nil, o.Fields); len(more) > 0 && len(s.ValidateLists(nil, was.Fields)) == 0 {
				errs = append(errs, more...)
			}
			return append(errs, v.validateRules(ctx, errs, o, was)...)
		},
	}
}

// statusStrategy returns the strategy of the status subresource.
func (v *version) statusStrategy() apiserver.Strategy {
	return apiserver.Strategy{
		PrepareForUpdate: func(_ context.Context, obj, old runtime.Object) {
			o, was := obj.(*Object), old.(*Object)
			status, ok := o.Fields["status"]
			managed := o.ManagedFields
			version := o.ResourceVersion
			o.ObjectMeta, o.Fields = was.ObjectMeta, was.Fields
			o.ManagedFields, o.ResourceVersion = managed, version
			if ok {
				o.set("status", status)
			} else {
				delete(o.Fields, "status")
			}
		},
		ValidateUpdate: func(ctx context.Context, obj, old runtime.Object) field.ErrorList {
			o, was := obj.(*Object), old.(*Object)
			s, err := v.schema()
			if err != nil {
				return field.ErrorList{field.InternalError(nil, err)}
			}
			var errs field.ErrorList
			if status, ok := o.Fields["status"]; ok && s.Properties["status"] != nil {
				errs = s.Properties["status"].ValidateUpdate(ctx, field.NewPath("status"), status, was.Fields["status"], false)
			}
			errs = append(errs, v.validateScale(o, false)...)
			if more := s.ValidateLists(nil, o.Fields); len(more) > 0 && len(s.ValidateLists(nil, was.Fields)) == 0 {
				errs = append(errs, more...)
			}
			return append(errs, v.validateRules(ctx, errs, o, was)...)
		},
	}
}

func (o *Object) set(name string, v any) {
	if o.Fields == nil {
		o.Fields = map[string]any{}
	}
	o.Fields[name] = v
}

// content returns the fields that s may say something about. Few schemas restrict those that every resource
// has.
func (o *Object) content(s *structural.Schema) map[string]any {
	for name := range map[string]bool{"metadata": true, "kind": true, "apiVersion": true} {
		if s.Properties[name] != nil {
			return o.UnstructuredContent()
		}
	}
	if s.Source.Required != nil || s.Source.MinProperties != nil || s.Source.MaxProperties != nil || len(s.Source.AllOf)+len(s.Source.AnyOf)+len(s.Source.OneOf) > 0 || s.Source.Not != nil {
		return o.UnstructuredContent()
	}
	return o.Fields
}

func sameBut(a, b map[string]any, name string, ignore bool) bool {
	if !ignore {
		return reflect.DeepEqual(a, b)
	}
	count := func(m map[string]any) int {
		if _, ok := m[name]; ok {
			return len(m) - 1
		}
		return len(m)
	}
	if count(a) != count(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; k != name && (!ok || !reflect.DeepEqual(v, w)) {
			return false
		}
	}
	return true
}

// validateScale checks the fields that the scale subresource shows.
func (v *version) validateScale(o *Object, spec bool) field.ErrorList {
	scale := v.scale()
	if scale == nil {
		return nil
	}
	var all field.ErrorList
	paths := []string{scale.StatusReplicasPath}
	if spec {
		paths = []string{scale.SpecReplicasPath, scale.StatusReplicasPath}
	}
	for _, path := range paths {
		n, _, err := unstructured.NestedInt64(o.Fields, fieldsOf(path)...)
		switch at := field.NewPath(path); {
		case err != nil:
			all = append(all, field.Invalid(at, n, err.Error()))
		case n < 0:
			all = append(all, field.Invalid(at, n, "should be a non-negative integer"))
		case n > math.MaxInt32:
			all = append(all, field.Invalid(at, n, "should be less than or equal to "+strconv.Itoa(math.MaxInt32)))
		}
	}
	if path := scale.LabelSelectorPath; path != nil {
		if text, _, err := unstructured.NestedString(o.Fields, fieldsOf(*path)...); err != nil {
			all = append(all, field.Invalid(field.NewPath(*path), text, err.Error()))
		}
	}
	return all
}

// fieldsOf returns the names in a path such as .spec.replicas.
func fieldsOf(path string) []string { return strings.Split(strings.TrimPrefix(path, "."), ".") }

// Rules evaluates the CEL rules of a schema.
type Rules interface {
	// Validate returns what the rules say of obj. old is nil for a new object. warn reports a rule
	// that is violated by values that have not changed.
	Validate(ctx context.Context, obj, old map[string]any, warn func(string)) field.ErrorList
}

// validateRules evaluates the CEL rules unless errs are such that they might fail.
func (v *version) validateRules(ctx context.Context, errs field.ErrorList, o, old *Object) field.ErrorList {
	rules := v.rules()
	if rules == nil {
		return nil
	}
	for _, err := range errs {
		switch err.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return field.ErrorList{field.Invalid(nil, nil, "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation")}
		}
	}
	content := (*Object).UnstructuredContent
	if s, err := v.schema(); err == nil && len(s.Rules) == 0 && s.Properties["metadata"] == nil {
		content = func(o *Object) map[string]any { return o.Fields } // no rule sees more
	}
	var was map[string]any
	if old != nil {
		was = content(old)
	}
	return rules.Validate(ctx, content(o), was, func(text string) { apiserver.Warn(ctx, text) })
}

// convert returns obj, of another version, in this one: its fields are those that this version has.
func (v *version) convert(obj runtime.Object) (runtime.Object, error) {
	s, err := v.schema()
	if err != nil {
		return nil, err
	}
	out := obj.(*Object).deepCopy()
	out.version = v
	out.SetGroupVersionKind(v.gvk)
	before := out.Fields
	if before != nil {
		s.Prune(before)
	}
	return out, nil
}

// relabel returns o, of another version, in this one with all its fields, which it shares.
func (v *version) relabel(o *Object) (runtime.Object, error) {
	if v == nil {
		return nil, errors.New("no such version")
	}
	out := *o
	out.version = v
	out.SetGroupVersionKind(v.gvk)
	return &out, nil
}

// warnings returns what is sent with every response in this version.
func (v *version) warnings(d *apiextensions.CustomResourceDefinition) []string {
	if !v.spec.Deprecated {
		return nil
	}
	if v.spec.DeprecationWarning != nil {
		return []string{*v.spec.DeprecationWarning}
	}
	text := fmt.Sprintf("%s/%s %s is deprecated", d.Spec.Group, v.spec.Name, d.Spec.Names.Kind)
	best := ""
	for _, other := range d.Spec.Versions {
		if other.Served && !other.Deprecated && newer(other.Name, v.spec.Name) && (best == "" || newer(other.Name, best)) {
			best = other.Name
		}
	}
	if best != "" {
		text += fmt.Sprintf("; use %s/%s %s", d.Spec.Group, best, d.Spec.Names.Kind)
	}
	return []string{text}
}
