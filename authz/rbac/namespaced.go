package rbac

import (
	"github.com/planekit/planekit/authn/user"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// namespacedTemplate is a role in a namespace and its binding.
type namespacedTemplate struct {
	namespace string
	// binding is the name of the binding if it differs from that of the role.
	binding string
	roleTemplate
}

// leaderLocking are the rules by which a component holds its lease.
var leaderLocking = []line{{read + " create update", coordinationGroup, "leases leasecandidates"}}

var namespacedRoles = []namespacedTemplate{
	// Extension API servers read front proxies and client authorities from this config map.
	{metav1.NamespaceSystem, "system::extension-apiserver-authentication-reader", roleTemplate{
		name: "extension-apiserver-authentication-reader", users: user.ControllerManager + " " + user.Scheduler,
		rules: []line{{read, "core", "configmaps=extension-apiserver-authentication"}},
	}},
	{metav1.NamespaceSystem, "", roleTemplate{
		name: "system:controller:bootstrap-signer", accounts: "bootstrap-signer",
		rules: []line{{read, "core", "secrets"}},
	}},
	{metav1.NamespaceSystem, "", roleTemplate{
		name: "system:controller:cloud-provider", accounts: "cloud-provider",
		rules: []line{{read + " create", "core", "configmaps"}},
	}},
	{metav1.NamespaceSystem, "", roleTemplate{
		name: "system:controller:token-cleaner", accounts: "token-cleaner",
		rules: []line{{read + " delete", "core", "secrets"}, events},
	}},
	{metav1.NamespaceSystem, "", roleTemplate{
		name: "system::leader-locking-kube-controller-manager", rules: leaderLocking,
		users: user.ControllerManager, accounts: "kube-controller-manager leader-election-controller",
	}},
	{metav1.NamespaceSystem, "", roleTemplate{
		name: "system::leader-locking-kube-scheduler", rules: leaderLocking,
		users: user.Scheduler, accounts: "kube-scheduler",
	}},
	{metav1.NamespacePublic, "", roleTemplate{
		name: "system:controller:bootstrap-signer", accounts: "bootstrap-signer",
		rules: []line{
			{read, "core", "configmaps"},
			{"update", "core", "configmaps=cluster-info"},
			events,
		},
	}},
}

func (t namespacedTemplate) objects() (*rbacv1.Role, *rbacv1.RoleBinding) {
	role := &rbacv1.Role{ObjectMeta: bootstrapMeta(t.name), Rules: t.role().Rules}
	role.Namespace = t.namespace
	name := t.binding
	if name == "" {
		name = t.name
	}
	roleBinding := &rbacv1.RoleBinding{
		ObjectMeta: bootstrapMeta(name),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: t.name},
		Subjects:   t.subjects(),
	}
	roleBinding.Namespace = t.namespace
	return role, roleBinding
}
