package rbac

import (
	"strings"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	"github.com/planekit/planekit/kinds"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Roles returns the resource of the kind Role.
func Roles() apiserver.Resource {
	r := apiserver.For(kinds.Roles, apiserver.Resource{CreateOnUpdate: true})
	r.Strategy = define.Strategy[*rbacv1.Role]{
		Validate:       validateRole,
		ValidateUpdate: func(role, _ *rbacv1.Role) field.ErrorList { return validateRole(role) },
	}.Erase()
	r.Strategy.ValidateName = apiserver.PathSegmentName
	r.Columns = []apiserver.Column{column.CreatedAt[*rbacv1.Role]()}
	return r
}

// ClusterRoles returns the resource of the kind ClusterRole.
func ClusterRoles() apiserver.Resource {
	r := apiserver.For(kinds.ClusterRoles, apiserver.Resource{CreateOnUpdate: true})
	r.Strategy = define.Strategy[*rbacv1.ClusterRole]{
		Validate:       validateClusterRole,
		ValidateUpdate: func(role, _ *rbacv1.ClusterRole) field.ErrorList { return validateClusterRole(role) },
	}.Erase()
	r.Strategy.ValidateName = apiserver.PathSegmentName
	r.Columns = []apiserver.Column{column.CreatedAt[*rbacv1.ClusterRole]()}
	return r
}

// RoleBindings returns the resource of the kind RoleBinding.
func RoleBindings() apiserver.Resource {
	r := apiserver.For(kinds.RoleBindings, apiserver.Resource{CreateOnUpdate: true})
	r.Strategy = define.Strategy[*rbacv1.RoleBinding]{
		Default:  func(b *rbacv1.RoleBinding) { completeBinding(&b.RoleRef, b.Subjects) },
		Validate: func(b *rbacv1.RoleBinding) field.ErrorList { return validateRoleBinding(b.RoleRef, b.Subjects, true) },
		ValidateUpdate: func(b, old *rbacv1.RoleBinding) field.ErrorList {
			return append(validateRoleBinding(b.RoleRef, b.Subjects, true), sameRole(b.RoleRef, old.RoleRef)...)
		},
	}.Erase()
	r.Strategy.ValidateName = apiserver.PathSegmentName
	r.Columns = bindingColumns("roleBinding", rbacv1.RoleBinding{}.SwaggerDoc()["roleRef"],
		func(b *rbacv1.RoleBinding) (rbacv1.RoleRef, []rbacv1.Subject) { return b.RoleRef, b.Subjects })
	return r
}

// ClusterRoleBindings returns the resource of the kind ClusterRoleBinding.
func ClusterRoleBindings() apiserver.Resource {
	r := apiserver.For(kinds.ClusterRoleBindings, apiserver.Resource{CreateOnUpdate: true})
	r.Strategy = define.Strategy[*rbacv1.ClusterRoleBinding]{
		Default: func(b *rbacv1.ClusterRoleBinding) { completeBinding(&b.RoleRef, b.Subjects) },
		Validate: func(b *rbacv1.ClusterRoleBinding) field.ErrorList {
			return validateRoleBinding(b.RoleRef, b.Subjects, false)
		},
		ValidateUpdate: func(b, old *rbacv1.ClusterRoleBinding) field.ErrorList {
			return append(validateRoleBinding(b.RoleRef, b.Subjects, false), sameRole(b.RoleRef, old.RoleRef)...)
		},
	}.Erase()
	r.Strategy.ValidateName = apiserver.PathSegmentName
	r.Columns = bindingColumns("clusterRoleBinding", rbacv1.ClusterRoleBinding{}.SwaggerDoc()["roleRef"],
		func(b *rbacv1.ClusterRoleBinding) (rbacv1.RoleRef, []rbacv1.Subject) { return b.RoleRef, b.Subjects })
	return r
}

func completeBinding(ref *rbacv1.RoleRef, subjects []rbacv1.Subject) {
	optional.SetIfEmpty(&ref.APIGroup, rbacv1.GroupName)
	for i := range subjects {
		if kind := subjects[i].Kind; kind == rbacv1.UserKind || kind == rbacv1.GroupKind {
			optional.SetIfEmpty(&subjects[i].APIGroup, rbacv1.GroupName)
		}
	}
}

func bindingColumns[T column.Object](kind, roleDoc string, parts func(T) (rbacv1.RoleRef, []rbacv1.Subject)) []apiserver.Column {
	subjects := func(of string) func(T) string {
		return func(obj T) string {
			_, all := parts(obj)
			var names []string
			for _, s := range all {
				switch {
				case s.Kind != of:
				case of == rbacv1.ServiceAccountKind:
					names = append(names, s.Namespace+"/"+s.Name)
				default:
					names = append(names, s.Name)
				}
			}
			return strings.Join(names, ", ")
		}
	}
	columns := []apiserver.Column{
		column.Text("Role", roleDoc, func(obj T) string {
			ref, _ := parts(obj)
			return ref.Kind + "/" + ref.Name
		}),
		column.Age[T](),
	}
	return append(columns, column.Wide(
		column.Text("Users", "Users in the "+kind, subjects(rbacv1.UserKind)),
		column.Text("Groups", "Groups in the "+kind, subjects(rbacv1.GroupKind)),
		column.Text("ServiceAccounts", "ServiceAccounts in the "+kind, subjects(rbacv1.ServiceAccountKind)),
	)...)
}

func validateRole(role *rbacv1.Role) field.ErrorList {
	var ps check.Problems
	checkRules(&ps, role.Rules, true)
	return ps.List
}

func validateClusterRole(role *rbacv1.ClusterRole) field.ErrorList {
	var ps check.Problems
	checkRules(&ps, role.Rules, false)
	if a := role.AggregationRule; a != nil {
		p := field.NewPath("aggregationRule", "clusterRoleSelectors")
		ps.Present(len(a.ClusterRoleSelectors) > 0,
			p, "at least one clusterRoleSelector required if aggregationRule is non-nil")
		for i := range a.ClusterRoleSelectors {
			s := &a.ClusterRoleSelectors[i]
			ps.Selector(p.Index(i), s)
			_, err := metav1.LabelSelectorAsSelector(s)
			ps.Valid(err == nil, p.Index(i), nil, "invalid label selector.") // Kubernetes shows no value
		}
	}
	return ps.List
}

// checkRules checks what a role allows. URLs that are no resources lie outside
// all namespaces.
func checkRules(ps *check.Problems, rules []rbacv1.PolicyRule, namespaced bool) {
	for i, r := range rules {
		p := field.NewPath("rules").Index(i)
		ps.Present(len(r.Verbs) > 0, p.Child("verbs"), "verbs must contain at least one value")
		if len(r.NonResourceURLs) > 0 {
			at := p.Child("nonResourceURLs")
			ps.Valid(!namespaced, at, r.NonResourceURLs, "namespaced rules cannot apply to non-resource URLs")
			ps.Valid(len(r.APIGroups)+len(r.Resources)+len(r.ResourceNames) == 0,
				at, r.NonResourceURLs, "rules cannot apply to both regular resources and non-resource URLs")
			continue
		}
		ps.Present(len(r.APIGroups) > 0, p.Child("apiGroups"), "resource rules must supply at least one api group")
		ps.Present(len(r.Resources) > 0, p.Child("resources"), "resource rules must supply at least one resource")
	}
}

// validateRoleBinding checks who gets which role. Only in a namespace can a Role
// be bound, and a service account be named without its own.
func validateRoleBinding(ref rbacv1.RoleRef, subjects []rbacv1.Subject, namespaced bool) field.ErrorList {
	var ps check.Problems
	p := field.NewPath("roleRef")
	check.OneOf(&ps, p.Child("apiGroup"), ref.APIGroup, rbacv1.GroupName)
	kinds := []string{"ClusterRole"}
	if namespaced {
		kinds = []string{"Role", "ClusterRole"}
	}
	check.OneOf(&ps, p.Child("kind"), ref.Kind, kinds...)
	if ps.Required(p.Child("name"), ref.Name) {
		ps.Each(p.Child("name"), ref.Name, apiserver.PathSegmentName(ref.Name, false))
	}
	for i, s := range subjects {
		checkSubject(&ps, field.NewPath("subjects").Index(i), s, namespaced)
	}
	return ps.List
}

func checkSubject(ps *check.Problems, p *field.Path, s rbacv1.Subject, namespaced bool) {
	named := ps.Required(p.Child("name"), s.Name)
	switch s.Kind {
	case rbacv1.ServiceAccountKind:
		if named {
			ps.Subdomain(p.Child("name"), s.Name)
		}
		check.OneOf(ps, p.Child("apiGroup"), s.APIGroup, "")
		ps.Present(namespaced || s.Namespace != "", p.Child("namespace"), "")
	case rbacv1.UserKind, rbacv1.GroupKind:
		check.OneOf(ps, p.Child("apiGroup"), s.APIGroup, rbacv1.GroupName)
	default:
		check.OneOf(ps, p.Child("kind"), s.Kind, rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind)
	}
}

// sameRole requires a binding to keep its role: another grant needs a new binding.
func sameRole(ref, old rbacv1.RoleRef) field.ErrorList {
	var ps check.Problems
	ps.Valid(ref == old, field.NewPath("roleRef"), ref, "cannot change roleRef")
	return ps.List
}
