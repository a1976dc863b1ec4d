package controllers_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/clusterrole"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// newRoles is a collection of cluster roles: bottom is part of middle, and
// middle of top.
func newRoles(t *testing.T, a *api) *collection[*rbacv1.ClusterRole] {
	roles := newCollection(a, "ClusterRole", func() *rbacv1.ClusterRole { return &rbacv1.ClusterRole{} })
	for _, role := range []*rbacv1.ClusterRole{
		newRole("bottom", "middle", "", "get"), newRole("middle", "top", "middle"), newRole("top", "", "top"),
	} {
		must[*rbacv1.ClusterRole](t)(roles.Create(t.Context(), role))
	}
	return roles
}

// newRole is a cluster role with rules for verbs that is part of the roles which
// select to, and selects others.
func newRole(name, to, selects string, verbs ...string) *rbacv1.ClusterRole {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"to": to}}}
	if selects != "" {
		role.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"to": selects}}}}
	}
	for _, verb := range verbs {
		role.Rules = append(role.Rules, rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{""}, Resources: []string{"pods"}})
	}
	return role
}

func launchClusterRole(t *testing.T, roles *collection[*rbacv1.ClusterRole], l lag) *process {
	return launch(t, func(ctx context.Context) []controllers.Runner {
		return []controllers.Runner{must[*clusterrole.Controller](t)(clusterrole.New(clusterrole.Config{
			ClusterRoles: follow(ctx, roles, l), Writer: roles,
		}))}
	})
}

// wantVerbs wants the verbs of each role, as "name: verbs" in order of names.
func wantVerbs(t *testing.T, step string, roles *collection[*rbacv1.ClusterRole], want ...string) {
	t.Helper()
	for i, role := range roles.list() {
		got := role.Name + ":"
		for _, rule := range role.Rules {
			got += " " + strings.Join(rule.Verbs, ",")
		}
		if i >= len(want) || got != want[i] {
			t.Errorf("%s: %q is not in %q", step, got, want)
		}
	}
}

func TestClusterRole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		roles := newRoles(t, c.api)
		p := launchClusterRole(t, roles, lag{most: time.Second})
		settle()
		wantVerbs(t, "from the beginning", roles, "bottom: get", "middle: get", "top: get")

		// Changed from outside, it is put right, and nothing else is written.
		writes := len(c.wrote())
		roles.alter(t, "top", func(r *rbacv1.ClusterRole) { r.Rules = append(r.Rules, newRole("", "", "", "delete").Rules...) })
		settle()
		wantVerbs(t, "a rule added by hand", roles, "bottom: get", "middle: get", "top: get")
		if got := c.wrote()[writes:]; len(got) != 1 {
			t.Errorf("wrote %v to take one rule away", got)
		}

		must[*rbacv1.ClusterRole](t)(roles.Create(t.Context(), newRole("also", "middle", "", "list", "watch")))
		settle()
		wantVerbs(t, "a role more", roles, "also: list watch", "bottom: get", "middle: list watch get", "top: list watch get")

		roles.alter(t, "bottom", func(r *rbacv1.ClusterRole) { r.Labels["to"] = "top" })
		settle()
		wantVerbs(t, "another label", roles, "also: list watch", "bottom: get", "middle: list watch", "top: get list watch")
		roles.alter(t, "also", func(r *rbacv1.ClusterRole) { r.Rules = r.Rules[:1] })
		settle()
		wantVerbs(t, "fewer rules", roles, "also: list", "bottom: get", "middle: list", "top: get list")

		if err := roles.Delete(t.Context(), "", "also", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		settle()
		wantVerbs(t, "a role less", roles, "bottom: get", "middle:", "top: get")
		writes = len(c.wrote())
		roles.alter(t, "bottom", func(r *rbacv1.ClusterRole) { r.Annotations = map[string]string{"a": "b"} })
		settle()
		if got := c.wrote()[writes:]; len(got) > 0 {
			t.Errorf("wrote %v for an annotation", got)
		}
		p.stop(t)
	})
}

// TestClusterRoleCircle: roles that select each other come to rest.
func TestClusterRoleCircle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		roles := newRoles(t, c.api)
		roles.alter(t, "top", func(r *rbacv1.ClusterRole) { r.Labels["to"] = "middle" })
		p := launchClusterRole(t, roles, lag{most: time.Second})
		settle()
		wantVerbs(t, "a circle", roles, "bottom: get", "middle: get", "top: get")
		writes := len(c.wrote())
		settle()
		if got := c.wrote()[writes:]; len(got) > 0 {
			t.Errorf("still writes: %v", got)
		}
		p.stop(t)
	})
}

// Whatever fails, before or after it took effect, however late the local copies
// are, and although the process is replaced in between: in the end the rules are
// there.
func TestClusterRoleFaults(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			c := newCluster()
			roles := newRoles(t, c.api)
			failures := 6
			c.fault = func(string, string) (bool, error) {
				if failures--; failures >= 0 && random.IntN(2) == 0 {
					return random.IntN(2) == 0, errors.New("connection lost")
				}
				return true, nil
			}
			l, life := lag{most: time.Second, relist: 30, random: random}, time.Duration(random.IntN(2000))*time.Millisecond
			p := launchClusterRole(t, roles, l)
			time.Sleep(life)
			p.stop(t)
			roles.alter(t, "bottom", func(r *rbacv1.ClusterRole) { r.Rules = newRole("", "", "", "get", "watch").Rules })
			p = launchClusterRole(t, roles, l)
			settle()
			wantVerbs(t, "after faults", roles, "bottom: get watch", "middle: get watch", "top: get watch")
			p.stop(t)
		})
	}
}
