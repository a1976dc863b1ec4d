package rbac

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/internal/budget"
	rbacv1 "k8s.io/api/rbac/v1"
)

// requests returns requests in which each kind of word has one value that no rule of the test
// names, as a representative of all unknown values.
func requests() []authz.Attributes {
	var all []authz.Attributes
	for _, verb := range []string{"get", "list", "new"} {
		for _, group := range []string{"", "apps", "new"} {
			for _, resource := range []string{"pods", "nodes", "new"} {
				for _, subresource := range []string{"", "status", "*", "new"} {
					for _, name := range []string{"", "a", "b", "new"} {
						all = append(all, authz.Attributes{Verb: verb, Group: group, Resource: resource, Subresource: subresource, Name: name})
					}
				}
			}
		}
		for _, path := range []string{"/a", "/a/", "/ab", "/ab/c", "/ab/cnew", "/a/new", "/anew", "/abnew", "/new", "new"} {
			all = append(all, authz.Attributes{Verb: verb, Path: path})
		}
	}
	return all
}

// randomRules makes up to n rules.
func randomRules(rnd *rand.Rand, n int) []rbacv1.PolicyRule {
	some := func(words ...string) []string {
		var picked []string
		for range 1 + rnd.IntN(2) {
			picked = append(picked, words[rnd.IntN(len(words))])
		}
		return picked
	}
	var rules []rbacv1.PolicyRule
	for range rnd.IntN(n + 1) {
		r := rbacv1.PolicyRule{Verbs: some("get", "list", "*")}
		switch rnd.IntN(4) {
		case 0:
			r.NonResourceURLs = some("*", "/a", "/a/*", "/a*", "/ab/*", "/ab/c", "/a**")
		default:
			r.APIGroups = some("", "apps", "*")
			r.Resources = some("pods", "nodes", "pods/status", "*/status", "*", "pods/*", "nodes/status")
			if rnd.IntN(3) == 0 {
				r.ResourceNames = some("a", "b")
			}
		}
		rules = append(rules, r)
	}
	return rules
}

// mustUncovered is uncovered with the default budget.
func mustUncovered(t *testing.T, held, wanted []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	t.Helper()
	missing, err := uncovered(budget.From(t.Context()), held, wanted)
	if err != nil {
		t.Fatalf("uncovered(%+v, %+v) = %v, want nil", held, wanted, err)
	}
	return missing
}

// TestCovers compares with asking for everything there is.
func TestCovers(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rnd := rand.New(rand.NewPCG(seed, 0))
	universe := requests()
	allows := func(rules []rbacv1.PolicyRule, at *authz.Attributes) bool {
		return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool { return matches(&r, at) })
	}
	yes := 0
	for range 20_000 {
		held, wanted := randomRules(rnd, 4), randomRules(rnd, 1)
		want := true
		for i := range universe {
			if allows(wanted, &universe[i]) && !allows(held, &universe[i]) {
				want = false
				break
			}
		}
		missing := mustUncovered(t, held, wanted)
		if got := len(missing) == 0; got != want {
			t.Fatalf("seed %d: held %+v, wanted %+v: missing %+v, by enumeration covered: %v", seed, held, wanted, missing, want)
		}
		if want && len(wanted) > 0 {
			yes++
		}
		// What is missing is of what was wanted, and is all that was.
		if more := mustUncovered(t, wanted, missing); len(more) > 0 {
			t.Fatalf("seed %d: %+v is missing of %+v", seed, more, wanted)
		}
		if more := mustUncovered(t, append(slices.Clone(held), missing...), wanted); len(more) > 0 {
			t.Fatalf("seed %d: held %+v and missing %+v do not cover %+v", seed, held, missing, wanted)
		}
	}
	if yes < 500 {
		t.Errorf("seed %d: only %d of 20000 were covered", seed, yes)
	}
}

func TestCompact(t *testing.T) {
	got := mustUncovered(t, nil, []rbacv1.PolicyRule{
		rule("get list", "core apps", "pods"),
		rule("get list", "core", "pods", "a", "b"),
		paths("get post", "/a"),
	})
	want := []rbacv1.PolicyRule{
		rule("get list", "core", "pods"), rule("get list", "apps", "pods"),
		rule("get list", "core", "pods", "a"), rule("get list", "core", "pods", "b"),
		paths("get", "/a"), paths("post", "/a"),
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
