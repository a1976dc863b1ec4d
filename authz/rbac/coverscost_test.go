package rbac

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/internal/budget"
	rbacv1 "k8s.io/api/rbac/v1"
)

// TestMissingParts compares with a look at each part of the product, as Kubernetes has it.
func TestMissingParts(t *testing.T) {
	rnd := rand.New(rand.NewPCG(28, 0))
	some := func(words ...string) []string {
		var picked []string
		for range rnd.IntN(4) {
			picked = append(picked, words[rnd.IntN(len(words))])
		}
		return picked
	}
	rules := func(n int) (all []rbacv1.PolicyRule) {
		for range rnd.IntN(n + 1) {
			r := rbacv1.PolicyRule{Verbs: some("get", "list", "watch", "create", "*", "")}
			if rnd.IntN(3) > 0 {
				r.APIGroups = some("", "apps", "batch", "*")
				r.Resources = some("pods", "nodes", "pods/status", "*/status", "*", "pods/*", "*/*", "nodes/status", "/", "a/b/c", "*/b/c")
				if rnd.IntN(2) == 0 {
					r.ResourceNames = some("a", "b", "", "*", "\x00")
				}
			}
			if rnd.IntN(3) == 0 {
				r.NonResourceURLs = some("*", "/a", "/a/*", "/a*", "/ab/*", "/ab/c", "/a**", "", "**", "/*")
			}
			all = append(all, r)
		}
		return all
	}
	complete, partly := 0, 0
	for range 10_000 {
		held, wanted := rules(8), rules(3)
		got, want := mustUncovered(t, held, wanted), naivelyUncovered(held, wanted)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("uncovered(%q, %q) = %q, want %q", held, wanted, got, want)
		}
		switch {
		case len(want) == 0 && len(wanted) > 0:
			complete++
		case len(want) > 0 && !reflect.DeepEqual(want, naivelyUncovered(nil, wanted)):
			partly++
		}
	}
	if complete < 500 || partly < 500 {
		t.Errorf("%d of the rules were covered and %d in part, want more than 500 of each", complete, partly)
	}
}

// naivelyUncovered compares each part of the wanted rules with each held rule.
func naivelyUncovered(held, wanted []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var missing []rbacv1.PolicyRule
	for i := range wanted {
		for _, f := range formsOf(&wanted[i]) {
			words := make([]string, len(f))
			var each func(level int)
			each = func(level int) {
				if level == len(f) {
					part := toPart(f, words)
					if !slices.ContainsFunc(held, func(h rbacv1.PolicyRule) bool { return coversPart(&h, &part) }) {
						missing = append(missing, part)
					}
					return
				}
				for _, words[level] = range f[level].words {
					each(level + 1)
				}
			}
			each(0)
		}
	}
	return compact(missing)
}

func coversPart(held, part *rbacv1.PolicyRule) bool {
	if !covers(held.Verbs, part.Verbs[0]) {
		return false
	}
	if len(part.NonResourceURLs) > 0 {
		path := part.NonResourceURLs[0]
		return slices.ContainsFunc(held.NonResourceURLs, func(pattern string) bool { return pattern == path || matchesPath(pattern, path) })
	}
	return covers(held.APIGroups, part.APIGroups[0]) &&
		slices.ContainsFunc(held.Resources, func(pattern string) bool { return coversResource(pattern, part.Resources[0]) }) &&
		(len(held.ResourceNames) == 0 || len(part.ResourceNames) > 0 && slices.Contains(held.ResourceNames, part.ResourceNames[0]))
}

func coversResource(pattern, resource string) bool {
	_, subresource, ok := strings.Cut(resource, "/")
	return pattern == rbacv1.ResourceAll || pattern == resource || ok && pattern == "*/"+subresource
}

// words returns n words.
func words(prefix string, n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprint(prefix, i))
	}
	return all
}

// cube is the rule of n groups, n resources and n verbs.
func cube(n int) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: words("g", n), Resources: words("r", n), Verbs: words("v", n)}
}

// slabs are n rules that together cover cube(n): each allows one word of one list.
func slabs(n int) (all []rbacv1.PolicyRule) {
	whole := cube(n)
	for i := range n {
		all = append(all, whole)
		switch last := &all[i]; i % 3 {
		case 0:
			last.APIGroups = []string{"*"}
			last.Verbs = []string{fmt.Sprint("v", i), fmt.Sprint("v", i+1), fmt.Sprint("v", i+2)}
		case 1:
			last.Resources = last.Resources[i/3 : i/3+1]
		case 2:
			last.APIGroups = last.APIGroups[i/3 : i/3+1]
		}
	}
	return all
}

// TestWideRules: rules of a few kilobytes whose products have millions of parts take little time and
// memory, whatever is held.
func TestWideRules(t *testing.T) {
	named := cube(300)
	named.ResourceNames = words("n", 300)
	urls := rbacv1.PolicyRule{NonResourceURLs: words("/p", 20_000), Verbs: words("v", 20_000)}
	axis := cube(300)
	single := func(n int) (all []rbacv1.PolicyRule) { // n rules of which none covers another
		for i := range n {
			all = append(all, rbacv1.PolicyRule{APIGroups: []string{fmt.Sprint("g", i)}, Resources: axis.Resources[i%300:], Verbs: axis.Verbs[:1+i%300]})
		}
		return all
	}
	almost := cube(300)
	almost.Verbs = almost.Verbs[1:]
	for _, c := range []struct {
		name         string
		held, wanted []rbacv1.PolicyRule
		covered      bool
		refused      string // part of the error, if not all was compared or listed
	}{
		{"nothing held", nil, []rbacv1.PolicyRule{cube(300)}, false, "only the first 10000 missing permissions are listed, up to those of rules[0] with 300 API groups x 300 resources x 300 verbs"},
		{"everything held", []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}, []rbacv1.PolicyRule{cube(300), named}, true, ""},
		{"the same held", []rbacv1.PolicyRule{cube(300)}, []rbacv1.PolicyRule{cube(300), named}, true, ""},
		{"held in slabs", slabs(300), []rbacv1.PolicyRule{cube(300)}, true, ""},
		{"one verb missing", []rbacv1.PolicyRule{almost}, []rbacv1.PolicyRule{cube(300)}, false, "listed"},
		{"names", nil, []rbacv1.PolicyRule{named}, false, "with 300 API groups x 300 resources x 300 verbs x 300 resource names"},
		{"paths", nil, []rbacv1.PolicyRule{urls}, false, "20000 paths x 20000 verbs"},
		{"many held", single(3000), []rbacv1.PolicyRule{cube(300)}, false, ""},
		{"many and many", append(single(3000), slabs(99)...), slices.Repeat([]rbacv1.PolicyRule{cube(99)}, 5000), false, "too wide"},
		{"many small", single(1000), single(1000), true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			missing, err := uncovered(budget.From(t.Context()), c.held, c.wanted)
			runtime.ReadMemStats(&after)
			switch {
			case c.covered && (err != nil || len(missing) > 0):
				t.Errorf("uncovered() = %d rules, %v, want none, nil", len(missing), err)
			case !c.covered && err == nil && len(missing) == 0:
				t.Error("uncovered() = none, nil, want missing rules or an error")
			case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
				t.Errorf("uncovered() = %d rules, %v, want an error with %q", len(missing), err, c.refused)
			case strings.Contains(c.refused, "too wide") && !errors.Is(err, budget.ErrExceeded):
				t.Errorf("uncovered() = %d rules, %v, want ErrExceeded", len(missing), err)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 80<<20 {
				t.Errorf("uncovered() allocated %d MB, want at most 80 MB", took>>20)
			}
			t.Logf("%v: %d MB", err, (after.TotalAlloc-before.TotalAlloc)>>20)
		})
	}
}
