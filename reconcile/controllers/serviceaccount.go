package controllers

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ServiceAccountConfig joins a ServiceAccount controller to its surroundings.
// The first three fields must be set.
type ServiceAccountConfig struct {
	Namespaces      localcache.Cache[*corev1.Namespace]
	ServiceAccounts localcache.Cache[*corev1.ServiceAccount]
	Writer          Creator[*corev1.ServiceAccount]
	// Names are the accounts that every namespace has. Nil is "default" alone.
	Names []string
	// Workers is how many namespaces are worked on at a time. Zero is 5.
	Workers int
	Log     logr.Logger
}

// ServiceAccount makes the accounts that every active namespace has.
type ServiceAccount struct {
	*loop
	config ServiceAccountConfig
}

// NewServiceAccount checks config. It starts nothing.
func NewServiceAccount(config ServiceAccountConfig) (*ServiceAccount, error) {
	err := required("ServiceAccountConfig", "Namespaces", config.Namespaces,
		"ServiceAccounts", config.ServiceAccounts, "Writer", config.Writer)
	if err != nil {
		return nil, err
	}
	if config.Names == nil {
		config.Names = []string{"default"}
	}
	c := &ServiceAccount{config: config}
	if c.loop, err = newLoop("serviceaccount", config.Workers, config.Log, reconcile.Backoff{}, c.reconcile); err != nil {
		return nil, err
	}
	watch(c.loop, config.Namespaces, enqueueObject[*corev1.Namespace](c.loop))
	watch(c.loop, config.ServiceAccounts, func(old, new *corev1.ServiceAccount) {
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
