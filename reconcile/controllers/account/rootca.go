package account

import (
	"cmp"
	"context"
	"errors"
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

// rootCAName and rootCAKey are where the token volumes of pods look.
const (
	rootCAName = "kube-root-ca.crt"
	rootCAKey  = "ca.crt"
)

const (
	descriptionAnnotation = "kubernetes.io/description"
	rootCADescription     = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints " +
		"such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."
)

// RootCAConfig configures a RootCA. All fields before Workers are required.
type RootCAConfig struct {
	Namespaces localcache.Cache[*corev1.Namespace]
	ConfigMaps localcache.Cache[*corev1.ConfigMap]
	Writer     interface {
		controllers.Creator[*corev1.ConfigMap]
		controllers.Updater[*corev1.ConfigMap]
	}
	// CA is the certificate authority of the API server, in PEM.
	CA []byte
	// Workers is the number of namespaces processed concurrently. Zero means 5.
	Workers int
	// Metrics receives the measurements of the queue and the workers. Nil means none.
	Metrics controllers.Metrics
	// Log receives failures. The zero Logger discards them.
	Log logr.Logger
}

// RootCA keeps a ConfigMap kube-root-ca.crt in every active namespace. It holds the certificate
// authority by which clients in pods know the API server.
type RootCA struct {
	*reconcile.Controller[string]
	config RootCAConfig
}

// NewRootCA returns a controller, or an error if config lacks a required field. It starts nothing.
func NewRootCA(config RootCAConfig) (*RootCA, error) {
	err := loop.Required("account: RootCAConfig", "Namespaces", config.Namespaces, "ConfigMaps", config.ConfigMaps, "Writer", config.Writer)
	if err != nil {
		return nil, err
	}
	if len(config.CA) == 0 {
		return nil, errors.New("account: RootCAConfig: no CA")
	}
	c := &RootCA{config: config}
	if c.Controller, err = loop.New(loop.Config{Name: "rootca", Workers: config.Workers, Log: config.Log, Metrics: config.Metrics}, c.reconcile); err != nil {
		return nil, err
	}
	reconcile.Watch(c.Controller, config.Namespaces, reconcile.Itself(localcache.KeyOf[*corev1.Namespace]))
	reconcile.WatchFunc(c.Controller, config.ConfigMaps, func(old, new *corev1.ConfigMap) {
		if object := cmp.Or(new, old); object.Name == rootCAName {
			c.Enqueue(object.Namespace)
		}
	})
	return c, nil
}

func (c *RootCA) reconcile(ctx context.Context, namespace string) (reconcile.Result, error) {
	ns, ok := c.config.Namespaces.Get(namespace)
	if !ok || ns.DeletionTimestamp != nil || ns.Status.Phase == corev1.NamespaceTerminating {
		return reconcile.Result{}, nil
	}
	have, ok := c.config.ConfigMaps.Get(localcache.Key(namespace, rootCAName))
	if !ok {
		return reconcile.Result{}, c.create(ctx, namespace)
	}
	if have.Data[rootCAKey] == string(c.config.CA) && len(have.Data) == 1 && have.Annotations[descriptionAnnotation] != "" {
		return reconcile.Result{}, nil
	}
	want := have.DeepCopy()
	want.Data = map[string]string{rootCAKey: string(c.config.CA)}
	if want.Annotations == nil {
		want.Annotations = map[string]string{}
	}
	want.Annotations[descriptionAnnotation] = rootCADescription
	if _, err := c.config.Writer.Update(ctx, want); err != nil && !apierrors.IsNotFound(err) {
		return reconcile.Result{}, fmt.Errorf("update config map %s: %w", localcache.KeyOf(want), err)
	}
	return reconcile.Result{}, nil
}

func (c *RootCA) create(ctx context.Context, namespace string) error {
	_, err := c.config.Writer.Create(ctx, RootCAConfigMap(namespace, c.config.CA))
	switch {
	case err == nil, apierrors.IsAlreadyExists(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil
	}
	return fmt.Errorf("create config map %s/%s: %w", namespace, rootCAName, err)
}

// RootCAConfigMap returns the ConfigMap that RootCA writes, for a caller that creates it together
// with the namespace.
func RootCAConfigMap(namespace string, ca []byte) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: rootCAName,
			Annotations: map[string]string{descriptionAnnotation: rootCADescription},
		},
		Data: map[string]string{rootCAKey: string(ca)},
	}
}
