// Package loop builds the loops of the controllers: a queue in which namespaces take turns, and
// workers that retry without a log entry while a cache is stale.
package loop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/reconcile"
	"github.com/planekit/planekit/reconcile/controllers"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Config configures a loop. Name is required.
type Config struct {
	// Name is the name of the loop in logs and metrics.
	Name string
	// Workers is the number of concurrent calls. Zero means 5.
	Workers int
	// Log receives failures. The zero Logger discards them.
	Log logr.Logger
	// Metrics receives the measurements of the queue and the workers. Nil means none.
	Metrics controllers.Metrics
	// Backoff is the delay of retries. Zero means that of [reconcile.Backoff].
	Backoff reconcile.Backoff
}

// defaultWorkers is the number of workers if a Config has none.
const defaultWorkers = 5

// New returns a controller that calls reconciler. Namespaces take turns: no namespace waits for all
// keys of another. Keys without a namespace count as one more namespace.
func New(config Config, reconciler reconcile.Reconciler[string]) (*reconcile.Controller[string], error) {
	if config.Workers == 0 {
		config.Workers = defaultWorkers
	}
	queueConfig := reconcile.QueueConfig[string]{Backoff: config.Backoff, Tenant: namespaceOf}
	var hooks reconcile.Hooks
	if config.Metrics != nil {
		queueConfig.Hooks = config.Metrics.Queue(config.Name)
		hooks = config.Metrics.Controller(config.Name, config.Workers)
	}
	queue := reconcile.NewQueueWith(queueConfig)
	if config.Metrics != nil {
		hooks.Running = func() (ended func()) { return config.Metrics.Watch(config.Name, queue) }
	}
	return reconcile.New(reconcile.Config[string]{
		Name: config.Name, Workers: config.Workers, Log: config.Log, Hooks: hooks, Queue: queue, Reconcile: quiet(reconciler),
	})
}

// namespaceOf returns the namespace of a key. The names of cluster-scoped objects have none, nor
// have the UIDs that the garbage collector uses as keys.
func namespaceOf(key string) string {
	namespace, _, ok := strings.Cut(key, "/")
	if !ok {
		return ""
	}
	return namespace
}

// quiet turns errors caused by a stale cache into a request to try again. Such errors end when the
// cache catches up.
func quiet(reconciler reconcile.Reconciler[string]) reconcile.Reconciler[string] {
	return func(ctx context.Context, key string) (reconcile.Result, error) {
		result, err := reconciler(ctx, key)
		if IsStale(err) {
			return reconcile.Result{Requeue: true}, nil
		}
		return result, err
	}
}

// ErrStale reports that a cache is known to be stale.
var ErrStale = errors.New("the cache is stale")

// IsStale reports whether err ends when the caches catch up: it is ErrStale or a conflict.
func IsStale(err error) bool {
	return errors.Is(err, ErrStale) || apierrors.IsConflict(err)
}

// Required returns an error for the first of the fields, given as name and value in turn, that is
// nil. controller names the package or the controller in the error.
func Required(controller string, fields ...any) error {
	for i := 0; i < len(fields); i += 2 {
		if fields[i+1] == nil {
			return fmt.Errorf("%s: no %s", controller, fields[i])
		}
	}
	return nil
}

// Sooner returns the smaller of two waits. A wait that is not positive counts as none.
func Sooner(a, b time.Duration) time.Duration {
	if a <= 0 || b > 0 && b < a {
		return max(b, 0)
	}
	return a
}
