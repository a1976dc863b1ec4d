package rbac_test

import (
	"testing"

	"github.com/planekit/planekit/authz/rbac"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// written is have after a plan has been carried out.
func written(have rbac.Policy, p rbac.Plan) rbac.Policy {
	return rbac.Policy{
		ClusterRoles:        put(put(have.ClusterRoles, p.Create.ClusterRoles), p.Update.ClusterRoles),
		ClusterRoleBindings: put(put(put(have.ClusterRoleBindings, p.Create.ClusterRoleBindings), p.Update.ClusterRoleBindings), p.Recreate.ClusterRoleBindings),
		Roles:               put(put(have.Roles, p.Create.Roles), p.Update.Roles),
		RoleBindings:        put(put(put(have.RoleBindings, p.Create.RoleBindings), p.Update.RoleBindings), p.Recreate.RoleBindings),
	}
}

func put[T interface {
	GetNamespace() string
	GetName() string
}](have, changed []T) []T {
	var all []T
	isChanged := map[string]bool{}
	for _, o := range changed {
		isChanged[o.GetNamespace()+"/"+o.GetName()] = true
	}
	for _, o := range have {
		if !isChanged[o.GetNamespace()+"/"+o.GetName()] {
			all = append(all, o)
		}
	}
	return append(all, changed...)
}

// TestReconcileNew: an empty cluster gets everything, and then nothing any more.
func TestReconcileNew(t *testing.T) {
	want := rbac.Bootstrap{}.Policy()
	plan := rbac.Reconcile(want, rbac.Policy{})
	if !equality.Semantic.DeepEqual(plan.Create, want) || !(rbac.Plan{Update: plan.Update, Recreate: plan.Recreate}).Empty() {
		t.Errorf("not all is created: %+v", plan.Update)
	}
	plan.Create.ClusterRoles[0].Rules[0].Verbs[0] = "changed"
	if want.ClusterRoles[0].Rules[0].Verbs[0] == "changed" {
		t.Error("the plan shares what is wanted")
	}
	if again := rbac.Reconcile(rbac.Bootstrap{}.Policy(), written(rbac.Policy{}, rbac.Reconcile(want, rbac.Policy{}))); !again.Empty() {
		t.Errorf("a second time: %+v", again)
	}
}

// TestReconcile: what is missing comes back, what was added stays, and what opted
// out is left alone.
func TestReconcile(t *testing.T) {
	find := func(p rbac.Policy, name string) *rbacv1.ClusterRole {
		for _, r := range p.ClusterRoles {
			if r.Name == name {
				return r
			}
		}
		t.Fatalf("no cluster role %s", name)
		return nil
	}
	findBinding := func(p rbac.Policy, name string) *rbacv1.ClusterRoleBinding {
		for _, b := range p.ClusterRoleBindings {
			if b.Name == name {
				return b
			}
		}
		t.Fatalf("no cluster role binding %s", name)
		return nil
	}
	want, have := rbac.Bootstrap{}.Policy(), rbac.Bootstrap{}.Policy()
	extra := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{"x.io"}, Resources: []string{"things"}}

	lost := find(have, "system:kube-dns") // some rules are missing, one is not wanted
	lost.Rules, lost.ResourceVersion = []rbacv1.PolicyRule{extra}, "7"
	wider := find(have, "system:heapster") // more than wanted
	wider.Rules = append(wider.Rules, extra)
	protected := find(have, "system:node-problem-detector")
	protected.Rules, protected.Annotations[rbacv1.AutoUpdateAnnotationKey] = nil, "false"
	unlabelled := find(have, "view")
	unlabelled.Labels = map[string]string{"mine": "x", "kubernetes.io/bootstrapping": "other"}
	unlabelled.AggregationRule = nil
	plain := find(have, "system:kube-aggregator")
	plain.AggregationRule = find(want, "edit").AggregationRule

	moved := findBinding(have, "system:kube-dns")
	moved.RoleRef.Name = "cluster-admin"
	emptied := findBinding(have, "system:kube-scheduler")
	emptied.Subjects = []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "mine"}}
	kept := findBinding(have, "system:node-proxier")
	kept.RoleRef.Name, kept.Annotations[rbacv1.AutoUpdateAnnotationKey] = "mine", "false"
	have.Roles, have.RoleBindings = have.Roles[1:], have.RoleBindings[:6]

	before := *lost.DeepCopy()
	plan := rbac.Reconcile(want, have)
	if !equality.Semantic.DeepEqual(before, *lost) {
		t.Error("what there is has been changed in place")
	}
	if len(plan.Create.Roles) != 1 || len(plan.Create.RoleBindings) != 1 || len(plan.Create.ClusterRoles)+len(plan.Create.ClusterRoleBindings) > 0 {
		t.Errorf("create %+v", plan.Create)
	}
	if len(plan.Update.ClusterRoles) != 3 || len(plan.Update.ClusterRoleBindings) != 1 || len(plan.Update.Roles)+len(plan.Update.RoleBindings) > 0 {
		t.Errorf("update %+v", plan.Update)
	}
	if r := find(plan.Update, "system:kube-dns"); len(r.Rules) != 3 || !equality.Semantic.DeepEqual(r.Rules[0], extra) || r.ResourceVersion != "7" {
		t.Errorf("rules: %+v", r)
	}
	if r := find(plan.Update, "view"); r.Labels["mine"] != "x" || r.Labels["kubernetes.io/bootstrapping"] != "other" ||
		r.Labels["rbac.authorization.k8s.io/aggregate-to-edit"] != "true" ||
		!equality.Semantic.DeepEqual(r.AggregationRule, find(want, "view").AggregationRule) {
		t.Errorf("view: %+v", r)
	}
	if r := find(plan.Update, "system:kube-aggregator"); r.AggregationRule != nil {
		t.Errorf("aggregation: %+v", r)
	}
	if len(plan.Recreate.ClusterRoleBindings) != 1 || !equality.Semantic.DeepEqual(plan.Recreate.ClusterRoleBindings[0], findBinding(want, "system:kube-dns")) {
		t.Errorf("recreate %+v", plan.Recreate)
	}
	if b := findBinding(plan.Update, "system:kube-scheduler"); len(b.Subjects) != 2 || b.Subjects[0].Name != "mine" {
		t.Errorf("subjects %+v", b.Subjects)
	}
	if again := rbac.Reconcile(want, written(have, plan)); !again.Empty() {
		t.Errorf("a second time: %+v", again)
	}
}
