package rbac

import (
	"context"
	"maps"
	"slices"

	"github.com/planekit/planekit/internal/budget"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Plan holds the writes that make a cluster grant at least a policy.
type Plan struct {
	// Create holds missing objects.
	Create Policy
	// Update holds existing objects with additions. They keep their resource version, so that a
	// conflict means to read and plan again.
	Update Policy
	// Recreate holds bindings that refer to another role than wanted. The role of a binding cannot
	// be changed, so they must be deleted and created.
	Recreate Policy
}

// Empty reports whether there is nothing to write.
func (p Plan) Empty() bool { return p.Create.empty() && p.Update.empty() && p.Recreate.empty() }

func (p Policy) empty() bool {
	return len(p.ClusterRoles)+len(p.ClusterRoleBindings)+len(p.Roles)+len(p.RoleBindings) == 0
}

// Reconcile compares a policy with the existing objects, as Kubernetes does at startup. Missing
// rules, subjects, selectors, labels and annotations are added. Additional ones stay, and so do
// objects annotated with rbac.authorization.kubernetes.io/autoupdate: "false". Only an unwanted
// aggregation rule is removed. The objects of want and have are not changed.
func Reconcile(want, have Policy) Plan {
	var p Plan
	sortOut(want.ClusterRoles, have.ClusterRoles, &p.Create.ClusterRoles, &p.Update.ClusterRoles, nil, completeClusterRole)
	sortOut(want.Roles, have.Roles, &p.Create.Roles, &p.Update.Roles, nil, completeRole)
	sortOut(want.ClusterRoleBindings, have.ClusterRoleBindings, &p.Create.ClusterRoleBindings, &p.Update.ClusterRoleBindings,
		&p.Recreate.ClusterRoleBindings, completeClusterRoleBinding)
	sortOut(want.RoleBindings, have.RoleBindings, &p.Create.RoleBindings, &p.Update.RoleBindings,
		&p.Recreate.RoleBindings, completeRoleBinding)
	return p
}

// object is a pointer to one of the four types.
type object[T any] interface {
	metav1.Object
	DeepCopy() T
}

// sortOut assigns wanted objects to a list. complete adds what is missing to a copy of an existing
// object, or returns false if this is not possible.
func sortOut[T object[T]](want, have []T, create, update, recreate *[]T, complete func(want, copied T) bool) {
	existing := map[roleKey]T{}
	for _, o := range have {
		existing[roleKey{o.GetNamespace(), o.GetName()}] = o
	}
	for _, wanted := range want {
		old, found := existing[roleKey{wanted.GetNamespace(), wanted.GetName()}]
		if !found {
			*create = append(*create, wanted.DeepCopy())
			continue
		}
		if old.GetAnnotations()[rbacv1.AutoUpdateAnnotationKey] == "false" {
			continue
		}
		completed := old.DeepCopy()
		if !complete(wanted, completed) {
			*recreate = append(*recreate, wanted.DeepCopy())
			continue
		}
		completed.SetLabels(merged(wanted.GetLabels(), old.GetLabels()))
		completed.SetAnnotations(merged(wanted.GetAnnotations(), old.GetAnnotations()))
		if !equality.Semantic.DeepEqual(completed, old) {
			*update = append(*update, completed)
		}
	}
}

// merged returns the union of both maps; have takes precedence.
func merged(want, have map[string]string) map[string]string {
	all := maps.Clone(want)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, have)
	return all
}

func completeRole(want, r *rbacv1.Role) bool {
	r.Rules = completeRules(want.Rules, r.Rules)
	return true
}

// completeRules adds what is missing from the rules have. Of a policy too large to compare it adds
// all, since more rules that grant the same do no harm.
func completeRules(want, have []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	unlimited := budget.New(context.Background(), budget.Unlimited)
	missing, err := uncovered(unlimited, have, want)
	if err != nil {
		missing = want
	}
	return append(have, missing...)
}

func completeClusterRole(want, r *rbacv1.ClusterRole) bool {
	r.Rules = completeRules(want.Rules, r.Rules)
	if want.AggregationRule == nil {
		r.AggregationRule = nil
		return true
	}
	if r.AggregationRule == nil {
		r.AggregationRule = &rbacv1.AggregationRule{}
	}
	for _, selector := range want.AggregationRule.ClusterRoleSelectors {
		same := func(s metav1.LabelSelector) bool { return equality.Semantic.DeepEqual(s, selector) }
		if !slices.ContainsFunc(r.AggregationRule.ClusterRoleSelectors, same) {
			r.AggregationRule.ClusterRoleSelectors = append(r.AggregationRule.ClusterRoleSelectors, *selector.DeepCopy())
		}
	}
	return true
}

func completeClusterRoleBinding(want, b *rbacv1.ClusterRoleBinding) bool {
	b.Subjects = withSubjects(b.Subjects, want.Subjects)
	return b.RoleRef == want.RoleRef
}

func completeRoleBinding(want, b *rbacv1.RoleBinding) bool {
	b.Subjects = withSubjects(b.Subjects, want.Subjects)
	return b.RoleRef == want.RoleRef
}

func withSubjects(have, want []rbacv1.Subject) []rbacv1.Subject {
	for _, s := range want {
		if !slices.Contains(have, s) {
			have = append(have, s)
		}
	}
	return have
}
