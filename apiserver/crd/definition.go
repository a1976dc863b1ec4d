package crd

import (
	"context"
	"reflect"
	"slices"
	"strings"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/internal/structural"
	"github.com/planekit/planekit/kinds/apiextensions"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

type definition = apiextensions.CustomResourceDefinition

// A RuleCompiler checks and compiles CEL rules.
type RuleCompiler interface {
	// Check returns what is wrong with the rules of a schema at path. before is the schema that the
	// definition had; nil is none.
	Check(ctx context.Context, path *field.Path, schema, before *apiextensions.JSONSchemaProps) field.ErrorList
	// Compile compiles the rules of a schema.
	Compile(schema *structural.Schema) Rules
}

// Resource returns the resource of CustomResourceDefinitions themselves. rules compiles CEL rules; without it,
// definitions with rules are refused.
func Resource(rules RuleCompiler) apiserver.Resource {
	c := checker{rules: rules}
	return apiserver.Resource{
		Group: apiextensions.GroupName, Version: "v1", Kind: "CustomResourceDefinition", Plural: "customresourcedefinitions",
		ShortNames: []string{"crd", "crds"}, Categories: []string{"api-extensions"},
		Conditional: true, StoredJSON: true,
		New:     func() runtime.Object { return &definition{} },
		NewList: func() runtime.Object { return &apiextensions.CustomResourceDefinitionList{} },
		Columns: []apiserver.Column{{
			Name: "Created At", Type: "date", Steady: true, Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"],
			Value: func(obj runtime.Object) any {
				return obj.(*definition).CreationTimestamp.UTC().Format("2006-01-02T15:04:05Z07:00")
			},
		}},
		Packing: &apiserver.Packing{
			Pack:   func(obj runtime.Object) { obj.(*definition).Pack() },
			Unpack: func(obj runtime.Object) (runtime.Object, error) { return obj.(*definition).Unpacked() },
		},
		Strategy: apiserver.Strategy{
			Default:          func(obj runtime.Object) { complete(obj.(*definition)) },
			PrepareForCreate: prepareForCreate,
			PrepareForUpdate: prepareForUpdate,
			Validate: func(ctx context.Context, obj runtime.Object) field.ErrorList {
				return c.validate(ctx, obj.(*definition))
			},
			ValidateUpdate: func(ctx context.Context, obj, old runtime.Object) field.ErrorList {
				return c.validateUpdate(ctx, obj.(*definition), old.(*definition))
			},
			// Objects are deleted before the definition is.
			Finalizing: func(obj runtime.Object) bool { return obj.(*definition).DeletionTimestamp == nil },
			PrepareForDelete: func(obj runtime.Object) {
				d := obj.(*definition)
				if slices.Contains(d.Finalizers, apiextensions.Finalizer) || conditionOf(d, apiextensions.Terminating) != nil {
					return
				}
				d.Finalizers = append(d.Finalizers, apiextensions.Finalizer)
				setCondition(d, apiextensions.Terminating, metav1.ConditionTrue, "InstanceDeletionPending", "CustomResource deletion is pending")
			},
		},
		Subresources: []apiserver.Subresource{apiserver.Status{Resets: []string{"spec"}, Strategy: apiserver.Strategy{
			PrepareForUpdate: func(_ context.Context, obj, old runtime.Object) {
				d, was := obj.(*definition), old.(*definition)
				d.Spec, d.Generation = was.Spec, was.Generation
			},
			ValidateUpdate: func(_ context.Context, obj, _ runtime.Object) field.ErrorList {
				return validateNames(&obj.(*definition).Status.AcceptedNames, field.NewPath("status", "acceptedNames"))
			},
		}}},
	}
}

// complete sets defaults.
func complete(d *definition) {
	names := &d.Spec.Names
	if names.Singular == "" {
		names.Singular = strings.ToLower(names.Kind)
	}
	if names.ListKind == "" && names.Kind != "" {
		names.ListKind = names.Kind + "List"
	}
	if d.Spec.Conversion == nil {
		d.Spec.Conversion = &apiextensions.CustomResourceConversion{Strategy: apiextensions.NoneConverter}
	}
	if w := d.Spec.Conversion.Webhook; w != nil && w.ClientConfig == nil && w.ConversionReviewVersions == nil {
		d.Spec.Conversion = &apiextensions.CustomResourceConversion{Strategy: d.Spec.Conversion.Strategy} // as Kubernetes stores it
	}
	if w := d.Spec.Conversion.Webhook; w != nil && w.ClientConfig != nil && w.ClientConfig.Service != nil && w.ClientConfig.Service.Port == nil {
		service := *w.ClientConfig.Service
		service.Port = new(int32(443))
		w.ClientConfig.Service = &service
	}
	if len(d.Status.StoredVersions) == 0 {
		store(d)
	}
}

// store adds the storage version to those in which objects may be stored.
func store(d *definition) {
	for _, v := range d.Spec.Versions {
		if v.Storage && !slices.Contains(d.Status.StoredVersions, v.Name) {
			d.Status.StoredVersions = append(slices.Clone(d.Status.StoredVersions), v.Name)
			return
		}
	}
}

func prepareForCreate(_ context.Context, obj runtime.Object) {
	d := obj.(*definition)
	d.Status = apiextensions.CustomResourceDefinitionStatus{}
	d.Generation = 1
	store(d)
}

func prepareForUpdate(_ context.Context, obj, old runtime.Object) {
	d, was := obj.(*definition), old.(*definition)
	d.Status, d.Generation = was.Status, was.Generation
	if !equality.Semantic.DeepEqual(d.Spec, was.Spec) {
		d.Generation++
	}
	store(d)
}

func (c checker) validate(ctx context.Context, d *definition) field.ErrorList {
	var errs field.ErrorList
	if want := d.Spec.Names.Plural + "." + d.Spec.Group; d.Name != want && d.Name != "" {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), d.Name, `must be spec.names.plural+"."+spec.group`))
	}
	errs = append(errs, c.validateSpec(ctx, &d.Spec, nil)...)
	return append(errs, validateStatus(d, nil)...)
}

func (c checker) validateUpdate(ctx context.Context, d, old *definition) field.ErrorList {
	errs := c.validateSpec(ctx, &d.Spec, old)
	spec := field.NewPath("spec")
	if isTrue(old, apiextensions.Established) {
		errs = append(errs, validation.ValidateImmutableField(d.Spec.Scope, old.Spec.Scope, spec.Child("scope"))...)
		errs = append(errs, validation.ValidateImmutableField(d.Spec.Names.Kind, old.Spec.Names.Kind, spec.Child("names", "kind"))...)
	}
	errs = append(errs, validation.ValidateImmutableField(d.Spec.Group, old.Spec.Group, spec.Child("group"))...)
	errs = append(errs, validation.ValidateImmutableField(d.Spec.Names.Plural, old.Spec.Names.Plural, spec.Child("names", "plural"))...)
	return append(errs, validateStatus(d, old)...)
}

// conditionOf returns the condition of d with the name, nil if there is none.
func conditionOf(d *definition, name string) *apiextensions.CustomResourceDefinitionCondition {
	for i := range d.Status.Conditions {
		if c := &d.Status.Conditions[i]; c.Type == name {
			return c
		}
	}
	return nil
}

func isTrue(d *definition, name string) bool {
	c := conditionOf(d, name)
	return c != nil && c.Status == metav1.ConditionTrue
}

func setCondition(d *definition, name string, status metav1.ConditionStatus, reason, message string) {
	c := apiextensions.CustomResourceDefinitionCondition{
		Type: name, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.Now().Rfc3339Copy(),
	}
	have := conditionOf(d, name)
	if have == nil {
		d.Status.Conditions = append(d.Status.Conditions, c)
		return
	}
	if have.Status == status {
		c.LastTransitionTime = have.LastTransitionTime
	}
	c.ObservedGeneration = have.ObservedGeneration
	*have = c
}

func removeCondition(d *definition, name string) {
	d.Status.Conditions = slices.DeleteFunc(d.Status.Conditions, func(c apiextensions.CustomResourceDefinitionCondition) bool { return c.Type == name })
}

// sameStatus reports whether two statuses are equal.
func sameStatus(a, b *definition) bool { return reflect.DeepEqual(a.Status, b.Status) }
