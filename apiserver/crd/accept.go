package crd

import (
	"context"
	"fmt"
	"math"

	"github.com/planekit/planekit/internal/bodycost"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A converted object is bounded as the body of a request is, in depth and in values, of which a small one may have freeValues,
// and a larger one one more for each valueSize bytes. The bytes of a whole answer are bounded before.
const (
	maxDepth   = 256
	freeValues = 40_000
	valueSize  = 24
)

// accept returns the object that a webhook has made of original, after checking that it is the same object. A
// webhook may change labels, annotations, and all fields outside of the metadata. index is the place of the object in
// the answer. Errors have kube-apiserver's words.
func (v *version) accept(ctx context.Context, original *Object, data []byte, index int) (*Object, error) {
	from := original.GroupVersionKind()
	limits := bodycost.Limits{Depth: maxDepth, Bytes: math.MaxInt, Values: freeValues + len(data)/valueSize}
	if _, err := bodycost.Dynamic(ctx, data, limits); err != nil {
		return nil, fmt.Errorf("conversion webhook for %v returned invalid object at index %d: %w", from, index, err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(data); err != nil {
		return nil, err
	}
	if want, got := v.gvk.GroupVersion(), u.GroupVersionKind().GroupVersion(); want != got {
		return nil, fmt.Errorf("conversion webhook for %v returned invalid object at index %d: invalid groupVersion (expected %v, received %v)", from, index, want, got)
	}
	if want, got := from.Kind, u.GetKind(); want != got {
		return nil, fmt.Errorf("conversion webhook for %v returned invalid object at index %d: invalid kind (expected %v, received %v)", from, index, want, got)
	}
	for _, same := range []struct{ name, want, got string }{
		{"name", original.Name, u.GetName()}, {"namespace", original.Namespace, u.GetNamespace()}, {"UID", string(original.UID), string(u.GetUID())},
	} {
		if same.want != same.got {
			return nil, fmt.Errorf("conversion webhook for %v returned invalid object: must have the same %s: %v != %v", from, same.name, same.want, same.got)
		}
	}
	out := &Object{version: v, completed: true}
	original.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	if err := out.takeMetadata(u.Object); err != nil {
		return nil, fmt.Errorf("conversion webhook for %v returned invalid metadata: %v", from, err)
	}
	return out, out.takeFields(u.Object)
}

// takeMetadata takes labels and annotations from content.
func (o *Object) takeMetadata(content map[string]any) error {
	value, ok := content["metadata"]
	if !ok {
		return fmt.Errorf("missing metadata in converted object")
	}
	metadata, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("invalid metadata of type %T in converted object", value)
	}
	for _, part := range []struct {
		name  string
		value *map[string]string
		check func(map[string]string) field.ErrorList
	}{
		{"labels", &o.Labels, func(m map[string]string) field.ErrorList {
			return metavalidation.ValidateLabels(m, field.NewPath("metadata", "labels"))
		}},
		{"annotations", &o.Annotations, func(m map[string]string) field.ErrorList {
			return apivalidation.ValidateAnnotations(m, field.NewPath("metadata", "annotation"))
		}},
	} {
		texts, err := textsOf(metadata[part.name], part.name)
		if err != nil {
			return err
		}
		if !sameTexts(texts, *part.value) {
			if errs := part.check(texts); len(errs) > 0 {
				return errs.ToAggregate()
			}
		}
		*part.value = texts
	}
	return nil
}

// textsOf returns v, the labels or the annotations of an object.
func textsOf(v any, name string) (map[string]string, error) {
	if v == nil {
		return nil, nil
	}
	values, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("invalid metadata.%s of type %T in converted object", name, v)
	}
	texts := make(map[string]string, len(values))
	for key, value := range values {
		if texts[key], ok = value.(string); !ok {
			return nil, fmt.Errorf("metadata.%s[%s] must be a string, but is %T in converted object", name, key, value)
		}
	}
	return texts, nil
}

func sameTexts(a, b map[string]string) bool {
	for key, value := range a {
		if was, ok := b[key]; !ok || was != value {
			return false
		}
	}
	return len(a) == len(b)
}

// takeFields takes all fields but the metadata from content, and removes those that the schema does not have.
func (o *Object) takeFields(content map[string]any) error {
	for name := range map[string]bool{"apiVersion": true, "kind": true, "metadata": true} {
		delete(content, name)
	}
	o.Fields = content
	o.SetGroupVersionKind(o.version.gvk)
	s, err := o.version.schema()
	if err != nil {
		return err
	}
	s.Prune(o.Fields)
	if _, wrong := s.CoerceMetadata(o.Fields); wrong != nil {
		return wrong
	}
	return nil
}
