package rbac

import (
	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	rbacv1 "k8s.io/api/rbac/v1"
)

// Static returns an authorizer for policy, which must not be changed afterwards. It is synced at
// once and needs no Run.
func Static(policy Policy) *Authorizer {
	a := &Authorizer{
		config: Config{
			Roles: localcache.NewMap(policy.Roles...), RoleBindings: localcache.NewMap(policy.RoleBindings...),
			ClusterRoles: localcache.NewMap(policy.ClusterRoles...), ClusterRoleBindings: localcache.NewMap(policy.ClusterRoleBindings...),
			Log: logr.Discard(),
		},
		synced: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	var changes []change
	changes = appendAdded(changes, policy.ClusterRoles, clusterRoleChange)
	changes = appendAdded(changes, policy.Roles, roleChange)
	changes = appendAdded(changes, policy.ClusterRoleBindings, clusterRoleBindingChange)
	changes = appendAdded(changes, policy.RoleBindings, roleBindingChange)
	a.index.Store(newBuilder(a.config.Log).apply(changes))
	close(a.synced)
	return a
}

// appendAdded appends the change that adds each object.
func appendAdded[T *rbacv1.Role | *rbacv1.RoleBinding | *rbacv1.ClusterRole | *rbacv1.ClusterRoleBinding](changes []change, objects []T, of func(old, new T) change) []change {
	for _, object := range objects {
		changes = append(changes, of(nil, object))
	}
	return changes
}
