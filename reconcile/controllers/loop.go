package controllers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// loop is what all controllers have in common: subscriptions which enqueue,
// copies to wait for, and a queue.
type loop struct {
	*reconcile.Controller[string]
	subscriptions []func() (stop func())
	synced        []<-chan struct{}

	config  reconcile.Config[string]
	backoff reconcile.Backoff
	metrics Metrics // nil if nobody looks
}

// Metrics is what shows controllers and their queues to those who graph them.
// Calls are concurrent. Package reconcile/metrics has one for Prometheus.
type Metrics interface {
	// Queue and Controller return the hooks of the queue and the controller of that
	// name.
	Queue(name string) reconcile.QueueHooks
	Controller(name string, workers int) reconcile.Hooks
	// Watch has the state of the queue shown until stop is called.
	Watch(name string, queue interface{ Stats() reconcile.QueueStats }) (stop func())
}

func newLoop(name string, workers int, log logr.Logger, backoff reconcile.Backoff, f reconcile.Reconciler[string]) (*loop, error) {
	if workers == 0 {
		workers = defaultWorkers
	}
	l := &loop{backoff: backoff, config: reconcile.Config[string]{Name: name, Workers: workers, Log: log, Reconcile: quiet(f)}}
	return l, l.build(reconcile.QueueHooks{})
}

// defaultWorkers is how many keys are worked on at a time where a Config says
// nothing.
const defaultWorkers = 5

// build makes the controller and its queue. No namespace waits for all the keys
// of another; keys without one wait in one line.
func (l *loop) build(hooks reconcile.QueueHooks) (err error) {
	l.config.Queue = reconcile.NewQueueWith(reconcile.QueueConfig[string]{Backoff: l.backoff, Tenant: namespaceOf, Hooks: hooks})
	l.Controller, err = reconcile.New(l.config)
	return err
}

// namespaceOf is the namespace of a key. Names of objects without one have none,
// and neither do the UIDs that the garbage collector goes by.
func namespaceOf(key string) string {
	namespace, _, ok := strings.Cut(key, "/")
	if !ok {
		return ""
	}
	return namespace
}

// Observe has m told of what the controller does. It is for the time between
// the making of the controller and anything else; what was enqueued before is
// forgotten.
func (l *loop) Observe(m Metrics) error {
	l.metrics = m
	l.config.Hooks = m.Controller(l.config.Name, l.config.Workers)
	return l.build(m.Queue(l.config.Name))
}

// quiet turns the errors that come from acting on an old copy, and that end
// when the copy catches up, into a plain request to try again.
func quiet(f reconcile.Reconciler[string]) reconcile.Reconciler[string] {
	return func(ctx context.Context, key string) (reconcile.Result, error) {
		result, err := f(ctx, key)
		if isStale(err) {
			return reconcile.Result{Requeue: true}, nil
		}
		return result, err
	}
}

// errStale says that the local copy is known to be behind.
var errStale = errors.New("the local copy is old")

func isStale(err error) bool {
	return errors.Is(err, errStale) || apierrors.IsConflict(err)
}

// watch has handle called for what happens in cache once the loop runs.
func watch[T any](l *loop, cache localcache.Subscriber[T], handle func(old, new T)) {
	l.subscriptions = append(l.subscriptions, func() func() { return cache.Subscribe(handle).Stop })
	l.synced = append(l.synced, cache.Synced())
}

// Run works until ctx is done and returns nil.
func (l *loop) Run(ctx context.Context) error {
	if l.metrics != nil {
		defer l.metrics.Watch(l.config.Name, l.config.Queue)()
	}
	for _, subscribe := range l.subscriptions {
		defer subscribe()()
	}
	// No decision before all copies are complete: what is not listed yet would
	// look as if it did not exist.
	for _, synced := range l.synced {
		select {
		case <-synced:
		case <-ctx.Done():
			return nil
		}
	}
	return l.Controller.Run(ctx)
}

// enqueueObject is a watch handler that enqueues the object itself.
func enqueueObject[T interface {
	comparable
	metav1.Object
}](l *loop) func(old, new T) {
	return func(old, new T) {
		var none T
		if new == none {
			new = old
		}
		l.Enqueue(key(new))
	}
}

// enqueueController is a watch handler that enqueues the owners of kind that
// control the object now or did before.
func enqueueController[T interface {
	comparable
	metav1.Object
}](l *loop, group, kind string) func(old, new T) {
	return func(old, new T) {
		var none T
		for _, object := range []T{old, new} {
			if object == none {
				continue
			}
			if owner := metav1.GetControllerOfNoCopy(object); owner != nil && isKind(owner, group, kind) {
				l.Enqueue(localcache.Key(object.GetNamespace(), owner.Name))
			}
		}
	}
}

// required fails for the first of the fields, given as name and value in turn,
// that is nil.
func required(config string, fields ...any) error {
	for i := 0; i < len(fields); i += 2 {
		if fields[i+1] == nil {
			return fmt.Errorf("controllers: %s: no %s", config, fields[i])
		}
	}
	return nil
}

// written remembers, per owner, the revisions of what was written for it.
type written struct {
	mu        sync.Mutex
	revisions map[string][]string // guarded by mu
}

func (w *written) add(owner, revision string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.revisions == nil {
		w.revisions = make(map[string][]string)
	}
	w.revisions[owner] = append(w.revisions[owner], revision)
}

// wait returns when wait has accepted all revisions written for owner.
func (w *written) wait(ctx context.Context, owner string, wait func(context.Context, string) error) error {
	for {
		w.mu.Lock()
		revisions := w.revisions[owner]
		if len(revisions) == 0 {
			delete(w.revisions, owner)
			w.mu.Unlock()
			return nil
		}
		revision := revisions[len(revisions)-1]
		w.mu.Unlock()
		if err := wait(ctx, revision); err != nil {
			return fmt.Errorf("wait for the local copy: %w", err)
		}
		w.mu.Lock()
		w.revisions[owner] = w.revisions[owner][:len(revisions)-1]
		w.mu.Unlock()
	}
}
