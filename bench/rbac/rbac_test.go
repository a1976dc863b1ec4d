package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	planekit "github.com/planekit/planekit/authz/rbac"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

var decisions = flag.Int("decisions", 100_000, "random decisions to compare")

// world makes random policies and requests from few words, so that they meet.
type world struct{ *rand.Rand }

func (w world) pick(words ...string) string { return words[w.IntN(len(words))] }

func (w world) some(words ...string) []string {
	var picked []string
	for range 1 + w.IntN(2) {
		picked = append(picked, w.pick(words...))
	}
	return picked
}

func (w world) rules() []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for range 1 + w.IntN(4) {
		r := rbacv1.PolicyRule{Verbs: w.some("get", "get", "list", "create", "escalate", "*")}
		if w.IntN(5) == 0 {
			r.NonResourceURLs = w.some("*", "/healthz", "/healthz/*", "/health*", "/metrics", "/a**", "/*", "healthz", "")
		}
		if r.NonResourceURLs == nil || w.IntN(20) == 0 {
			r.APIGroups = w.some("", "apps", "x.io", "*")
			r.Resources = w.some("pods", "pods/status", "*/status", "*/*", "pods/*", "nodes", "*", "/status", "pods/", "deployments/scale", "*/scale", "users/a/b", "*/a/b")
			// With paths, names are invalid, and stock itself is of two minds.
			if r.NonResourceURLs == nil && w.IntN(3) == 0 {
				r.ResourceNames = w.some("a", "b", "", "*")
			}
		}
		rules = append(rules, r)
	}
	return rules
}

func (w world) subjects() []rbacv1.Subject {
	var subjects []rbacv1.Subject
	for range w.IntN(5) {
		subjects = append(subjects, rbacv1.Subject{
			Kind: w.pick("User", "User", "Group", "Group", "ServiceAccount", "Other"), Namespace: w.pick("", "x", "y"),
			Name: w.pick("ann", "bob", "dev", "ops", "robot", "robot", "system:serviceaccount:x:robot", ""),
		})
	}
	return subjects
}

// clusterRole aggregates others now and then.
func (w world) clusterRole(meta metav1.ObjectMeta) *rbacv1.ClusterRole {
	r := &rbacv1.ClusterRole{ObjectMeta: meta, Rules: w.rules()}
	if w.IntN(4) > 0 {
		return r
	}
	r.AggregationRule = &rbacv1.AggregationRule{}
	for range w.IntN(3) {
		r.AggregationRule.ClusterRoleSelectors = append(r.AggregationRule.ClusterRoleSelectors,
			metav1.LabelSelector{MatchLabels: map[string]string{"in": w.pick("a", "b")}})
	}
	return r
}

func (w world) policy() planekit.Policy {
	var p planekit.Policy
	names := []string{"1", "2", "3", "4"}
	for _, name := range names {
		p.ClusterRoles = append(p.ClusterRoles, w.clusterRole(metav1.ObjectMeta{Name: name, Labels: map[string]string{"in": w.pick("a", "b")}}))
		if w.IntN(4) > 0 {
			p.ClusterRoleBindings = append(p.ClusterRoleBindings, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
				RoleRef: rbacv1.RoleRef{Kind: w.pick("ClusterRole", "ClusterRole", "Role", "Other"), Name: w.pick("1", "2", "3", "gone")}, Subjects: w.subjects()})
		}
		for _, namespace := range []string{"x", "y"} {
			if w.IntN(4) > 0 {
				p.Roles = append(p.Roles, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Rules: w.rules()})
			}
			if w.IntN(4) > 0 {
				p.RoleBindings = append(p.RoleBindings, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
					RoleRef: rbacv1.RoleRef{Kind: w.pick("ClusterRole", "Role", "Other"), Name: w.pick("1", "2", "3", "gone")}, Subjects: w.subjects()})
			}
		}
	}
	return p
}

func (w world) user() *user.Info {
	u := &user.Info{Name: w.pick("ann", "bob", "", "system:serviceaccount:x:robot", "system:serviceaccount:y:robot", "system:serviceaccount::robot")}
	for range w.IntN(3) {
		u.Groups = append(u.Groups, w.pick("dev", "ops", "ann", "", user.Authenticated))
	}
	return u
}

func (w world) request() authz.Attributes {
	a := authz.Attributes{User: w.user(), Verb: w.pick("get", "get", "list", "create", "escalate", "*", "")}
	if w.IntN(5) == 0 {
		a.Path = w.pick("/healthz", "/healthz/", "/healthz/etcd", "/metrics", "/a", "/ab", "/a*", "/", "", "healthz", "*")
		return a
	}
	a.Group, a.Resource, a.Subresource = w.pick("", "apps", "x.io"), w.pick("pods", "nodes", "deployments", "users"), w.pick("", "", "status", "scale", "*", "a/b")
	a.Namespace, a.Name = w.pick("", "x", "y", "z"), w.pick("", "a", "b", "*", "c")
	return a
}

// near is a request like any other, but by somebody whom p names and with words
// of one of its rules, so that the answer is often yes.
func (w world) near(p planekit.Policy) authz.Attributes {
	q := w.request()
	for range 3 { // some bindings name nobody
		var subjects []rbacv1.Subject
		if w.IntN(2) == 0 && len(p.ClusterRoleBindings) > 0 {
			subjects = p.ClusterRoleBindings[w.IntN(len(p.ClusterRoleBindings))].Subjects
		} else if len(p.RoleBindings) > 0 {
			b := p.RoleBindings[w.IntN(len(p.RoleBindings))]
			subjects, q.Namespace = b.Subjects, b.Namespace
		}
		if len(subjects) == 0 {
			continue
		}
		switch s := subjects[w.IntN(len(subjects))]; s.Kind {
		case "Group":
			q.User.Groups = append(q.User.Groups, s.Name)
		case "ServiceAccount":
			q.User.Name = "system:serviceaccount:" + s.Namespace + ":" + s.Name
		default:
			q.User.Name = s.Name
		}
		break
	}
	rules := p.ClusterRoles[w.IntN(len(p.ClusterRoles))].Rules
	r := rules[w.IntN(len(rules))]
	q.Verb = w.pick(r.Verbs...)
	if q.Resource == "" {
		q.Namespace = ""
		if len(r.NonResourceURLs) > 0 {
			q.Path = w.pick(r.NonResourceURLs...)
		}
	} else if len(r.Resources) > 0 {
		q.Group = w.pick(r.APIGroups...)
		q.Resource, q.Subresource, _ = strings.Cut(w.pick(r.Resources...), "/")
		if q.Resource == "" {
			q.Resource = "pods"
		}
		if len(r.ResourceNames) > 0 {
			q.Name = w.pick(r.ResourceNames...)
		}
	}
	return q
}

// TestSameDecisions asks both authorizers the same random questions.
func TestSameDecisions(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, %d decisions", seed, *decisions)
	w := world{rand.New(rand.NewPCG(seed, 0))}
	const perPolicy = 250
	allowed, asked := 0, 0
	for asked < *decisions {
		p := w.policy()
		s, err := newSides(p)
		if err != nil {
			t.Fatal(err)
		}
		for range perPolicy {
			asked++
			q := w.request()
			if w.IntN(2) == 0 {
				q = w.near(p)
			}
			d, reason, err := s.own.Authorize(t.Context(), q)
			ds, stockReason, stockErr := s.stock.Authorize(t.Context(), forStock(q))
			if (d == authz.Allow) != (ds == authorizer.DecisionAllow) || d == authz.Deny || err != nil || stockErr != nil {
				t.Fatalf("seed %d, decision %d: %+v of %+v over %+v\nplanekit %v %q %v\nstock %v %q %v",
					seed, asked, q, q.User, p, d, reason, err, ds, stockReason, stockErr)
			}
			if d == authz.Allow {
				allowed++
			}
		}
		s.stop()
	}
	t.Logf("%d of %d allowed", allowed, asked)
	if allowed < asked/20 || allowed > asked*19/20 {
		t.Errorf("seed %d: %d of %d allowed shows little", seed, allowed, asked)
	}
}

// TestFlat: fifty times as fast as stock at 10000 bindings, no slower than with
// ten by more than the noise, and no memory to allow something.
func TestFlat(t *testing.T) {
	median := map[int]time.Duration{}
	for _, n := range []int{10, 10_000} {
		c, err := newComparison(n)
		if err != nil {
			t.Fatal(err)
		}
		own, stock, err := c.measure(2000, 300*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		median[n] = quantile(own, 0.5)
		if n == 10_000 && quantile(stock, 0.5) < 50*median[n] {
			t.Errorf("stock takes %v, planekit %v", quantile(stock, 0.5), median[n])
		}
		ctx := context.Background()
		if allocations := testing.AllocsPerRun(100, func() {
			for _, q := range c.requests {
				if d, _, _ := c.own.Authorize(ctx, q); d != authz.Allow {
					t.Error(d)
				}
			}
		}); allocations != 0 {
			t.Errorf("%d bindings: %v allocations", n, allocations)
		}
		c.stop()
	}
	if median[10_000] > 4*median[10]+time.Microsecond {
		t.Errorf("not flat: %v", median)
	}
}

func BenchmarkDecision(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000, 50_000} {
		c, err := newComparison(n)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("planekit/bindings=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				_, _, _ = c.own.Authorize(b.Context(), c.requests[i%len(c.requests)])
			}
		})
		b.Run(fmt.Sprintf("stock/bindings=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				_, _, _ = c.stock.Authorize(b.Context(), c.asStock[i%len(c.asStock)])
			}
		})
		c.stop()
	}
}
