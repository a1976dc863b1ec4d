package reconcile

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// Result describes what follows a call. An error causes another call with backoff; only Priority
// counts then.
type Result struct {
	// Requeue requests another call with backoff, like an error, but without a log entry: for
	// example after a conflict, or if the cache is known to be stale.
	Requeue bool
	// After, if positive, requests another call after this time, or earlier for another reason. It
	// takes precedence over Requeue, as in controller-runtime, and resets the failures.
	After time.Duration
	// Priority is the priority of the requested call, also after an error. Zero means the priority
	// of this call.
	Priority int
}

// A Reconciler compares the state of key with its desired state and takes the necessary steps.
// Calls with different keys are concurrent, calls with the same key are not. It may be called for a
// key that needs nothing, and for a deleted one. When ctx ends, it should return soon and may leave
// its work unfinished.
type Reconciler[K comparable] func(ctx context.Context, key K) (Result, error)

// Config configures a Controller. Name and Reconcile are required.
type Config[K comparable] struct {
	// Name is the controller's name in logs.
	Name      string
	Reconcile Reconciler[K]
	// Workers is the number of concurrent calls. Zero means 5.
	Workers int
	// Queue is the queue of keys. Nil means a new queue.
	Queue *Queue[K]
	// Drain is how long calls in progress may continue after Run's context has ended, before their
	// context ends too. Zero ends both at once. For the work of an Elector it must be shorter than
	// LeaseDuration - RenewDeadline, after which another leader may begin.
	Drain time.Duration
	// Log receives failures. The zero Logger discards them.
	Log logr.Logger
	// Hooks receives the beginning and end of calls.
	Hooks Hooks
}

// Hooks are the hooks of a Controller. Its workers call them, so they must be safe for concurrent
// use. Nil hooks have no cost.
type Hooks struct {
	// Began is called when a call begins.
	Began func()
	// Ended is called after a call with its outcome and duration.
	Ended func(how Outcome, took time.Duration)
	// Running is called when Run begins; the function it returns is called when Run ends.
	Running func() (ended func())
}

// Outcome is the result of a call, with the names of controller-runtime's metrics.
type Outcome string

// The outcomes. A panic counts as an error.
const (
	Success      Outcome = "success"
	Failure      Outcome = "error"
	Requeue      Outcome = "requeue"
	RequeueAfter Outcome = "requeue_after"
	Panic        Outcome = "panic"
)

const defaultWorkers = 5

// Controller calls a Reconciler for the keys in a Queue.
type Controller[K comparable] struct {
	config  Config[K]
	watches []watch
}

// New returns a controller. It starts nothing.
func New[K comparable](config Config[K]) (*Controller[K], error) {
	switch {
	case config.Name == "":
		return nil, errors.New("reconcile: no Name")
	case config.Reconcile == nil:
		return nil, fmt.Errorf("reconcile: %s: no Reconcile", config.Name)
	case config.Workers < 0:
		return nil, fmt.Errorf("reconcile: %s: negative Workers", config.Name)
	case config.Drain < 0:
		return nil, fmt.Errorf("reconcile: %s: negative Drain", config.Name)
	}
	if config.Workers == 0 {
		config.Workers = defaultWorkers
	}
	if config.Queue == nil {
		config.Queue = NewQueue[K](Backoff{})
	}
	config.Log = config.Log.WithValues("controller", config.Name)
	return &Controller[K]{config: config}, nil
}

// Enqueue requests a call with key. It may be called before, during and after Run.
func (c *Controller[K]) Enqueue(key K) { c.config.Queue.Add(key) }

// EnqueueWith requests a call with key and options.
func (c *Controller[K]) EnqueueWith(key K, o AddOptions) { c.config.Queue.AddWith(key, o) }

// EnqueueAfter requests a call with key after wait.
func (c *Controller[K]) EnqueueAfter(key K, wait time.Duration) { c.config.Queue.AddAfter(key, wait) }

// Run makes calls until ctx is done and the calls in progress have returned. It returns nil. It may
// then be called again, for example by an Elector that leads again; the remaining keys come first.
func (c *Controller[K]) Run(ctx context.Context) error {
	if c.config.Hooks.Running != nil {
		defer c.config.Hooks.Running()()
	}
	unfollow, complete := follow(ctx, c.config.Log, c.watches)
	defer unfollow()
	if !complete {
		return nil
	}
	calls, end := c.calls(ctx)
	defer end()
	var workers sync.WaitGroup
	for range c.config.Workers {
		workers.Go(func() {
			key, err := c.config.Queue.Get(ctx)
			for err == nil {
				is, o := c.work(calls, key)
				key, err = c.config.Queue.next(ctx, key, is, o)
			}
		})
	}
	workers.Wait()
	return nil
}

// calls returns the context of the calls, which ends Drain later than ctx. Without Drain it is ctx
// itself: the context of a leader knows its own deadline and must not be wrapped.
func (c *Controller[K]) calls(ctx context.Context) (calls context.Context, end func()) {
	if c.config.Drain == 0 {
		return ctx, func() {}
	}
	calls, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(c.config.Drain, cancel)
		context.AfterFunc(calls, func() { timer.Stop() })
	})
	return calls, func() {
		stop()
		cancel()
	}
}

// work makes one call and returns what to do with key.
func (c *Controller[K]) work(ctx context.Context, key K) (outcome, AddOptions) {
	if c.config.Hooks.Began != nil {
		c.config.Hooks.Began()
	}
	var start time.Time
	if c.config.Hooks.Ended != nil {
		start = time.Now()
	}
	result, how, err := c.call(ctx, key)
	if c.config.Hooks.Ended != nil {
		c.config.Hooks.Ended(how, time.Since(start))
	}
	if err != nil && ctx.Err() == nil {
		c.config.Log.Error(err, "reconcile failed", "key", key)
	}
	switch how {
	case Success:
		return succeeded, AddOptions{}
	case RequeueAfter:
		return again, AddOptions{Priority: result.Priority, After: result.After}
	default:
		return again, AddOptions{Priority: result.Priority, Retry: true}
	}
}

// call converts a panic to an error, so that one bad object cannot stop the work on all other keys.
func (c *Controller[K]) call(ctx context.Context, key K) (result Result, how Outcome, err error) {
	defer func() {
		if p := recover(); p != nil {
			result, how, err = Result{}, Panic, fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	result, err = c.config.Reconcile(ctx, key)
	switch {
	case err != nil:
		return result, Failure, err
	case result.After > 0:
		return result, RequeueAfter, nil
	case result.Requeue:
		return result, Requeue, nil
	}
	return result, Success, nil
}
