package kube

import (
	"github.com/planekit/planekit/apiserver"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxClassController is the length of a controller's name.
const maxClassController = 250

func ingressClasses() apiserver.Resource {
	type class = networkingv1.IngressClass
	doc := networkingv1.IngressClassSpec{}.SwaggerDoc()
	return apiserver.Resource{
		Group:   networkingv1.GroupName,
		Version: "v1",
		Kind:    "IngressClass",
		Plural:  "ingressclasses",
		New:     func() runtime.Object { return &class{} },
		NewList: func() runtime.Object { return &networkingv1.IngressClassList{} },
		Strategy: strategy[*class]{
			complete: func(c *class) {
				if c.Spec.Parameters != nil {
					setIfNil(&c.Spec.Parameters.Scope, networkingv1.IngressClassParametersReferenceScopeCluster)
				}
			},
			create:   func(c *class) { c.Generation = 1 },
			update:   func(c, old *class) { c.Generation = nextGeneration(old.Generation, differ(&c.Spec, &old.Spec)) },
			validate: validateIngressClass,
			validateUpdate: func(c, old *class) field.ErrorList {
				ps := problems{list: validateIngressClass(c)}
				ps.immutable(field.NewPath("spec", "controller"), c.Spec.Controller, old.Spec.Controller)
				return ps.list
			},
		}.erase(),
		Columns: []apiserver.Column{
			markedName[*class](networkingv1.AnnotationIsDefaultIngressClass),
			text("Controller", doc["controller"], func(c *class) string { return c.Spec.Controller }),
			text("Parameters", doc["parameters"], func(c *class) string {
				params := c.Spec.Parameters
				if params == nil {
					return none
				}
				kind := params.Kind
				if params.APIGroup != nil {
					kind += "." + *params.APIGroup
				}
				return kind + "/" + params.Name
			}),
			age[*class](),
		},
	}
}

func validateIngressClass(c *networkingv1.IngressClass) field.ErrorList {
	var ps problems
	p := field.NewPath("spec")
	ps.atMostBytes(p.Child("controller"), len(c.Spec.Controller), maxClassController)
	ps.all(validation.IsDomainPrefixedPath(p.Child("controller"), c.Spec.Controller))
	params, at := c.Spec.Parameters, p.Child("parameters")
	if params == nil {
		return ps.list
	}
	checkObjectReference(&ps, at, &corev1.TypedLocalObjectReference{APIGroup: params.APIGroup, Kind: params.Kind, Name: params.Name})
	if params.Scope == nil {
		ps.add(field.Required(at.Child("scope"), ""))
		return ps.list
	}
	switch *params.Scope {
	case networkingv1.IngressClassParametersReferenceScopeNamespace:
		if params.Namespace == nil {
			ps.add(field.Required(at.Child("namespace"), "`parameters.scope` is set to 'Namespace'"))
		} else {
			ps.dnsLabel(at.Child("namespace"), *params.Namespace)
		}
	case networkingv1.IngressClassParametersReferenceScopeCluster:
		ps.allowed(params.Namespace == nil, at.Child("namespace"), "`parameters.scope` is set to 'Cluster'")
	default:
		oneOf(&ps, at.Child("scope"), *params.Scope,
			networkingv1.IngressClassParametersReferenceScopeCluster, networkingv1.IngressClassParametersReferenceScopeNamespace)
	}
	return ps.list
}
