package kube

import (
	"fmt"
	"strings"

	"github.com/planekit/planekit/apiserver"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// rbacResource is what the four kinds have in common.
func rbacResource(kind, plural string, namespaced bool) apiserver.Resource {
	return apiserver.Resource{
		Group:      rbacv1.GroupName,
		Version:    "v1",
		Kind:       kind,
		Plural:     plural,
		Namespaced: namespaced,
	}
}

// rbacName allows anything that fits into a URL as one segment, such as
// "system:node".
func rbacName(name string, prefix bool) []string {
	if !prefix && (name == "." || name == "..") {
		return []string{fmt.Sprintf("may not be '%s'", name)}
	}
	var messages []string
	for _, c := range []string{"/", "%"} {
		if strings.Contains(name, c) {
			messages = append(messages, fmt.Sprintf("may not contain '%s'", c))
		}
	}
	return messages
}

func roles() apiserver.Resource {
	r := rbacResource("Role", "roles", true)
	r.New = func() runtime.Object { return &rbacv1.Role{} }
	r.NewList = func() runtime.Object { return &rbacv1.RoleList{} }
	r.Strategy = strategy[*rbacv1.Role]{
		validate:       validateRole,
		validateUpdate: func(role, _ *rbacv1.Role) field.ErrorList { return validateRole(role) },
	}.erase()
	r.Strategy.ValidateName = rbacName
	r.Columns = []apiserver.Column{createdAt[*rbacv1.Role]()}
	return r
}

func clusterRoles() apiserver.Resource {
	r := rbacResource("ClusterRole", "clusterroles", false)
	r.New = func() runtime.Object { return &rbacv1.ClusterRole{} }
	r.NewList = func() runtime.Object { return &rbacv1.ClusterRoleList{} }
	r.Strategy = strategy[*rbacv1.ClusterRole]{
		validate:       validateClusterRole,
		validateUpdate: func(role, _ *rbacv1.ClusterRole) field.ErrorList { return validateClusterRole(role) },
	}.erase()
	r.Strategy.ValidateName = rbacName
	r.Columns = []apiserver.Column{createdAt[*rbacv1.ClusterRole]()}
	return r
}

func roleBindings() apiserver.Resource {
	r := rbacResource("RoleBinding", "rolebindings", true)
	r.New = func() runtime.Object { return &rbacv1.RoleBinding{} }
	r.NewList = func() runtime.Object { return &rbacv1.RoleBindingList{} }
	r.Strategy = strategy[*rbacv1.RoleBinding]{
		complete: func(b *rbacv1.RoleBinding) { completeBinding(&b.RoleRef, b.Subjects) },
		validate: func(b *rbacv1.RoleBinding) field.ErrorList { return validateRoleBinding(b.RoleRef, b.Subjects, true) },
		validateUpdate: func(b, old *rbacv1.RoleBinding) field.ErrorList {
			return append(validateRoleBinding(b.RoleRef, b.Subjects, true), sameRole(b.RoleRef, old.RoleRef)...)
		},
	}.erase()
	r.Strategy.ValidateName = rbacName
	r.Columns = bindingColumns("roleBinding", rbacv1.RoleBinding{}.SwaggerDoc()["roleRef"],
		func(b *rbacv1.RoleBinding) (rbacv1.RoleRef, []rbacv1.Subject) { return b.RoleRef, b.Subjects })
	return r
}

func clusterRoleBindings() apiserver.Resource {
	r := rbacResource("ClusterRoleBinding", "clusterrolebindings", false)
	r.New = func() runtime.Object { return &rbacv1.ClusterRoleBinding{} }
	r.NewList = func() runtime.Object { return &rbacv1.ClusterRoleBindingList{} }
	r.Strategy = strategy[*rbacv1.ClusterRoleBinding]{
		complete: func(b *rbacv1.ClusterRoleBinding) { completeBinding(&b.RoleRef, b.Subjects) },
		validate: func(b *rbacv1.ClusterRoleBinding) field.ErrorList {
			return validateRoleBinding(b.RoleRef, b.Subjects, false)
		},
		validateUpdate: func(b, old *rbacv1.ClusterRoleBinding) field.ErrorList {
			return append(validateRoleBinding(b.RoleRef, b.Subjects, false), sameRole(b.RoleRef, old.RoleRef)...)
		},
	}.erase()
	r.Strategy.ValidateName = rbacName
	r.Columns = bindingColumns("clusterRoleBinding", rbacv1.ClusterRoleBinding{}.SwaggerDoc()["roleRef"],
		func(b *rbacv1.ClusterRoleBinding) (rbacv1.RoleRef, []rbacv1.Subject) { return b.RoleRef, b.Subjects })
	return r
}

func completeBinding(ref *rbacv1.RoleRef, subjects []rbacv1.Subject) {
	setIfEmpty(&ref.APIGroup, rbacv1.GroupName)
	for i := range subjects {
		if kind := subjects[i].Kind; kind == rbacv1.UserKind || kind == rbacv1.GroupKind {
			setIfEmpty(&subjects[i].APIGroup, rbacv1.GroupName)
		}
	}
}

// createdAt is the column of kinds for which upstream has none of their own.
func createdAt[T object]() apiserver.Column {
	c := text("Created At", metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"], func(obj T) string {
		return obj.GetCreationTimestamp().UTC().Format("2006-01-02T15:04:05Z")
	})
	c.Type = "date"
	return c
}

func bindingColumns[T object](kind, roleDoc string, parts func(T) (rbacv1.RoleRef, []rbacv1.Subject)) []apiserver.Column {
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
		text("Role", roleDoc, func(obj T) string {
			ref, _ := parts(obj)
			return ref.Kind + "/" + ref.Name
		}),
		age[T](),
	}
	return append(columns, wide(
		text("Users", "Users in the "+kind, subjects(rbacv1.UserKind)),
		text("Groups", "Groups in the "+kind, subjects(rbacv1.GroupKind)),
		text("ServiceAccounts", "ServiceAccounts in the "+kind, subjects(rbacv1.ServiceAccountKind)),
	)...)
}
