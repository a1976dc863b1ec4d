package rbac

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// uncovered returns the parts of wanted that held does not cover, as rules of one group, one
// resource and at most one name each, or of one path and one verb.
//
// wanted is split into single words. One rule in held must cover each part: several rules together
// cannot cover a wildcard, because it also stands for words that do not exist yet.
func uncovered(held, wanted []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var missing []rbacv1.PolicyRule
	for i := range wanted {
		parts(&wanted[i], func(part *rbacv1.PolicyRule) {
			if !slices.ContainsFunc(held, func(h rbacv1.PolicyRule) bool { return coversPart(&h, part) }) {
				missing = append(missing, *part)
			}
		})
	}
	return compact(missing)
}

// parts calls f with rules that together equal rule, each with only one word of each kind.
func parts(rule *rbacv1.PolicyRule, f func(*rbacv1.PolicyRule)) {
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				part := rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{verb}}
				if len(rule.ResourceNames) == 0 {
					f(&part)
					continue
				}
				for _, name := range rule.ResourceNames {
					named := part
					named.Verbs = []string{verb} // not shared, because compact appends to it
					named.ResourceNames = []string{name}
					f(&named)
				}
			}
		}
	}
	for _, path := range rule.NonResourceURLs {
		for _, verb := range rule.Verbs {
			f(&rbacv1.PolicyRule{NonResourceURLs: []string{path}, Verbs: []string{verb}})
		}
	}
}

func coversPart(held, part *rbacv1.PolicyRule) bool {
	if !covers(held.Verbs, part.Verbs[0]) {
		return false
	}
	if len(part.NonResourceURLs) > 0 {
		return slices.ContainsFunc(held.NonResourceURLs, func(pattern string) bool { return coversPath(pattern, part.NonResourceURLs[0]) })
	}
	return covers(held.APIGroups, part.APIGroups[0]) &&
		slices.ContainsFunc(held.Resources, func(pattern string) bool { return coversResource(pattern, part.Resources[0]) }) &&
		(len(held.ResourceNames) == 0 || len(part.ResourceNames) > 0 && slices.Contains(held.ResourceNames, part.ResourceNames[0]))
}

func coversResource(pattern, resource string) bool {
	if pattern == rbacv1.ResourceAll || pattern == resource {
		return true
	}
	_, subresource, ok := strings.Cut(resource, "/")
	return ok && pattern == "*/"+subresource
}

func coversPath(pattern, path string) bool { return pattern == path || matchesPath(pattern, path) }

// compact joins the verbs of rules that are otherwise equal.
func compact(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	type key struct{ group, resource, name string }
	at := map[key]int{}
	var joined []rbacv1.PolicyRule
	for _, r := range rules {
		if len(r.NonResourceURLs) > 0 {
			joined = append(joined, r)
			continue
		}
		k := key{group: r.APIGroups[0], resource: r.Resources[0]}
		if len(r.ResourceNames) > 0 {
			k.name = "/" + r.ResourceNames[0] // an empty name differs from no name
		}
		if i, ok := at[k]; ok {
			joined[i].Verbs = append(joined[i].Verbs, r.Verbs...)
			continue
		}
		at[k] = len(joined)
		joined = append(joined, r)
	}
	return joined
}
