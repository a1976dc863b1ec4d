package kube

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateRole(role *rbacv1.Role) field.ErrorList {
	var ps problems
	checkRules(&ps, role.Rules, true)
	return ps.list
}

func validateClusterRole(role *rbacv1.ClusterRole) field.ErrorList {
	var ps problems
	checkRules(&ps, role.Rules, false)
	if a := role.AggregationRule; a != nil {
		p := field.NewPath("aggregationRule", "clusterRoleSelectors")
		ps.present(len(a.ClusterRoleSelectors) > 0,
			p, "at least one clusterRoleSelector required if aggregationRule is non-nil")
		for i := range a.ClusterRoleSelectors {
			s := &a.ClusterRoleSelectors[i]
			ps.selector(p.Index(i), s)
			_, err := metav1.LabelSelectorAsSelector(s)
			ps.valid(err == nil, p.Index(i), s, "invalid label selector.")
		}
	}
	return ps.list
}

// checkRules checks what a role allows. URLs that are no resources lie outside
// all namespaces.
func checkRules(ps *problems, rules []rbacv1.PolicyRule, namespaced bool) {
	for i, r := range rules {
		p := field.NewPath("rules").Index(i)
		ps.present(len(r.Verbs) > 0, p.Child("verbs"), "verbs must contain at least one value")
		if len(r.NonResourceURLs) > 0 {
			at := p.Child("nonResourceURLs")
			ps.valid(!namespaced, at, r.NonResourceURLs, "namespaced rules cannot apply to non-resource URLs")
			ps.valid(len(r.APIGroups)+len(r.Resources)+len(r.ResourceNames) == 0,
				at, r.NonResourceURLs, "rules cannot apply to both regular resources and non-resource URLs")
			continue
		}
		ps.present(len(r.APIGroups) > 0, p.Child("apiGroups"), "resource rules must supply at least one api group")
		ps.present(len(r.Resources) > 0, p.Child("resources"), "resource rules must supply at least one resource")
	}
}

// validateRoleBinding checks who gets which role. Only in a namespace can a Role
// be bound, and a service account be named without its own.
func validateRoleBinding(ref rbacv1.RoleRef, subjects []rbacv1.Subject, namespaced bool) field.ErrorList {
	var ps problems
	p := field.NewPath("roleRef")
	oneOf(&ps, p.Child("apiGroup"), ref.APIGroup, rbacv1.GroupName)
	kinds := []string{"ClusterRole"}
	if namespaced {
		kinds = []string{"Role", "ClusterRole"}
	}
	oneOf(&ps, p.Child("kind"), ref.Kind, kinds...)
	if ps.required(p.Child("name"), ref.Name) {
		ps.each(p.Child("name"), ref.Name, rbacName(ref.Name, false))
	}
	for i, s := range subjects {
		checkSubject(&ps, field.NewPath("subjects").Index(i), s, namespaced)
	}
	return ps.list
}

func checkSubject(ps *problems, p *field.Path, s rbacv1.Subject, namespaced bool) {
	named := ps.required(p.Child("name"), s.Name)
	switch s.Kind {
	case rbacv1.ServiceAccountKind:
		if named {
			ps.subdomain(p.Child("name"), s.Name)
		}
		oneOf(ps, p.Child("apiGroup"), s.APIGroup, "")
		ps.present(namespaced || s.Namespace != "", p.Child("namespace"), "")
	case rbacv1.UserKind, rbacv1.GroupKind:
		oneOf(ps, p.Child("apiGroup"), s.APIGroup, rbacv1.GroupName)
	default:
		oneOf(ps, p.Child("kind"), s.Kind, rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind)
	}
}

// sameRole keeps a binding to its role: another one would be another grant, which
// is a new binding's to make.
func sameRole(ref, old rbacv1.RoleRef) field.ErrorList {
	var ps problems
	ps.valid(ref == old, field.NewPath("roleRef"), ref, "cannot change roleRef")
	return ps.list
}
