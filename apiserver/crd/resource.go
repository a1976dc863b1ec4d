package crd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/internal/jsonpath"
	"github.com/planekit/planekit/internal/structural"
	"github.com/planekit/planekit/kinds/apiextensions"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
	kubeversion "k8s.io/apimachinery/pkg/version"
)

// newer reports whether a is a more stable or a later version than b.
func newer(a, b string) bool { return kubeversion.CompareKubeAwareVersionStrings(a, b) > 0 }

// resourceOf returns the resource that d describes, whose names have been accepted. compile compiles CEL
// rules; nil ignores them.
func resourceOf(d *apiextensions.CustomResourceDefinition, compile func(*structural.Schema) Rules) (apiserver.Resource, error) {
	names := d.Status.AcceptedNames
	r := apiserver.Resource{
		Group: d.Spec.Group, Kind: names.Kind, ListKind: names.ListKind, Plural: names.Plural, Singular: names.Singular,
		ShortNames: names.ShortNames, Categories: names.Categories, Namespaced: d.Spec.Scope == apiextensions.NamespaceScoped,
		NewList: newList, Conditional: true,
	}
	if d.DeletionTimestamp != nil {
		closed := apierrors.NewMethodNotSupported(schema.GroupResource{Group: r.Group, Resource: r.Plural}, "create")
		closed.ErrStatus.Message = "create not allowed while custom resource definition is terminating"
		r.Closed = closed
	}
	served := slices.ContainsFunc(d.Spec.Versions, func(v apiextensions.CustomResourceDefinitionVersion) bool { return v.Served })
	var stored *version
	for i := range d.Spec.Versions {
		if spec := &d.Spec.Versions[i]; spec.Storage {
			stored = newVersion(d, spec, compile)
		}
	}
	if stored == nil {
		return r, errors.New("no version is the storage version")
	}
	r.Version, r.New, r.Strategy = stored.spec.Name, stored.new, stored.strategy()
	// Objects of a definition that is about to go must be reached to be deleted.
	r.Unserved = !stored.spec.Served && (served || d.DeletionTimestamp == nil)
	r.Schema, r.Warnings = stored.published(d), stored.warnings(d)
	r.Columns, r.Fields, r.Subresources = stored.columns(), stored.fields(), stored.subresources()
	versions := map[string]*version{r.Version: stored}
	r.Relabel = func(obj runtime.Object, name string) (runtime.Object, error) {
		return versions[name].relabel(obj.(*Object))
	}
	for i := range d.Spec.Versions {
		spec := &d.Spec.Versions[i]
		if spec.Storage {
			continue
		}
		v := newVersion(d, spec, compile)
		versions[spec.Name] = v
		strategy := v.strategy()
		r.Versions = append(r.Versions, apiserver.Version{
			Name: spec.Name, New: v.new, NewList: newList, To: stored.convert, From: v.convert,
			Schema: v.published(d), Warnings: v.warnings(d), Unserved: !spec.Served, Strategy: &strategy,
			Columns: v.columns(), Fields: v.fields(), Subresources: v.subresources(),
		})
	}
	return r, nil
}

// columns returns the columns of the version's tables; Age if it has none.
func (v *version) columns() []apiserver.Column {
	if len(v.spec.AdditionalPrinterColumns) == 0 {
		return []apiserver.Column{apiserver.AgeColumn()}
	}
	var all []apiserver.Column
	for i := range v.spec.AdditionalPrinterColumns {
		c := &v.spec.AdditionalPrinterColumns[i]
		path := sync.OnceValues(func() (*jsonpath.Path, error) { return jsonpath.Parse(c.JSONPath) })
		description := c.Description
		if description == "" {
			description = "Custom resource definition column (in JSONPath format): " + c.JSONPath
		}
		all = append(all, apiserver.Column{
			Name: c.Name, Type: c.Type, Format: c.Format, Description: description, Priority: c.Priority,
			Value: func(obj runtime.Object) any {
				p, err := path()
				if err != nil {
					return nil
				}
				v, ok := obj.(*Object).find(p, c.JSONPath)
				if !ok {
					return nil
				}
				return cell(c.Type, v)
			},
			Steady: c.Type != "date",
		})
	}
	return all
}

// find returns the first value at path.
func (o *Object) find(path *jsonpath.Path, text string) (any, bool) {
	content := o.Fields
	if name := fieldsOf(strings.TrimPrefix(text, "{"))[0]; o.Fields[name] == nil {
		content = o.UnstructuredContent() // it may lead to the metadata, or anywhere
	}
	found := path.Find(content)
	if len(found) == 0 {
		return nil, false
	}
	return found[0], true
}

// cell returns a value as a column of a type shows it.
func cell(of string, v any) any {
	switch of {
	case "integer":
		switch v := v.(type) {
		case int64:
			return v
		case float64:
			return int64(v)
		}
	case "number":
		switch v := v.(type) {
		case int64:
			return float64(v)
		case float64:
			return v
		}
	case "boolean":
		if v, ok := v.(bool); ok {
			return v
		}
	case "string":
		return text(v)
	case "date":
		if v, ok := v.(string); ok {
			var t metav1.Time
			if t.UnmarshalQueryParameter(v) != nil {
				return "<invalid>"
			}
			return age(t)
		}
	}
	return nil
}

func age(t metav1.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(time.Since(t.Time))
}

// text returns a value as kubectl prints it.
func text(v any) any {
	switch v := v.(type) {
	case nil:
		return ""
	case map[string]any, []any:
		var out bytes.Buffer
		encoder := json.NewEncoder(&out)
		encoder.SetEscapeHTML(false)
		if encoder.Encode(v) != nil {
			return nil
		}
		return strings.TrimSpace(out.String())
	}
	return fmt.Sprint(v)
}

// fields returns the selectable fields.
func (v *version) fields() map[string]func(runtime.Object) string {
	all := map[string]func(runtime.Object) string{}
	for _, f := range v.spec.SelectableFields {
		path := fieldsOf(f.JSONPath)
		all[strings.TrimPrefix(f.JSONPath, ".")] = func(obj runtime.Object) string {
			value, ok, err := unstructured.NestedFieldNoCopy(obj.(*Object).Fields, path...)
			if err != nil || !ok || value == nil {
				return ""
			}
			return fmt.Sprint(value)
		}
	}
	return all
}

func (v *version) subresources() []apiserver.Subresource {
	all := []apiserver.Subresource{}
	if v.hasStatus() {
		all = append(all, apiserver.Status{Strategy: v.statusStrategy(), Resets: []string{"spec", "metadata"}})
	}
	if v.scale() != nil {
		all = append(all, v.scaleView())
	}
	return all
}

var scaleGVK = autoscalingv1.SchemeGroupVersion.WithKind("Scale")

// unset is spec.replicas of a scale that a request changes, where the object has no such field.
const unset = math.MinInt32

// scaleView is the scale subresource.
func (v *version) scaleView() apiserver.View {
	paths := scalePaths{v.scale()}
	spec := fieldsOf(paths.SpecReplicasPath)
	missing := func(parent runtime.Object) bool {
		_, found, err := unstructured.NestedInt64(parent.(*Object).Fields, spec...)
		return err == nil && !found
	}
	return apiserver.View{
		Name: "scale", Verbs: []string{"get", "update", "patch"}, Replicas: strings.Join(spec, "."), Strategy: v.strategy(),
		Group: scaleGVK.Group, Version: scaleGVK.Version, Kind: scaleGVK.Kind,
		New:  func() runtime.Object { return &autoscalingv1.Scale{} },
		From: func(parent runtime.Object) (runtime.Object, error) { return paths.show(parent.(*Object)) },
		Readable: func(parent runtime.Object) error {
			if missing(parent) {
				return apierrors.NewInternalError(fmt.Errorf("the spec replicas field %q does not exist", paths.SpecReplicasPath))
			}
			return nil
		},
		Base: func(parent runtime.Object) (runtime.Object, error) {
			scale, err := paths.show(parent.(*Object))
			if err == nil && missing(parent) {
				scale.Spec.Replicas = unset
			}
			return scale, err
		},
		Into: func(parent, body runtime.Object) error {
			o, scale := parent.(*Object), body.(*autoscalingv1.Scale)
			if scale.Spec.Replicas == unset {
				return apierrors.NewBadRequest(fmt.Sprintf("the spec replicas field %q cannot be empty", paths.SpecReplicasPath))
			}
			if o.Fields == nil {
				o.Fields = map[string]any{}
			}
			return unstructured.SetNestedField(o.Fields, int64(scale.Spec.Replicas), spec...)
		},
	}
}

// scalePaths are the fields of an object that its scale shows.
type scalePaths struct {
	*apiextensions.CustomResourceSubresourceScale
}

// show returns the scale of o.
func (p scalePaths) show(o *Object) (*autoscalingv1.Scale, error) {
	scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{
		Name: o.Name, Namespace: o.Namespace, UID: o.UID, ResourceVersion: o.ResourceVersion, CreationTimestamp: o.CreationTimestamp,
	}}
	n, _, err := unstructured.NestedInt64(o.Fields, fieldsOf(p.SpecReplicasPath)...)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	scale.Spec.Replicas = int32(n)
	if n, _, err = unstructured.NestedInt64(o.Fields, fieldsOf(p.StatusReplicasPath)...); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	scale.Status.Replicas = int32(n)
	if p.LabelSelectorPath != nil && *p.LabelSelectorPath != "" {
		if scale.Status.Selector, _, err = unstructured.NestedString(o.Fields, fieldsOf(*p.LabelSelectorPath)...); err != nil {
			return nil, apierrors.NewInternalError(err)
		}
	}
	return scale, nil
}
