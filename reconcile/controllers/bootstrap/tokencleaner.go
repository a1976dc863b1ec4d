package bootstrap

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/internal/loop"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TokenCleanerConfig configures a TokenCleaner. Secrets and Writer are required.
type TokenCleanerConfig struct {
	Secrets localcache.Cache[*corev1.Secret]
	Writer  controllers.Deleter
	// Workers is the number of secrets processed concurrently. Zero means 5.
	Workers int
	// Metrics receives the measurements of the queue and the workers. Nil means none.
	Metrics controllers.Metrics
	// Log receives failures. The zero Logger discards them.
	Log logr.Logger
}

// TokenCleaner deletes the secrets of bootstrap tokens when they expire. A time of expiry that cannot be
// parsed has passed.
type TokenCleaner struct {
	*reconcile.Controller[string]
	config TokenCleanerConfig
}

// NewTokenCleaner returns a controller, or an error if config lacks a required field. It starts nothing.
func NewTokenCleaner(config TokenCleanerConfig) (*TokenCleaner, error) {
	if err := loop.Required("bootstrap: TokenCleanerConfig", "Secrets", config.Secrets, "Writer", config.Writer); err != nil {
		return nil, err
	}
	c := &TokenCleaner{config: config}
	var err error
	if c.Controller, err = loop.New(loop.Config{Name: "token_cleaner", Workers: config.Workers, Log: config.Log, Metrics: config.Metrics}, c.reconcile); err != nil {
		return nil, err
	}
	reconcile.WatchFunc(c.Controller, config.Secrets, func(_, new *corev1.Secret) {
		if new != nil && isToken(new) {
			c.Enqueue(localcache.KeyOf(new))
		}
	})
	return c, nil
}

func (c *TokenCleaner) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	secret, ok := c.config.Secrets.Get(key)
	if !ok || !isToken(secret) || secret.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	end, ends := expiration(secret)
	if !ends {
		return reconcile.Result{}, nil
	}
	if left := time.Until(end); left > 0 {
		return reconcile.Result{After: left}, nil
	}
	// The token may have been prolonged meanwhile.
	err := c.config.Writer.Delete(ctx, secret.Namespace, secret.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return reconcile.Result{}, fmt.Errorf("delete secret %s: %w", key, err)
	}
	return reconcile.Result{}, nil
}
