package account

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/internal/loop"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ServiceAccountConfig configures a ServiceAccount. Namespaces, ServiceAccounts and Writer are
// required.
type ServiceAccountConfig struct {
	Namespaces      localcache.Cache[*corev1.Namespace]
	ServiceAccounts localcache.Cache[*corev1.ServiceAccount]
	Writer          controllers.Creator[*corev1.ServiceAccount]
	// Names are the names of the accounts that every namespace has. Nil means "default" alone.
	Names []string
	// Workers is the number of namespaces processed concurrently. Zero means 5.
	Workers int
	// Metrics receives the measurements of the queue and the workers. Nil means none.
	Metrics controllers.Metrics
	// Log receives failures. The zero Logger discards them.
	Log logr.Logger
}

// ServiceAccount creates the accounts that every active namespace has.
type ServiceAccount struct {
	*reconcile.Controller[string]
	config ServiceAccountConfig
}

// NewServiceAccount returns a controller, or an error if config lacks a required field. It starts
// nothing.
func NewServiceAccount(config ServiceAccountConfig) (*ServiceAccount, error) {
	err := loop.Required("account: ServiceAccountConfig", "Namespaces", config.Namespaces,
		"ServiceAccounts", config.ServiceAccounts, "Writer", config.Writer)
	if err != nil {
		return nil, err
	}
	if config.Names == nil {
		config.Names = []string{"default"}
	}
	c := &ServiceAccount{config: config}
	if c.Controller, err = loop.New(loop.Config{Name: "serviceaccount", Workers: config.Workers, Log: config.Log, Metrics: config.Metrics}, c.reconcile); err != nil {
		return nil, err
	}
	reconcile.Watch(c.Controller, config.Namespaces, reconcile.Itself(localcache.KeyOf[*corev1.Namespace]))
	reconcile.WatchFunc(c.Controller, config.ServiceAccounts, func(old, new *corev1.ServiceAccount) {
		if new == nil {
			c.Enqueue(old.Namespace)
		}
	})
	return c, nil
}

func (c *ServiceAccount) reconcile(ctx context.Context, namespace string) (reconcile.Result, error) {
	ns, ok := c.config.Namespaces.Get(namespace)
	if !ok || ns.DeletionTimestamp != nil || ns.Status.Phase == corev1.NamespaceTerminating {
		return reconcile.Result{}, nil
	}
	for _, name := range c.config.Names {
		if _, ok := c.config.ServiceAccounts.Get(localcache.Key(namespace, name)); ok {
			continue
		}
		_, err := c.config.Writer.Create(ctx, &corev1.ServiceAccount{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		})
		switch {
		case err == nil, apierrors.IsAlreadyExists(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		default:
			return reconcile.Result{}, fmt.Errorf("create service account %s/%s: %w", namespace, name, err)
		}
	}
	return reconcile.Result{}, nil
}
