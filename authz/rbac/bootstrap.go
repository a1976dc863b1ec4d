package rbac

import (
	"slices"
	"strings"

	"github.com/planekit/planekit/authn/user"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Policy is a set of roles and bindings.
type Policy struct {
	ClusterRoles        []*rbacv1.ClusterRole
	ClusterRoleBindings []*rbacv1.ClusterRoleBinding
	Roles               []*rbacv1.Role
	RoleBindings        []*rbacv1.RoleBinding
}

// Bootstrap defines the policy of a new cluster. The zero value is the policy of Kubernetes v1.36;
// the fields grant more.
type Bootstrap struct {
	// NodesByRole binds the role system:node to the group system:nodes. Set it only in clusters
	// without a node authorizer. Beside one it grants every node what the node authorizer
	// restricts to single nodes.
	NodesByRole bool
	// ControllersAsOne also binds the roles of the controllers to the user
	// system:kube-controller-manager. It is for controllers that run as this user instead of as
	// separate service accounts.
	ControllersAsOne bool
}

// Policy returns all roles and bindings of a new cluster. Namespaced ones are in kube-system and
// kube-public. The objects are new on each call.
func (b Bootstrap) Policy() Policy {
	var p Policy
	for _, table := range [][]roleTemplate{generalRoles, userFacingRoles, componentRoles} {
		for _, t := range table {
			p.ClusterRoles = append(p.ClusterRoles, t.role())
			subjects := t.subjects()
			if t.name == nodeRole && b.NodesByRole {
				subjects = []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: user.Nodes}}
			}
			// Like Kubernetes, keep an empty binding for nodes, so that its name is taken.
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

// BootstrapPolicy returns the cluster roles and bindings of a new cluster that has no node
// authorizer and whose controllers run as one user: those of [Bootstrap] with all fields set.
func BootstrapPolicy() ([]*rbacv1.ClusterRole, []*rbacv1.ClusterRoleBinding) {
	p := Bootstrap{NodesByRole: true, ControllersAsOne: true}.Policy()
	return p.ClusterRoles, p.ClusterRoleBindings
}

// BootstrapNamespacedPolicy returns the roles and bindings of kube-system in a new cluster.
func BootstrapNamespacedPolicy() ([]*rbacv1.Role, []*rbacv1.RoleBinding) {
	p := Bootstrap{}.Policy()
	elsewhere := func(namespace string) bool { return namespace != metav1.NamespaceSystem }
	return slices.DeleteFunc(p.Roles, func(r *rbacv1.Role) bool { return elsewhere(r.Namespace) }),
		slices.DeleteFunc(p.RoleBindings, func(b *rbacv1.RoleBinding) bool { return elsewhere(b.Namespace) })
}

// NodeRules returns the rules of the role system:node: the permissions of a node that do not depend
// on its pods.
func NodeRules() []rbacv1.PolicyRule {
	i := slices.IndexFunc(componentRoles, func(t roleTemplate) bool { return t.name == nodeRole })
	return componentRoles[i].role().Rules
}

const (
	nodeRole         = "system:node"
	controllerPrefix = "system:controller:"
)

// systemAccount returns a service account in kube-system as a subject.
func systemAccount(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: name}
}

// roleTemplate is one line of a policy table.
type roleTemplate struct {
	name string
	// users, groups and accounts (of kube-system) are the subjects of the role, separated by
	// spaces.
	users, groups, accounts string
	// selects is the aggregation label whose roles this role contains; label is the one of this
	// role.
	selects, label string
	rules          []line
}

// line is one rule in words, separated by spaces. It is plain data, so that programs need no code
// to initialize it.
type line struct {
	// groups are API groups, with "core" for the core group; or urls.
	verbs, groups string
	// resources may be one resource with object names, separated by commas:
	// configmaps=cluster-info. With urls as groups, they are paths.
	resources string
}

// urls replaces the groups in a rule about paths.
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

// aggregateTo is the prefix of the labels by which admin, edit and view select roles.
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

// rule returns a rule for resources from lists of words; "core" is the core group.
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

// paths returns a rule for URL paths.
func paths(verbs, urls string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Fields(verbs), NonResourceURLs: strings.Fields(urls)}
}
