package rbac

import (
	"strings"

	"github.com/planekit/planekit/authn/user"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BootstrapPolicy returns the cluster roles and bindings that a new cluster
// starts with, under Kubernetes' names and with the rules of Kubernetes v1.36
// for the resources that matter here. The objects are new on each call.
//
// It differs from Kubernetes in two bindings: system:node is bound to the
// group system:nodes, because there is no node authorizer beside these roles,
// and the roles of the controllers are bound to the user
// system:kube-controller-manager beside the service account of each.
func BootstrapPolicy() ([]*rbacv1.ClusterRole, []*rbacv1.ClusterRoleBinding) {
	var roles []*rbacv1.ClusterRole
	var bindings []*rbacv1.ClusterRoleBinding
	for _, table := range [][]roleTemplate{generalRoles, userFacingRoles, componentRoles} {
		for _, t := range table {
			roles = append(roles, t.role())
			if t.users != "" || t.groups != "" {
				bindings = append(bindings, binding(t.name, t.subjects()...))
			}
		}
	}
	for _, t := range controllerRoles {
		account := t.name
		t.name = "system:controller:" + account
		roles = append(roles, t.role())
		bindings = append(bindings, binding(t.name,
			rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "kube-system", Name: account},
			rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user.ControllerManager}))
	}
	return roles, bindings
}

// BootstrapNamespacedPolicy returns the roles and bindings of namespaces that a
// new cluster starts with beside them, as Kubernetes has them: in kube-system,
// who may read the config map by which extension API servers know front proxies
// and clients. The objects are new on each call.
func BootstrapNamespacedPolicy() ([]*rbacv1.Role, []*rbacv1.RoleBinding) {
	const reader = "extension-apiserver-authentication-reader"
	roleMeta, bindingMeta := bootstrapMeta(reader), bootstrapMeta("system::"+reader)
	roleMeta.Namespace, bindingMeta.Namespace = metav1.NamespaceSystem, metav1.NamespaceSystem
	return []*rbacv1.Role{{
			ObjectMeta: roleMeta,
			Rules:      []rbacv1.PolicyRule{rule("get list watch", "core", "configmaps", "extension-apiserver-authentication")},
		}}, []*rbacv1.RoleBinding{{
			ObjectMeta: bindingMeta,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: reader},
			Subjects: []rbacv1.Subject{
				{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user.ControllerManager},
				{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user.Scheduler},
			},
		}}
}

// roleTemplate is one line of a policy table.
type roleTemplate struct {
	name string
	// users and groups are whom the role is bound to, divided by spaces.
	users, groups string
	// selects is the aggregation label whose roles make up this role; label is
	// the one this role carries itself.
	selects, label string
	rules          []rbacv1.PolicyRule
}

func (t roleTemplate) role() *rbacv1.ClusterRole {
	r := &rbacv1.ClusterRole{ObjectMeta: bootstrapMeta(t.name)}
	for _, rule := range t.rules {
		r.Rules = append(r.Rules, *rule.DeepCopy())
	}
	if t.label != "" {
		r.Labels[aggregateTo+t.label] = "true"
	}
	if t.selects != "" {
		r.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{
			{MatchLabels: map[string]string{aggregateTo + t.selects: "true"}},
		}}
	}
	return r
}

func (t roleTemplate) subjects() []rbacv1.Subject {
	var s []rbacv1.Subject
	for name := range strings.FieldsSeq(t.users) {
		s = append(s, rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name})
	}
	for name := range strings.FieldsSeq(t.groups) {
		s = append(s, rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: name})
	}
	return s
}

// aggregateTo begins the labels by which admin, edit and view select roles.
const aggregateTo = "rbac.authorization.k8s.io/aggregate-to-"

func bootstrapMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:        name,
		Labels:      map[string]string{"kubernetes.io/bootstrapping": "rbac-defaults"},
		Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: "true"},
	}
}

func binding(name string, subjects ...rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: bootstrapMeta(name),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   subjects,
	}
}

// rule makes a rule for resources from lists of words; "core" is the core group.
func rule(verbs, groups, resources string, names ...string) rbacv1.PolicyRule {
	r := rbacv1.PolicyRule{
		Verbs: strings.Fields(verbs), APIGroups: strings.Fields(groups),
		Resources: strings.Fields(resources), ResourceNames: names,
	}
	for i, g := range r.APIGroups {
		if g == "core" {
			r.APIGroups[i] = ""
		}
	}
	return r
}

// paths makes a rule for URL paths.
func paths(verbs, urls string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Fields(verbs), NonResourceURLs: strings.Fields(urls)}
}
