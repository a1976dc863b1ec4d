package apiserver

import (
	"strings"

	"github.com/planekit/planekit/apiserver/internal/requestline"
	"github.com/planekit/planekit/internal/selector"
	"github.com/planekit/planekit/storage"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// selection is which objects of a kind a list or watch is about.
type selection struct {
	kind   *servedKind
	labels *selector.LabelSelector
	fields *selector.FieldSelector
	// prefix holds every selected object; it may hold others.
	prefix storage.Key
	// hidden says that hidden objects may be selected.
	hidden bool
}

func newSelection(k *servedKind, namespace, labelText, fieldText string) (*selection, error) {
	byLabel, err := labels.Parse(labelText)
	if err != nil {
		return nil, badRequest("%v", err)
	}
	byField, err := fields.ParseSelector(fieldText)
	if err != nil {
		return nil, badRequest("%v", err)
	}
	for _, r := range byField.Requirements() {
		if r.Field != "metadata.name" && (r.Field != "metadata.namespace" || k.withoutNamespace()) && k.Fields[r.Field] == nil {
			return nil, k.noField(r.Field)
		}
	}
	if ns, ok := byField.RequiresExactMatch("metadata.namespace"); ok && k.Namespaced && namespace == "" && requestline.CheckSegment(ns) == nil {
		namespace = ns
	}
	s := &selection{kind: k, labels: selector.Labels(byLabel), fields: selector.Fields(byField), prefix: storage.Key(k.under(namespace))}
	if name, ok := byField.RequiresExactMatch("metadata.name"); ok && requestline.CheckSegment(name) == nil {
		if namespace != "" || !k.Namespaced {
			s.prefix = k.key(namespace, name)
		}
	}
	return s, nil
}

// withoutNamespace reports whether objects cannot be selected by their namespace: they have none, and the kind says itself
// what they can be selected by. Other kinds in no namespace take that field, as in Kubernetes.
func (k *servedKind) withoutNamespace() bool {
	return !k.Namespaced && (len(k.Fields) > 0 || k.Schema != nil)
}

// noField is Kubernetes' refusal of a field that cannot be selected by.
func (k *servedKind) noField(name string) error {
	if len(k.Fields) > 0 || k.Schema != nil {
		return badRequest("field label not supported: %s", name)
	}
	return badRequest("%q is not a known field selector: only %q, %q", name, "metadata.name", "metadata.namespace")
}

// all reports whether every object under the prefix is selected.
func (s *selection) all() bool { return s.labels.Empty() && s.fields.Empty() }

// field returns a field of the kind's own that must have one value, if the
// selection names one and there is an index of it.
func (s *selection) field() (name, value string, ok bool) {
	if s.kind.converter != nil {
		return "", "", false
	}
	for name, value := range s.fields.Equals {
		if s.kind.Fields[name] != nil {
			return name, value, true
		}
	}
	return "", "", false
}

// covers reports whether the object at key may be selected.
func (s *selection) covers(key storage.Key) bool {
	return strings.HasPrefix(string(key), string(s.prefix))
}

// has reports whether i is an object and selected.
func (s *selection) has(i *item) bool {
	switch {
	case i == nil:
		return false
	case i.Err != nil:
		return s.all()
	}
	return s.shows(i.Object)
}

// shows reports whether o is selected.
func (s *selection) shows(o *object) bool {
	return (o.hidden == nil || s.hidden) && s.matches(o.Object)
}

func (s *selection) matches(obj runtime.Object) bool {
	if s.all() {
		return true
	}
	m := accessor(obj)
	return s.labels.Matches(m.GetLabels()) &&
		s.fields.Matches(fieldsOf{s.kind, obj, m})
}

// fieldsOf reads the selectable fields of an object.
type fieldsOf struct {
	kind *servedKind
	obj  runtime.Object
	meta metav1.Object
}

func (f fieldsOf) Has(field string) bool {
	return field == "metadata.name" || field == "metadata.namespace" || f.kind.Fields[field] != nil
}

func (f fieldsOf) Get(field string) string {
	switch field {
	case "metadata.name":
		return f.meta.GetName()
	case "metadata.namespace":
		return f.meta.GetNamespace()
	}
	if get := f.kind.Fields[field]; get != nil {
		return get(f.obj)
	}
	return ""
}
