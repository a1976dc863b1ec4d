package clusterrole

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/internal/selector"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/internal/loop"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
)

// Config configures a Controller. ClusterRoles and Writer are required.
type Config struct {
	ClusterRoles localcache.Cache[*rbacv1.ClusterRole]
	Writer       controllers.Updater[*rbacv1.ClusterRole]
	// Workers is the number of roles processed concurrently. Zero means 5.
	Workers int
	// Metrics receives the measurements of the queue and the workers. Nil means none.
	Metrics controllers.Metrics
	// Log receives failures. The zero Logger discards them.
	Log logr.Logger
}

// Controller writes into every cluster role that aggregates other roles the rules of those roles,
// so that users and programs can read them.
type Controller struct {
	*reconcile.Controller[string]
	config Config
}

// New returns a controller, or an error if config lacks a required field. It starts nothing.
func New(config Config) (*Controller, error) {
	err := loop.Required("clusterrole: Config", "ClusterRoles", config.ClusterRoles, "Writer", config.Writer)
	if err != nil {
		return nil, err
	}
	c := &Controller{config: config}
	if c.Controller, err = loop.New(loop.Config{Name: "clusterrole", Workers: config.Workers, Log: config.Log, Metrics: config.Metrics}, c.reconcile); err != nil {
		return nil, err
	}
	reconcile.WatchFunc(c.Controller, config.ClusterRoles, c.changed)
	return c, nil
}

// changed enqueues the roles that select the old or the new role, and the role itself.
func (c *Controller) changed(old, new *rbacv1.ClusterRole) {
	if new != nil && new.AggregationRule != nil {
		c.Enqueue(new.Name)
	}
	if old != nil && new != nil && equality.Semantic.DeepEqual(old.Rules, new.Rules) && equality.Semantic.DeepEqual(old.Labels, new.Labels) {
		return
	}
	for role := range c.config.ClusterRoles.All() {
		if selects(role, old) || selects(role, new) {
			c.Enqueue(role.Name)
		}
	}
}

// selects reports whether role aggregates other, or means to and cannot be read.
func selects(role, other *rbacv1.ClusterRole) bool {
	if role.AggregationRule == nil || other == nil {
		return false
	}
	for i := range role.AggregationRule.ClusterRoleSelectors {
		if wanted, err := selector.Of(&role.AggregationRule.ClusterRoleSelectors[i]); err != nil || wanted.Matches(labels.Set(other.Labels)) {
			return true
		}
	}
	return false
}

func (c *Controller) reconcile(ctx context.Context, name string) (reconcile.Result, error) {
	have, ok := c.config.ClusterRoles.Get(name)
	if !ok || have.AggregationRule == nil || have.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	rules, err := aggregatedRules(have, c.config.ClusterRoles.All())
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("cluster role %s: %w", name, err)
	}
	if equality.Semantic.DeepEqual(rules, have.Rules) {
		return reconcile.Result{}, nil
	}
	want := have.DeepCopy()
	want.Rules = rules
	if _, err := c.config.Writer.Update(ctx, want); err != nil && !apierrors.IsNotFound(err) {
		return reconcile.Result{}, fmt.Errorf("update cluster role %s: %w", name, err)
	}
	return reconcile.Result{}, nil
}

// aggregatedRules are the rules of the roles that role selects, by one selector
// after the other, in the order of their names, each rule once. A role does not
// aggregate itself.
func aggregatedRules(role *rbacv1.ClusterRole, all iter.Seq[*rbacv1.ClusterRole]) ([]rbacv1.PolicyRule, error) {
	sorted := slices.SortedFunc(all, func(a, b *rbacv1.ClusterRole) int { return cmp.Compare(a.Name, b.Name) })
	var rules []rbacv1.PolicyRule
	known := map[string]bool{} // the rules, by their protobuf
	for i := range role.AggregationRule.ClusterRoleSelectors {
		wanted, err := selector.Of(&role.AggregationRule.ClusterRoleSelectors[i])
		if err != nil {
			return nil, fmt.Errorf("aggregationRule.clusterRoleSelectors[%d]: %w", i, err)
		}
		for _, other := range sorted {
			if other.Name == role.Name || !wanted.Matches(labels.Set(other.Labels)) {
				continue
			}
			for _, rule := range other.Rules {
				text, err := rule.Marshal()
				if err != nil {
					return nil, fmt.Errorf("rules of %s: %w", other.Name, err)
				}
				if !known[string(text)] {
					known[string(text)] = true
					rules = append(rules, *rule.DeepCopy())
				}
			}
		}
	}
	return rules, nil
}
