package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// NamespaceConfig joins a Namespace controller to its surroundings. The first
// three fields must be set.
type NamespaceConfig struct {
	Namespaces localcache.Cache[*corev1.Namespace]
	// Contents are the resources that a namespace may hold now, makers of others
	// before what they make; pods are emptied before all others. With an error it
	// may still return those it knows: they are emptied, and the namespace stays
	// until there is no error.
	Contents func(context.Context) ([]NamespaceContent, error)
	// Writer removes finalizers.
	Writer Finalizer
	// Status may be nil. Else it is told what a namespace is waiting for.
	Status StatusUpdater[*corev1.Namespace]
	// Workers is how many namespaces are worked on at a time. Zero is 5.
	Workers int
	Log     logr.Logger
}

// NamespaceContent is one resource in namespaces.
type NamespaceContent struct {
	Resource schema.GroupResource
	// Empty deletes all objects of the resource in a namespace and tells what is
	// left, which must be read from the API, not from a local copy. It is called
	// again until nothing is.
	Empty func(ctx context.Context, namespace string) (Remains, error)
}

// Remains are the objects of one resource that have not gone yet.
type Remains struct {
	Objects int
	// Finalizers tells how many of them wait for each finalizer.
	Finalizers map[string]int
}

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
	if config.Contents == nil {
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
	e := c.empty(ctx, name)
	// Of a namespace that goes now nobody reads the status.
	if goes := e.done() && len(ns.Spec.Finalizers) == 1; !goes {
		if err := c.report(ctx, ns, &e); err != nil {
			return reconcile.Result{}, fmt.Errorf("status of namespace %s: %w", name, err)
		}
	}
	if err := errors.Join(append(e.failures, e.unknown)...); err != nil {
		return reconcile.Result{}, fmt.Errorf("empty namespace %s: %w", name, err)
	}
	if !e.done() {
		return reconcile.Result{Requeue: true}, nil
	}
	final := ns.DeepCopy()
	final.Spec.Finalizers = slices.DeleteFunc(final.Spec.Finalizers, func(f corev1.FinalizerName) bool { return f == corev1.FinalizerKubernetes })
	if err := c.config.Writer.Finalize(ctx, final); err != nil && !apierrors.IsNotFound(err) {
		return reconcile.Result{}, fmt.Errorf("finalize namespace %s: %w", name, err)
	}
	return reconcile.Result{}, nil
}

// empty makes one pass over all resources. Nothing but pods goes while there are
// pods: until the last has ended it may need what else is in its namespace, and be
// kept in bounds by it, such as by network policies
// (https://kubernetes.io/blog/2025/05/08/kubernetes-v1-33-ordered-namespace-deletion/).
func (c *Namespace) empty(ctx context.Context, namespace string) (e emptying) {
	var contents []NamespaceContent
	contents, e.unknown = c.config.Contents(ctx)
	pass := func(pods bool) {
		for _, content := range contents {
			if (content.Resource == corev1.Resource("pods")) != pods {
				continue
			}
			remains, err := content.Empty(ctx, namespace)
			if err != nil {
				// The others go on: one resource that cannot be listed must not keep all
				// pods running.
				e.failures = append(e.failures, fmt.Errorf("%s: %w", content.Resource, err))
			}
			e.add(content.Resource, remains)
		}
	}
	pass(true)
	if len(e.remaining) == 0 {
		pass(false)
	}
	return e
}

// report writes what came of a pass if it is news.
func (c *Namespace) report(ctx context.Context, ns *corev1.Namespace, e *emptying) error {
	conditions, changed := e.conditions(ns.Status.Conditions, metav1.Now())
	if !changed || c.config.Status == nil {
		return nil
	}
	news := ns.DeepCopy()
	news.Status.Conditions = conditions
	_, err := c.config.Status.UpdateStatus(ctx, news)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // the next pass says it
	}
	return err
}
