package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/reconcile"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// NamespaceConfig joins a Namespace controller to its surroundings. The first
// three fields must be set.
type NamespaceConfig struct {
	Namespaces Cache[*corev1.Namespace]
	// Contents delete what namespaces contain, one function for each resource.
	Contents []Emptier
	// Writer removes finalizers.
	Writer Finalizer
	// Workers is how many namespaces are worked on at a time. Zero is 5.
	Workers int
	Log     logr.Logger
}

// An Emptier deletes all objects of one resource in a namespace and tells how
// many were left, which must be read from the API, not from a local copy. It
// is called again until it says zero.
type Emptier func(ctx context.Context, namespace string) (left int, err error)

// A Finalizer replaces the spec.finalizers of a namespace, through the
// finalize subresource.
type Finalizer interface {
	Finalize(ctx context.Context, namespace *corev1.Namespace) error
}

// Namespace empties namespaces that are being deleted and then lets them go.
type Namespace struct {
	*loop
	config NamespaceConfig
}

// NewNamespace checks config. It starts nothing.
func NewNamespace(config NamespaceConfig) (*Namespace, error) {
	if err := required("NamespaceConfig", "Namespaces", config.Namespaces, "Writer", config.Writer); err != nil {
		return nil, err
	}
	if len(config.Contents) == 0 {
		return nil, errors.New("controllers: NamespaceConfig: no Contents: namespaces would go and leave everything behind")
	}
	c := &Namespace{config: config}
	// What is in a namespace may take its time to end; 5 s is the longest that
	// the namespace outlives it.
	backoff := reconcile.Backoff{Min: 20 * time.Millisecond, Max: 5 * time.Second}
	var err error
	if c.loop, err = newLoop("namespace", config.Workers, config.Log, backoff, c.reconcile); err != nil {
		return nil, err
	}
	watch(c.loop, config.Namespaces, func(_, new *corev1.Namespace) {
		if new != nil && new.DeletionTimestamp != nil {
			c.Enqueue(new.Name)
		}
	})
	return c, nil
}

func (c *Namespace) reconcile(ctx context.Context, name string) (reconcile.Result, error) {
	ns, ok := c.config.Namespaces.Get(name)
	if !ok || ns.DeletionTimestamp == nil || !slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes) {
		return reconcile.Result{}, nil
	}
	var failures []error
	left := 0
	for _, empty := range c.config.Contents {
		n, err := empty(ctx, name)
		left += n
		if err != nil {
			// The others go on: one resource that cannot be listed must not keep all
			// pods running.
			failures = append(failures, err)
		}
	}
	if err := errors.Join(failures...); err != nil {
		return reconcile.Result{}, fmt.Errorf("empty namespace %s: %w", name, err)
	}
	if left > 0 {
		return reconcile.Result{Requeue: true}, nil
	}
	final := ns.DeepCopy()
	final.Spec.Finalizers = slices.DeleteFunc(final.Spec.Finalizers, func(f corev1.FinalizerName) bool { return f == corev1.FinalizerKubernetes })
	if err := c.config.Writer.Finalize(ctx, final); err != nil && !apierrors.IsNotFound(err) {
		return reconcile.Result{}, fmt.Errorf("finalize namespace %s: %w", name, err)
	}
	return reconcile.Result{}, nil
}
