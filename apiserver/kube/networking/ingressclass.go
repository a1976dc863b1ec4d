package networking

import (
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	"github.com/planekit/planekit/kinds"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxClassController is the length of a controller's name.
const maxClassController = 250

// IngressClasses returns the resource of the kind IngressClass.
func IngressClasses() apiserver.Resource {
	type class = networkingv1.IngressClass
	doc := networkingv1.IngressClassSpec{}.SwaggerDoc()
	return apiserver.For(kinds.IngressClasses, apiserver.Resource{
		Strategy: define.Strategy[*class]{
			Counted: func(c *class) any { return &c.Spec },
			Default: func(c *class) {
				if c.Spec.Parameters != nil {
					optional.SetIfNil(&c.Spec.Parameters.Scope, networkingv1.IngressClassParametersReferenceScopeCluster)
				}
			},
			Validate: validateIngressClass,
			ValidateUpdate: func(c, old *class) field.ErrorList {
				var ps check.Problems
				ps.Immutable(field.NewPath("spec", "controller"), c.Spec.Controller, old.Spec.Controller)
				return append(ps.List, validateIngressClass(c)...)
			},
		}.Erase(),
		Columns: []apiserver.Column{
			column.NameMarkedDefault[*class](networkingv1.AnnotationIsDefaultIngressClass),
			column.Text("Controller", doc["controller"], func(c *class) string { return c.Spec.Controller }),
			column.Text("Parameters", doc["parameters"], func(c *class) string {
				params := c.Spec.Parameters
				if params == nil {
					return column.None
				}
				kind := params.Kind
				if params.APIGroup != nil {
					kind += "." + *params.APIGroup
				}
				return kind + "/" + params.Name
			}),
			column.Age[*class](),
		},
	})
}

func validateIngressClass(c *networkingv1.IngressClass) field.ErrorList {
	var ps check.Problems
	p := field.NewPath("spec")
	ps.AtMostBytes(p.Child("controller"), len(c.Spec.Controller), maxClassController)
	ps.All(validation.IsDomainPrefixedPath(p.Child("controller"), c.Spec.Controller))
	params, at := c.Spec.Parameters, p.Child("parameters")
	if params == nil {
		return ps.List
	}
	checkObjectReference(&ps, at, &corev1.TypedLocalObjectReference{APIGroup: params.APIGroup, Kind: params.Kind, Name: params.Name})
	if params.Scope == nil {
		ps.Add(field.Required(at.Child("scope"), ""))
		return ps.List
	}
	switch *params.Scope {
	case networkingv1.IngressClassParametersReferenceScopeNamespace:
		if params.Namespace == nil {
			ps.Add(field.Required(at.Child("namespace"), "`parameters.scope` is set to 'Namespace'"))
		} else {
			ps.DNSLabel(at.Child("namespace"), *params.Namespace)
		}
	case networkingv1.IngressClassParametersReferenceScopeCluster:
		ps.Allowed(params.Namespace == nil, at.Child("namespace"), "`parameters.scope` is set to 'Cluster'")
	default:
		check.OneOf(&ps, at.Child("scope"), *params.Scope,
			networkingv1.IngressClassParametersReferenceScopeCluster, networkingv1.IngressClassParametersReferenceScopeNamespace)
	}
	return ps.List
}
