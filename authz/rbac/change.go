package rbac

import (
	"hash/maphash"
	"maps"
	"slices"

	"github.com/planekit/planekit/internal/selector"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// change is one event of a cache. The builder applies changes in order.
type change func(*builder)

func roleChange(old, new *rbacv1.Role) change {
	return func(b *builder) {
		if old != nil {
			b.roles.delete(roleKey{old.Namespace, old.Name})
		}
		if new != nil {
			b.roles.set(roleKey{new.Namespace, new.Name}, new.Rules)
		}
	}
}

func clusterRoleChange(old, new *rbacv1.ClusterRole) change {
	return func(b *builder) {
		b.clusterRolesChanged = true
		if old != nil {
			delete(b.clusterRoles, old.Name)
			b.roles.delete(roleKey{name: old.Name})
		}
		if new != nil {
			b.clusterRoles[new.Name] = new
			b.roles.set(roleKey{name: new.Name}, new.Rules)
		}
	}
}

func roleBindingChange(old, new *rbacv1.RoleBinding) change {
	return func(b *builder) {
		if old != nil {
			b.unbind(bindingKey{old.Namespace, old.Name}, old.Subjects)
		}
		if new != nil {
			b.bind(bindingKey{new.Namespace, new.Name}, new.RoleRef, new.Subjects)
		}
	}
}

func clusterRoleBindingChange(old, new *rbacv1.ClusterRoleBinding) change {
	return func(b *builder) {
		if old != nil {
			b.unbind(bindingKey{name: old.Name}, old.Subjects)
		}
		if new != nil {
			b.bind(bindingKey{name: new.Name}, new.RoleRef, new.Subjects)
		}
	}
}

// resolveClusterRoles recomputes the rules of all aggregating roles.
func (b *builder) resolveClusterRoles() {
	names := slices.Sorted(maps.Keys(b.clusterRoles))
	for _, name := range names {
		role := b.clusterRoles[name]
		if role.AggregationRule == nil {
			continue
		}
		union := ruleSet{known: map[uint64][]int{}}
		b.aggregate(role, names, map[string]bool{}, &union)
		b.roles.set(roleKey{name: name}, union.rules)
	}
}

// aggregate adds the rules of role or, if it aggregates, of the roles of names that it selects, without
// duplicates. An aggregating role's own rules are ignored, because Kubernetes overwrites them.
func (b *builder) aggregate(role *rbacv1.ClusterRole, names []string, seen map[string]bool, union *ruleSet) {
	if seen[role.Name] {
		return
	}
	seen[role.Name] = true
	if role.AggregationRule == nil {
		for _, rule := range role.Rules {
			union.add(rule)
		}
		return
	}
	for i := range role.AggregationRule.ClusterRoleSelectors {
		wanted, err := selector.Of(&role.AggregationRule.ClusterRoleSelectors[i])
		if err != nil {
			b.log.Error(err, "bad selector in aggregation rule", "clusterRole", role.Name)
			continue
		}
		for _, name := range names {
			if other := b.clusterRoles[name]; !seen[name] && wanted.Matches(labels.Set(other.Labels)) {
				b.aggregate(other, names, seen, union)
			}
		}
	}
}

// A ruleSet holds different rules in the order in which they were added.
type ruleSet struct {
	rules []rbacv1.PolicyRule
	known map[uint64][]int // the indexes of rules by their hash
}

var seed = maphash.MakeSeed()

func (s *ruleSet) add(rule rbacv1.PolicyRule) {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, words := range [][]string{rule.Verbs, rule.APIGroups, rule.Resources, rule.ResourceNames, rule.NonResourceURLs} {
		maphash.WriteComparable(&h, len(words))
		for _, word := range words {
			maphash.WriteComparable(&h, word)
		}
	}
	hash := h.Sum64()
	if slices.ContainsFunc(s.known[hash], func(i int) bool { return equal(&s.rules[i], &rule) }) {
		return
	}
	s.known[hash] = append(s.known[hash], len(s.rules))
	s.rules = append(s.rules, rule)
}

func equal(a, b *rbacv1.PolicyRule) bool {
	return slices.Equal(a.Resources, b.Resources) && slices.Equal(a.APIGroups, b.APIGroups) && slices.Equal(a.Verbs, b.Verbs) &&
		slices.Equal(a.ResourceNames, b.ResourceNames) && slices.Equal(a.NonResourceURLs, b.NonResourceURLs)
}
