package rbac

import (
	"flag"
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

var decisions = flag.Int("decisions", 1_000_000, "random decisions to compare")

// world makes random policies and requests from few words, so that they match.
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
			// Names are invalid together with paths, and stock itself is inconsistent there.
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

// clusterRole sometimes aggregates other roles.
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

// near returns a request by a user that p names, with words of a rule, often of a role that is
// bound to the user, so that the request is often allowed.
func (w world) near(p planekit.Policy) authz.Attributes {
	q := w.request()
	rules := p.ClusterRoles[w.IntN(len(p.ClusterRoles))].Rules
	for range 3 { // some bindings have no subject
		var subjects []rbacv1.Subject
		var ref rbacv1.RoleRef
		if w.IntN(2) == 0 && len(p.ClusterRoleBindings) > 0 {
			b := p.ClusterRoleBindings[w.IntN(len(p.ClusterRoleBindings))]
			subjects, ref = b.Subjects, b.RoleRef
		} else if len(p.RoleBindings) > 0 {
			b := p.RoleBindings[w.IntN(len(p.RoleBindings))]
			subjects, ref, q.Namespace = b.Subjects, b.RoleRef, b.Namespace
		}
		if len(subjects) == 0 {
			continue
		}
		q.User = w.named(q.User, subjects[w.IntN(len(subjects))])
		if bound := rulesOf(p, ref, q.Namespace); len(bound) > 0 {
			rules = bound
		}
		break
	}
	return w.as(q, rules[w.IntN(len(rules))])
}

// named returns u with the name or a group of the subject.
func (w world) named(u *user.Info, s rbacv1.Subject) *user.Info {
	switch s.Kind {
	case "Group":
		u.Groups = append(u.Groups, s.Name)
	case "ServiceAccount":
		u.Name = "system:serviceaccount:" + s.Namespace + ":" + s.Name
	default:
		u.Name = s.Name
	}
	return u
}

func rulesOf(p planekit.Policy, ref rbacv1.RoleRef, namespace string) []rbacv1.PolicyRule {
	for _, r := range p.ClusterRoles {
		if ref.Kind == "ClusterRole" && r.Name == ref.Name {
			return r.Rules
		}
	}
	for _, r := range p.Roles {
		if ref.Kind == "Role" && r.Name == ref.Name && r.Namespace == namespace {
			return r.Rules
		}
	}
	return nil
}

// as returns q with words of the rule.
func (w world) as(q authz.Attributes, r rbacv1.PolicyRule) authz.Attributes {
	q.Verb = w.pick(r.Verbs...)
	if len(r.NonResourceURLs) > 0 && len(r.Resources) == 0 {
		q.Path, q.Namespace, q.Group, q.Resource, q.Subresource, q.Name = w.pick(r.NonResourceURLs...), "", "", "", "", ""
	} else if q.Resource != "" && len(r.Resources) > 0 {
		q.Group = w.pick(r.APIGroups...)
		q.Resource, q.Subresource, _ = strings.Cut(w.pick(r.Resources...), "/")
		if q.Resource == "" {
			q.Resource = "pods"
		}
		if len(r.ResourceNames) > 0 {
			q.Name = w.pick(r.ResourceNames...)
		}
	} else if q.Resource == "" {
		q.Namespace = ""
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
