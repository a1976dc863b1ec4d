package apiextensions

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// DeepCopy returns a copy that shares nothing that may be changed: schemas are shared, and must not be
// changed in place.
func (d *CustomResourceDefinition) DeepCopy() *CustomResourceDefinition {
	if d == nil {
		return nil
	}
	out := *d
	d.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Names = d.Spec.Names.copy()
	out.Spec.Versions = slices.Clone(d.Spec.Versions)
	for i := range out.Spec.Versions {
		out.Spec.Versions[i] = *out.Spec.Versions[i].copy()
	}
	out.Spec.Conversion = d.Spec.Conversion.copy()
	out.Status.Conditions = slices.Clone(d.Status.Conditions)
	out.Status.AcceptedNames = d.Status.AcceptedNames.copy()
	out.Status.StoredVersions = slices.Clone(d.Status.StoredVersions)
	return &out
}

// DeepCopyObject implements [runtime.Object].
func (d *CustomResourceDefinition) DeepCopyObject() runtime.Object { return d.DeepCopy() }

// DeepCopyObject implements [runtime.Object].
func (l *CustomResourceDefinitionList) DeepCopyObject() runtime.Object {
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = slices.Clone(l.Items)
	for i := range out.Items {
		out.Items[i] = *l.Items[i].DeepCopy()
	}
	return &out
}

func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	out := *p
	return &out
}

func (n CustomResourceDefinitionNames) copy() CustomResourceDefinitionNames {
	n.ShortNames, n.Categories = slices.Clone(n.ShortNames), slices.Clone(n.Categories)
	return n
}

func (v *CustomResourceDefinitionVersion) copy() *CustomResourceDefinitionVersion {
	out := *v
	out.DeprecationWarning = clone(v.DeprecationWarning)
	out.Schema = clone(v.Schema)
	out.Subresources = clone(v.Subresources)
	if out.Subresources != nil {
		out.Subresources.Status, out.Subresources.Scale = clone(v.Subresources.Status), clone(v.Subresources.Scale)
	}
	out.AdditionalPrinterColumns = slices.Clone(v.AdditionalPrinterColumns)
	out.SelectableFields = slices.Clone(v.SelectableFields)
	return &out
}

func (c *CustomResourceConversion) copy() *CustomResourceConversion {
	out := clone(c)
	if out == nil || out.Webhook == nil {
		return out
	}
	out.Webhook = clone(c.Webhook)
	out.Webhook.ConversionReviewVersions = slices.Clone(c.Webhook.ConversionReviewVersions)
	if config := clone(c.Webhook.ClientConfig); config != nil {
		config.URL, config.Service, config.CABundle = clone(config.URL), clone(config.Service), slices.Clone(config.CABundle)
		if config.Service != nil {
			config.Service.Path, config.Service.Port = clone(config.Service.Path), clone(config.Service.Port)
		}
		out.Webhook.ClientConfig = config
	}
	return out
}

// Subschemas calls f with s and with each schema in it, until f returns false.
func (s *JSONSchemaProps) Subschemas(f func(part *JSONSchemaProps) bool) bool {
	if s == nil {
		return true
	}
	if !f(s) {
		return false
	}
	lists := [][]JSONSchemaProps{s.AllOf, s.OneOf, s.AnyOf}
	if s.Items != nil {
		if !s.Items.Schema.Subschemas(f) {
			return false
		}
		lists = append(lists, s.Items.JSONSchemas)
	}
	for _, list := range lists {
		for i := range list {
			if !list[i].Subschemas(f) {
				return false
			}
		}
	}
	for _, m := range []map[string]JSONSchemaProps{s.Properties, s.PatternProperties, s.Definitions} {
		for _, name := range slices.Sorted(maps.Keys(m)) {
			part := m[name]
			if !part.Subschemas(f) {
				return false
			}
		}
	}
	for _, more := range []*JSONSchemaPropsOrBool{s.AdditionalProperties, s.AdditionalItems} {
		if more != nil && !more.Schema.Subschemas(f) {
			return false
		}
	}
	for _, d := range s.Dependencies {
		if !d.Schema.Subschemas(f) {
			return false
		}
	}
	return s.Not.Subschemas(f)
}
