package crd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/planekit/planekit/internal/budget"
	"github.com/planekit/planekit/internal/structural"
)

// An Object is an object of a custom resource. It is completed by its schema when it is decoded: unknown
// fields are removed and defaults are set.
type Object struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// Fields are all fields but apiVersion, kind and metadata.
	Fields map[string]any `json:"-"`

	version *version
	// completed is set once the schema has been applied.
	completed bool
	// unknown and malformed are what was wrong with the decoded text.
	unknown   []string
	malformed error
	// ctx is the context of the request that decodes the object; nil without a request.
	ctx context.Context
}

// Within makes the next decoding or completion charge the budget of ctx.
func (o *Object) Within(ctx context.Context) { o.ctx = ctx }

var _ runtime.Unstructured = (*Object)(nil)

// DeepCopyObject implements [runtime.Object].
func (o *Object) DeepCopyObject() runtime.Object { return o.deepCopy() }

func (o *Object) deepCopy() *Object {
	out := *o
	o.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	if o.Fields != nil {
		out.Fields = runtime.DeepCopyJSON(o.Fields)
	}
	return &out
}

// Unknown returns the fields that were decoded and are not in the schema, once, or an error if the object
// was malformed.
func (o *Object) Unknown() ([]string, error) {
	unknown, err := o.unknown, o.malformed
	o.unknown, o.malformed = nil, nil
	return unknown, err
}

// UnstructuredContent returns all fields. The fields of o are shared.
func (o *Object) UnstructuredContent() map[string]any {
	out := make(map[string]any, len(o.Fields)+3)
	maps.Copy(out, o.Fields)
	if o.APIVersion != "" {
		out["apiVersion"] = o.APIVersion
	}
	if o.Kind != "" {
		out["kind"] = o.Kind
	}
	if m := metadataOf(&o.ObjectMeta); len(m) > 0 {
		out["metadata"] = m
	}
	return out
}

// metadataOf returns m as its JSON is decoded. Every write needs it a few times, so only lists of structs are
// converted by reflection.
func metadataOf(m *metav1.ObjectMeta) map[string]any {
	out := map[string]any{}
	if len(m.OwnerReferences)+len(m.ManagedFields) > 0 {
		lists := metav1.ObjectMeta{OwnerReferences: m.OwnerReferences, ManagedFields: m.ManagedFields}
		if converted, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&lists); err == nil {
			out = converted
			delete(out, "creationTimestamp")
		}
	}
	for _, field := range []struct{ name, text string }{
		{"name", m.Name}, {"generateName", m.GenerateName}, {"namespace", m.Namespace},
		{"selfLink", m.SelfLink}, //lint:ignore SA1019 an object may have it
		{"uid", string(m.UID)}, {"resourceVersion", m.ResourceVersion},
	} {
		if field.text != "" {
			out[field.name] = field.text
		}
	}
	if m.Generation != 0 {
		out["generation"] = m.Generation
	}
	if !m.CreationTimestamp.IsZero() {
		out["creationTimestamp"] = m.CreationTimestamp.ToUnstructured()
	}
	if m.DeletionTimestamp != nil {
		out["deletionTimestamp"] = m.DeletionTimestamp.ToUnstructured()
	}
	if m.DeletionGracePeriodSeconds != nil {
		out["deletionGracePeriodSeconds"] = *m.DeletionGracePeriodSeconds
	}
	for _, field := range []struct {
		name  string
		texts map[string]string
	}{{"labels", m.Labels}, {"annotations", m.Annotations}} {
		if len(field.texts) == 0 {
			continue
		}
		all := make(map[string]any, len(field.texts))
		for k, v := range field.texts {
			all[k] = v
		}
		out[field.name] = all
	}
	if len(m.Finalizers) > 0 {
		all := make([]any, len(m.Finalizers))
		for i, f := range m.Finalizers {
			all[i] = f
		}
		out["finalizers"] = all
	}
	return out
}

// SetUnstructuredContent implements [runtime.Unstructured]. It takes over content, and completes it by the
// schema.
func (o *Object) SetUnstructuredContent(content map[string]any) {
	ctx := o.ctx
	if ctx == nil {
		ctx = context.Background()
	}
	*o = Object{version: o.version, completed: o.version != nil}
	o.malformed = o.take(ctx, content)
}

// take fills o from content.
func (o *Object) take(ctx context.Context, content map[string]any) error {
	for name, to := range map[string]*string{"apiVersion": &o.APIVersion, "kind": &o.Kind} {
		v, ok := content[name]
		text, isText := v.(string)
		if ok && !isText {
			return fmt.Errorf(".%s accessor error: %v is of the type %T, expected string", name, v, v)
		}
		*to = text
		delete(content, name)
	}
	if v, ok := content["metadata"]; ok {
		delete(content, "metadata")
		m, unknown, err := structural.ParseMetadata(v, "metadata", true)
		if err != nil {
			return err
		}
		o.ObjectMeta, o.unknown = m, unknown
	}
	o.Fields = content
	if o.version == nil {
		return nil
	}
	schema, err := o.version.schema()
	if err != nil {
		return err
	}
	unknown, err := schema.Complete(ctx, o.Fields, true)
	if err != nil {
		return err
	}
	o.unknown = append(o.unknown, unknown...)
	delete(o.Fields, "apiVersion") // defaults of them have no effect
	delete(o.Fields, "kind")
	delete(o.Fields, "metadata")
	more, wrong := schema.CoerceMetadata(o.Fields)
	if wrong != nil {
		return wrong
	}
	o.unknown = append(o.unknown, more...)
	return nil
}

// NewEmptyInstance implements [runtime.Unstructured].
func (o *Object) NewEmptyInstance() runtime.Unstructured { return &Object{version: o.version} }

// IsList implements [runtime.Unstructured].
func (o *Object) IsList() bool { return false }

// EachListItem implements [runtime.Unstructured].
func (o *Object) EachListItem(func(runtime.Object) error) error { return errNoList }

// EachListItemWithAlloc implements [runtime.Unstructured].
func (o *Object) EachListItemWithAlloc(func(runtime.Object) error) error { return errNoList }

var errNoList = errors.New("content is not a list")

// UnmarshalJSON implements [json.Unmarshaler].
func (o *Object) UnmarshalJSON(data []byte) error {
	content := map[string]any{}
	if err := utiljson.Unmarshal(data, &content); err != nil {
		return err
	}
	if content == nil {
		return errors.New("an object must be a JSON object")
	}
	ctx := o.ctx
	if ctx == nil { // it is stored
		ctx = budget.Attach(context.Background(), budget.ForBody(len(data)))
	}
	*o = Object{version: o.version, completed: o.version != nil}
	return o.take(ctx, content)
}

// A List is a list of objects of a custom resource.
type List struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Object `json:"items"`
}

// DeepCopyObject implements [runtime.Object].
func (l *List) DeepCopyObject() runtime.Object {
	out := &List{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy(), Items: slices.Clone(l.Items)}
	for i := range out.Items {
		out.Items[i] = *l.Items[i].deepCopy()
	}
	return out
}
