package main

import (
	"context"
	"fmt"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	planekit "github.com/planekit/planekit/authz/rbac"
	"github.com/planekit/planekit/localcache"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	stockuser "k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"
	stock "k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"
)

// sides is both authorizers over the same objects.
type sides struct {
	own   *planekit.Authorizer
	stock *stock.RBACAuthorizer
	stop  func()
}

func newSides(p planekit.Policy) (*sides, error) {
	own, err := planekit.New(planekit.Config{
		Roles: localcache.NewMap(p.Roles...), RoleBindings: localcache.NewMap(p.RoleBindings...),
		ClusterRoles: localcache.NewMap(p.ClusterRoles...), ClusterRoleBindings: localcache.NewMap(p.ClusterRoleBindings...),
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- own.Run(ctx) }()
	<-own.Synced()
	return &sides{own: own, stock: newStock(p), stop: func() { cancel(); <-done }}, nil
}

// newStock returns the authorizer of kube-apiserver over the indexes of informers.
func newStock(p planekit.Policy) *stock.RBACAuthorizer {
	return stock.New(
		&stock.RoleGetter{Lister: rbaclisters.NewRoleLister(indexer(p.Roles))},
		&stock.RoleBindingLister{Lister: rbaclisters.NewRoleBindingLister(indexer(p.RoleBindings))},
		&stock.ClusterRoleGetter{Lister: rbaclisters.NewClusterRoleLister(indexer(p.ClusterRoles))},
		&stock.ClusterRoleBindingLister{Lister: rbaclisters.NewClusterRoleBindingLister(indexer(p.ClusterRoleBindings))},
	)
}

func indexer[T any](objects []T) cache.Indexer {
	i := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for _, o := range objects {
		if err := i.Add(o); err != nil {
			panic(err) // the object is always valid
		}
	}
	return i
}

func forStock(a authz.Attributes) authorizer.Attributes {
	return authorizer.AttributesRecord{
		User: &stockuser.DefaultInfo{Name: a.User.Name, Groups: a.User.Groups}, Verb: a.Verb, Namespace: a.Namespace,
		APIGroup: a.Group, APIVersion: a.Version, Resource: a.Resource, Subresource: a.Subresource, Name: a.Name,
		ResourceRequest: a.Resource != "", Path: a.Path,
	}
}

// namespaces is the number of namespaces of the bindings of manyBindings.
const namespaces = 100

func manyBindings(n int) planekit.Policy {
	p := planekit.Bootstrap{}.Policy()
	p.ClusterRoleBindings, p.RoleBindings = nil, nil
	for i := range n {
		subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: fmt.Sprint("user-", i)}}
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:aggregate-to-view"}
		meta := metav1.ObjectMeta{Name: fmt.Sprint("binding-", i)}
		if i%2 == 0 {
			p.ClusterRoleBindings = append(p.ClusterRoleBindings, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects})
			continue
		}
		meta.Namespace = namespace(i)
		p.RoleBindings = append(p.RoleBindings, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects})
	}
	return p
}

func namespace(i int) string { return fmt.Sprint("ns-", i/2%namespaces) }

// questions returns allowed requests of users from all over n bindings.
func questions(n int) []authz.Attributes {
	var all []authz.Attributes
	for i := 0; i < n; i += max(1, n/50) {
		all = append(all, authz.Attributes{
			User: &user.Info{Name: fmt.Sprint("user-", i), Groups: []string{"team", user.Authenticated}},
			Verb: "list", Version: "v1", Resource: "pods", Namespace: namespace(i),
		})
	}
	return all
}
