package clusterrole

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/internal/used"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// roleOf is a cluster role with labels (each "true") and a rule for each verb,
// which aggregates the roles with one of the labels in selects.
func roleOf(name, labels, verbs string, selects ...string) *rbacv1.ClusterRole {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for label := range strings.FieldsSeq(labels) {
		role.Labels[label] = "true"
	}
	for verb := range strings.FieldsSeq(verbs) {
		role.Rules = append(role.Rules, rbacv1.PolicyRule{Verbs: []string{verb}, Resources: []string{"pods"}})
	}
	for _, label := range selects {
		if role.AggregationRule == nil {
			role.AggregationRule = &rbacv1.AggregationRule{}
		}
		role.AggregationRule.ClusterRoleSelectors = append(role.AggregationRule.ClusterRoleSelectors,
			metav1.LabelSelector{MatchLabels: map[string]string{label: "true"}})
	}
	return role
}

func verbsOf(rules []rbacv1.PolicyRule) string {
	var verbs []string
	for _, rule := range rules {
		verbs = append(verbs, rule.Verbs...)
	}
	return strings.Join(verbs, " ")
}

func TestAggregatedRules(t *testing.T) {
	roles := []*rbacv1.ClusterRole{
		roleOf("c", "x", "watch get"), roleOf("a", "x y", "get list"), roleOf("b", "y", "delete"),
		roleOf("none", "", "patch"), roleOf("empty", "x", ""),
	}
	for _, test := range []struct {
		name string
		role *rbacv1.ClusterRole
		want string
	}{
		{"by name, each rule once", roleOf("top", "", "", "x"), "get list watch"},
		{"by selector first", roleOf("top", "", "", "y", "x"), "get list delete watch"},
		{"nothing selected", roleOf("top", "", "get", "z"), ""},
		{"not itself", roleOf("a", "x", "get list", "x"), "watch get"},
	} {
		got, err := aggregatedRules(test.role, slices.Values(roles))
		if verbsOf(got) != test.want || err != nil {
			t.Errorf("%s: %s, %v, want %s", test.name, verbsOf(got), err, test.want)
		}
	}
	bad := roleOf("top", "", "", "x")
	bad.AggregationRule.ClusterRoleSelectors[0].MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "x", Operator: "Like"}}
	if got, err := aggregatedRules(bad, slices.Values(roles)); err == nil {
		t.Errorf("a selector that means nothing: %v", got)
	}
	before := roles[1].DeepCopy()
	got, _ := aggregatedRules(roleOf("top", "", "", "x"), slices.Values(roles))
	got[0].Verbs[0] = "changed"
	if !reflect.DeepEqual(roles[1], before) {
		t.Error("the rules are shared with the local copy")
	}
}

// TestCostOfAggregation: roles with 20,000 rules, and selectors as many, are aggregated in time that grows with them.
func TestCostOfAggregation(t *testing.T) {
	long := roleOf("long", "x", strings.Join(words("v", 20_000), " "))
	top := roleOf("top", "", "", append(words("absent", 20_000), "x", "x")...)
	before := used.Processor()
	got, err := aggregatedRules(top, slices.Values([]*rbacv1.ClusterRole{long}))
	took := used.Processor() - before
	t.Logf("it takes %v", took)
	if len(got) != 20_000 || err != nil || took > 3*time.Second {
		t.Errorf("aggregatedRules() = %d rules, %v after %v, want 20000 in less than 3s", len(got), err, took)
	}
}

func words(prefix string, n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprint(prefix, i))
	}
	return all
}
