package rbac

import (
	"context"
	"slices"
	"testing"

	"github.com/planekit/planekit/authz"
	planekit "github.com/planekit/planekit/authz/rbac"
	"github.com/planekit/planekit/localcache"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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
		&stock.ClusterRoleGetter{Lister: rbaclisters.NewClusterRoleLister(indexer(filled(p.ClusterRoles)))},
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

// filled returns roles with the rules that Kubernetes' controller writes into aggregating roles.
func filled(roles []*rbacv1.ClusterRole) []*rbacv1.ClusterRole {
	var all []*rbacv1.ClusterRole
	for _, r := range roles {
		r = r.DeepCopy()
		if r.AggregationRule != nil {
			r.Rules = nil
		}
		all = append(all, r)
	}
	for range all { // no chain is longer
		for _, r := range all {
			if r.AggregationRule != nil {
				r.Rules = gathered(r, all)
			}
		}
	}
	return all
}

func gathered(r *rbacv1.ClusterRole, all []*rbacv1.ClusterRole) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for i := range r.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&r.AggregationRule.ClusterRoleSelectors[i])
		if err != nil {
			panic(err) // the tests write valid ones
		}
		for _, other := range all {
			if other.Name == r.Name || !selector.Matches(labelSet(other.Labels)) {
				continue
			}
			for _, rule := range other.Rules {
				// As text, a list of one empty string equals an empty list.
				same := func(o rbacv1.PolicyRule) bool { return equality.Semantic.DeepEqual(o, rule) }
				if !slices.ContainsFunc(rules, same) {
					rules = append(rules, rule)
				}
			}
		}
	}
	return rules
}

type labelSet map[string]string

func (l labelSet) Has(key string) bool              { _, ok := l[key]; return ok }
func (l labelSet) Get(key string) string            { return l[key] }
func (l labelSet) Lookup(key string) (string, bool) { v, ok := l[key]; return v, ok }

func forStock(a authz.Attributes) authorizer.Attributes {
	return authorizer.AttributesRecord{
		User: &stockuser.DefaultInfo{Name: a.User.Name, Groups: a.User.Groups}, Verb: a.Verb, Namespace: a.Namespace,
		APIGroup: a.Group, APIVersion: a.Version, Resource: a.Resource, Subresource: a.Subresource, Name: a.Name,
		ResourceRequest: a.Resource != "", Path: a.Path,
	}
}

// TestFilledDistinguishesNames: a rule about the object with an empty name differs from one about
// all objects, although their texts are equal.
func TestFilledDistinguishesNames(t *testing.T) {
	one := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{"*"}, Resources: []string{"nodes"}, ResourceNames: []string{""}}
	all := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{"*"}, Resources: []string{"nodes"}}
	roles := filled([]*rbacv1.ClusterRole{
		{ObjectMeta: metav1.ObjectMeta{Name: "1", Labels: map[string]string{"in": "a"}}, Rules: []rbacv1.PolicyRule{one, all, one}},
		{ObjectMeta: metav1.ObjectMeta{Name: "2"}, AggregationRule: &rbacv1.AggregationRule{
			ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"in": "a"}}},
		}},
	})
	if len(roles[1].Rules) != 2 {
		t.Errorf("%d rules: %v", len(roles[1].Rules), roles[1].Rules)
	}
}
