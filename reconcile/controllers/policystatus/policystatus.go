// Package policystatus holds the controller that writes what a check of types finds into the status of
// ValidatingAdmissionPolicies.
package policystatus

import (
	"context"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/internal/loop"
	registration "k8s.io/api/admissionregistration/v1"
)

// Config configures a Controller. All fields before Workers are required.
type Config struct {
	Policies localcache.Cache[*registration.ValidatingAdmissionPolicy]
	// Writer writes the status of policies.
	Writer controllers.StatusUpdater[*registration.ValidatingAdmissionPolicy]
	// Check returns warnings about the expressions of a policy, which it does not change.
	Check func(ctx context.Context, policy *registration.ValidatingAdmissionPolicy) ([]registration.ExpressionWarning, error)
	// Workers is the number of policies processed concurrently. Zero means 5.
	Workers int
	// Metrics receives the measurements of the queue and the workers. Nil means none.
	Metrics controllers.Metrics
	// Log receives failures. The zero Logger discards them.
	Log logr.Logger
}

// Controller checks each generation of a policy once. Kinds that are defined later do not change what it found.
type Controller struct {
	*reconcile.Controller[string]
	config Config
}

// New returns a controller, or an error if config lacks a required field. It starts nothing.
func New(config Config) (*Controller, error) {
	if err := loop.Required("policystatus: Config", "Policies", config.Policies, "Writer", config.Writer); err != nil {
		return nil, err
	}
	if config.Check == nil {
		return nil, loop.Required("policystatus: Config", "Check", nil)
	}
	c := &Controller{config: config}
	var err error
	c.Controller, err = loop.New(loop.Config{Name: "validatingadmissionpolicy-status", Workers: config.Workers, Log: config.Log, Metrics: config.Metrics}, c.reconcile)
	if err != nil {
		return nil, err
	}
	reconcile.Watch(c.Controller, config.Policies, reconcile.Itself(localcache.KeyOf[*registration.ValidatingAdmissionPolicy]))
	return c, nil
}

// Run works until ctx is done and returns nil.
func (c *Controller) Run(ctx context.Context) error { return c.Controller.Run(ctx) }

func (c *Controller) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	policy, ok := c.config.Policies.Get(key)
	if !ok || policy.Generation <= policy.Status.ObservedGeneration {
		return reconcile.Result{}, nil
	}
	warnings, err := c.config.Check(ctx, policy)
	if err != nil {
		return reconcile.Result{}, err
	}
	policy = policy.DeepCopy()
	policy.Status.ObservedGeneration = policy.Generation
	policy.Status.TypeChecking = &registration.TypeChecking{ExpressionWarnings: warnings}
	_, err = c.config.Writer.UpdateStatus(ctx, policy)
	return reconcile.Result{}, err
}
