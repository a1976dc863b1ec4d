package rbac

import (
	"slices"
	"strings"

	"github.com/planekit/planekit/authn/user"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Policy is roles and bindings.
type Policy struct {
	ClusterRoles        []*rbacv1.ClusterRole
	ClusterRoleBindings []*rbacv1.ClusterRoleBinding
	Roles               []*rbacv1.Role
	RoleBindings        []*rbacv1.RoleBinding
}

// Bootstrap says what the policy that a cluster starts with grants beyond that of
// Kubernetes v1.36. The zero Bootstrap grants nothing beyond.
type Bootstrap struct {
	// NodesByRole binds the role system:node to the group system:nodes. It is for
	// clusters without a node authorizer, and makes one useless.
	NodesByRole bool
	// ControllersAsOne binds the roles of the controllers also to the user
	// system:kube-controller-manager. It is for controllers that run as this user
	// and not each as a service account.
	ControllersAsOne bool
}

// Policy returns all roles and bindings that a cluster starts with. Those of
// namespaces are in kube-system and kube-public. The objects are new on each call.
func (b Bootstrap) Policy() Policy {
	var p Policy
	for _, table := range [][]roleTemplate{generalRoles, userFacingRoles, componentRoles} {
		for _, t := range table {
			p.ClusterRoles = append(p.ClusterRoles, t.role())
			subjects := t.subjects()
			if t.name == nodeRole && b.NodesByRole {
				subjects = []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: user.Nodes}}
			}
			// Kubernetes keeps the binding of nodes, empty, so that nobody makes another.
			if len(subjects) > 0 || t.name == nodeRole {
				p.ClusterRoleBindings = append(p.ClusterRoleBindings, binding(t.name, subjects...))
			}
		}
	}
	for _, t := range controllerRoles {
		account := t.name
		t.name = controllerPrefix + account
		subjects := []rbacv1.Subject{systemAccount(account)}
		if b.ControllersAsOne {
			subjects = append(subjects, rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user.ControllerManager})
		}
		p.ClusterRoles = append(p.ClusterRoles, t.role())
		p.ClusterRoleBindings = append(p.ClusterRoleBindings, binding(t.name, subjects...))
	}
	for _, t := range namespacedRoles {
		role, roleBinding := t.objects()
		p.Roles, p.RoleBindings = append(p.Roles, role), append(p.RoleBindings, roleBinding)
	}
	return p
}

// BootstrapPolicy returns the cluster roles and bindings that a new cluster
// starts with which has no node authorizer and whose controllers run as one user:
// those of [Bootstrap] with everything it can grant.
func BootstrapPolicy() ([]*rbacv1.ClusterRole, []*rbacv1.ClusterRoleBinding) {
	p := Bootstrap{NodesByRole: true, ControllersAsOne: true}.Policy()
	return p.ClusterRoles, p.ClusterRoleBindings
}

// BootstrapNamespacedPolicy returns the roles and bindings of kube-system that a
// new cluster starts with beside them.
func BootstrapNamespacedPolicy() ([]*rbacv1.Role, []*rbacv1.RoleBinding) {
	p := Bootstrap{}.Policy()
	elsewhere := func(namespace string) bool { return namespace != metav1.NamespaceSystem }
	return slices.DeleteFunc(p.Roles, func(r *rbacv1.Role) bool { return elsewhere(r.Namespace) }),
		slices.DeleteFunc(p.RoleBindings, func(b *rbacv1.RoleBinding) bool { return elsewhere(b.Namespace) })
}

// NodeRules returns the rules of the role system:node: what a node may do as far
// as it does not depend on the pods it runs.
func NodeRules() []rbacv1.PolicyRule {
	i := slices.IndexFunc(componentRoles, func(t roleTemplate) bool { return t.name == nodeRole })
	return componentRoles[i].role().Rules
}

const (
	nodeRole         = "system:node"
	controllerPrefix = "system:controller:"
)

// systemAccount is a service account in kube-system.
func systemAccount(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: name}
}

// roleTemplate is one line of a policy table.
type roleTemplate struct {
	name string
	// users, groups and accounts of kube-system are whom the role is bound to,
	// divided by spaces.
	users, groups, accounts string
	// selects is the aggregation label whose roles make up this role; label is
	// the one this role carries itself.
	selects, label string
	rules          []line
}

// line is one rule in words, divided by spaces. It is data and no code: a program
// starts with it as it is.
type line struct {
	// groups are API groups, "core" the core group; or urls.
	verbs, groups string
	// resources may be one with the names of objects, divided by commas:
	// configmaps=cluster-info.
	// With urls as groups they are paths.
	resources string
}

// urls stands for the groups of a rule about paths.
const urls = "/"

func (l line) rule() rbacv1.PolicyRule {
	if l.groups == urls {
		return paths(l.verbs, l.resources)
	}
	if resource, names, ok := strings.Cut(l.resources, "="); ok {
		return rule(l.verbs, l.groups, resource, strings.Split(names, ",")...)
	}
	return rule(l.verbs, l.groups, l.resources)
}

func (t roleTemplate) role() *rbacv1.ClusterRole {
	r := &rbacv1.ClusterRole{ObjectMeta: bootstrapMeta(t.name)}
	for _, l := range t.rules {
		r.Rules = append(r.Rules, l.rule())
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
	for name := range strings.FieldsSeq(t.accounts) {
		s = append(s, systemAccount(name))
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
