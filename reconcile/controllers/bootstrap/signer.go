package bootstrap

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/pki/clusterinfo"
	"github.com/planekit/planekit/reconcile"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/internal/loop"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SignerConfig configures a Signer. All fields before Metrics are required.
type SignerConfig struct {
	ConfigMaps localcache.Cache[*corev1.ConfigMap]
	Secrets    localcache.Cache[*corev1.Secret]
	// SecretsByNamespace indexes Secrets by [controllers.ByNamespace].
	SecretsByNamespace localcache.Index[string, *corev1.Secret]
	Writer             controllers.Updater[*corev1.ConfigMap]
	// Metrics receives the measurements of the queue and the workers. Nil means none.
	Metrics controllers.Metrics
	// Log receives failures. The zero Logger discards them.
	Log logr.Logger
}

// Signer keeps the signatures in the ConfigMap cluster-info of kube-public: one for each bootstrap token
// that is meant for signing and has not expired, and no other. It does not create the ConfigMap.
type Signer struct {
	*reconcile.Controller[string]
	config SignerConfig
}

// NewSigner returns a controller, or an error if config lacks a required field. It starts nothing.
func NewSigner(config SignerConfig) (*Signer, error) {
	err := loop.Required("bootstrap: SignerConfig", "ConfigMaps", config.ConfigMaps, "Secrets", config.Secrets,
		"SecretsByNamespace", config.SecretsByNamespace, "Writer", config.Writer)
	if err != nil {
		return nil, err
	}
	c := &Signer{config: config}
	// All keys are the same object.
	if c.Controller, err = loop.New(loop.Config{Name: "bootstrap_signer_queue", Workers: 1, Log: config.Log, Metrics: config.Metrics}, c.reconcile); err != nil {
		return nil, err
	}
	key := localcache.Key(clusterinfo.Namespace, clusterinfo.Name)
	reconcile.WatchFunc(c.Controller, config.ConfigMaps, func(old, new *corev1.ConfigMap) {
		if localcache.KeyOf(cmp.Or(new, old)) == key {
			c.Enqueue(key)
		}
	})
	reconcile.WatchFunc(c.Controller, config.Secrets, func(old, new *corev1.Secret) {
		if isToken(cmp.Or(new, old)) {
			c.Enqueue(key)
		}
	})
	return c, nil
}

func (c *Signer) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	have, ok := c.config.ConfigMaps.Get(key)
	if !ok {
		return reconcile.Result{}, nil
	}
	text, ok := have.Data[clusterinfo.Key]
	if !ok {
		return reconcile.Result{}, nil
	}
	data := maps.Clone(have.Data)
	maps.DeleteFunc(data, func(key, _ string) bool { _, signature := clusterinfo.TokenID(key); return signature })
	var after time.Duration
	now := time.Now()
	for secret := range c.config.SecretsByNamespace.Get(metav1.NamespaceSystem) {
		id, key, ok := signing(secret, now)
		if !ok {
			continue
		}
		data[clusterinfo.SignatureKey(id)] = clusterinfo.Sign(text, id, key)
		if end, ok := expiration(secret); ok {
			after = loop.Sooner(after, end.Sub(now))
		}
	}
	if !maps.Equal(data, have.Data) {
		changed := have.DeepCopy()
		changed.Data = data
		if _, err := c.config.Writer.Update(ctx, changed); err != nil && !apierrors.IsNotFound(err) {
			return reconcile.Result{}, fmt.Errorf("update config map %s: %w", key, err)
		}
	}
	return reconcile.Result{After: after}, nil
}
