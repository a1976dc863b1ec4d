package namespace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/internal/loop"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Config configures a Controller. Namespaces, Contents and Writer are required.
type Config struct {
	Namespaces localcache.Cache[*corev1.Namespace]
	// Contents returns the resources that a namespace may hold now, owners before what they own;
	// pods are emptied before all other resources. With an error it may still return the resources
	// it knows: they are emptied, and the namespace stays until there is no error.
	Contents func(context.Context) ([]Content, error)
	// Writer removes finalizers.
	Writer Finalizer
	// StatusWriter writes what a namespace waits for into its status. Nil leaves the status
	// unchanged.
	StatusWriter controllers.StatusUpdater[*corev1.Namespace]
	// Workers is the number of namespaces processed concurrently. Zero means 5.
	Workers int
	// Metrics receives the measurements of the queue and the workers. Nil means none.
	Metrics controllers.Metrics
	// Log receives failures. The zero Logger discards them.
	Log logr.Logger
}

// Content is one resource in namespaces.
type Content struct {
	Resource schema.GroupResource
	// Empty deletes all objects of the resource in a namespace and returns what is left, which must
	// be read from the API, not from a cache. It is called again until nothing is left.
	Empty func(ctx context.Context, namespace string) (Remaining, error)
}

// Remaining holds the number of objects of one resource that are left.
type Remaining struct {
	Objects int
	// Finalizers holds how many of them wait for each finalizer.
	Finalizers map[string]int
}

// A Finalizer replaces the spec.finalizers of a namespace, through the
// finalize subresource.
type Finalizer interface {
	Finalize(ctx context.Context, namespace *corev1.Namespace) error
}

// Controller empties namespaces that are being deleted and then removes their finalizer.
type Controller struct {
	*reconcile.Controller[string]
	config Config
}

// New returns a controller, or an error if config lacks a required field. It starts nothing.
func New(config Config) (*Controller, error) {
	if err := loop.Required("namespace: Config", "Namespaces", config.Namespaces, "Writer", config.Writer); err != nil {
		return nil, err
	}
	if config.Contents == nil {
		return nil, errors.New("namespace: Config: no Contents: namespaces would go and leave everything behind")
	}
	c := &Controller{config: config}
	// Objects may take their time to end; a namespace outlives its contents by at most 5 s.
	backoff := reconcile.Backoff{Min: 20 * time.Millisecond, Max: 5 * time.Second}
	var err error
	if c.Controller, err = loop.New(loop.Config{Name: "namespace", Workers: config.Workers, Log: config.Log, Metrics: config.Metrics, Backoff: backoff}, c.reconcile); err != nil {
		return nil, err
	}
	reconcile.WatchFunc(c.Controller, config.Namespaces, func(_, new *corev1.Namespace) {
		if new != nil && new.DeletionTimestamp != nil {
			c.Enqueue(new.Name)
		}
	})
	return c, nil
}

func (c *Controller) reconcile(ctx context.Context, name string) (reconcile.Result, error) {
	ns, ok := c.config.Namespaces.Get(name)
	if !ok || ns.DeletionTimestamp == nil || !slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes) {
		return reconcile.Result{}, nil
	}
	e := c.empty(ctx, name)
	// The status of a namespace that is deleted now would not be read.
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
func (c *Controller) empty(ctx context.Context, namespace string) (e emptying) {
	var contents []Content
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
func (c *Controller) report(ctx context.Context, ns *corev1.Namespace, e *emptying) error {
	conditions, changed := e.conditions(ns.Status.Conditions, metav1.Now())
	if !changed || c.config.StatusWriter == nil {
		return nil
	}
	news := ns.DeepCopy()
	news.Status.Conditions = conditions
	_, err := c.config.StatusWriter.UpdateStatus(ctx, news)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // the next pass says it
	}
	return err
}
