// Package typed is the table of built-in resources for package client.
//
//	pods, revision, err := typed.Pods(c).List(ctx, "default", metav1.ListOptions{})
//
// A type that is not here is one line of [client.For] away.
package typed

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/planekit/planekit/client"
)

// object is what *V has to be for V to be a Kubernetes type.
type object[V any] interface {
	*V
	client.Object
}

func resource[V any, T object[V]](c *client.Client, group, kind, plural string, namespaced bool) client.Resource[T] {
	return client.For(c, client.Type[T]{
		Group: group, Version: "v1", Kind: kind, Plural: plural, Namespaced: namespaced,
		New: func() T { return new(V) },
	})
}

// Pods are those of the core group.
func Pods(c *client.Client) client.Resource[*corev1.Pod] {
	return resource[corev1.Pod](c, "", "Pod", "pods", true)
}

// Nodes are those of the core group.
func Nodes(c *client.Client) client.Resource[*corev1.Node] {
	return resource[corev1.Node](c, "", "Node", "nodes", false)
}

// Namespaces are those of the core group.
func Namespaces(c *client.Client) client.Resource[*corev1.Namespace] {
	return resource[corev1.Namespace](c, "", "Namespace", "namespaces", false)
}

// Events are those of the core group.
func Events(c *client.Client) client.Resource[*corev1.Event] {
	return resource[corev1.Event](c, "", "Event", "events", true)
}

// ServiceAccounts are those of the core group.
func ServiceAccounts(c *client.Client) client.Resource[*corev1.ServiceAccount] {
	return resource[corev1.ServiceAccount](c, "", "ServiceAccount", "serviceaccounts", true)
}

// Secrets are those of the core group.
func Secrets(c *client.Client) client.Resource[*corev1.Secret] {
	return resource[corev1.Secret](c, "", "Secret", "secrets", true)
}

// ConfigMaps are those of the core group.
func ConfigMaps(c *client.Client) client.Resource[*corev1.ConfigMap] {
	return resource[corev1.ConfigMap](c, "", "ConfigMap", "configmaps", true)
}

// Deployments are those of the group apps.
func Deployments(c *client.Client) client.Resource[*appsv1.Deployment] {
	return resource[appsv1.Deployment](c, "apps", "Deployment", "deployments", true)
}

// ReplicaSets are those of the group apps.
func ReplicaSets(c *client.Client) client.Resource[*appsv1.ReplicaSet] {
	return resource[appsv1.ReplicaSet](c, "apps", "ReplicaSet", "replicasets", true)
}

// Jobs are those of the group batch.
func Jobs(c *client.Client) client.Resource[*batchv1.Job] {
	return resource[batchv1.Job](c, "batch", "Job", "jobs", true)
}

// Leases are those of the group coordination.k8s.io.
func Leases(c *client.Client) client.Resource[*coordinationv1.Lease] {
	return resource[coordinationv1.Lease](c, "coordination.k8s.io", "Lease", "leases", true)
}

// Roles are those of the group rbac.authorization.k8s.io.
func Roles(c *client.Client) client.Resource[*rbacv1.Role] {
	return resource[rbacv1.Role](c, rbacv1.GroupName, "Role", "roles", true)
}

// RoleBindings are those of the group rbac.authorization.k8s.io.
func RoleBindings(c *client.Client) client.Resource[*rbacv1.RoleBinding] {
	return resource[rbacv1.RoleBinding](c, rbacv1.GroupName, "RoleBinding", "rolebindings", true)
}

// ClusterRoles are those of the group rbac.authorization.k8s.io.
func ClusterRoles(c *client.Client) client.Resource[*rbacv1.ClusterRole] {
	return resource[rbacv1.ClusterRole](c, rbacv1.GroupName, "ClusterRole", "clusterroles", false)
}

// ClusterRoleBindings are those of the group rbac.authorization.k8s.io.
func ClusterRoleBindings(c *client.Client) client.Resource[*rbacv1.ClusterRoleBinding] {
	return resource[rbacv1.ClusterRoleBinding](c, rbacv1.GroupName, "ClusterRoleBinding", "clusterrolebindings", false)
}
