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

// Result tells what follows a call. With an error, which is followed by another
// call with backoff, only its Priority counts.
type Result struct {
	// Requeue asks for another call with backoff, as an error does, where nothing is
	// worth logging: a conflict, or a local copy that is known to be old.
	Requeue bool
	// After, when positive, asks for another call after this time, or earlier for
	// another reason, and goes before Requeue, as in controller-runtime. Failures are
	// forgotten.
	After time.Duration
	// Priority is that of the call asked for, also with an error. Zero is what this
	// call had.
	Priority int
}

// A Reconciler looks at what key names and takes what steps are needed. Calls
// with different keys are concurrent, calls with the same key are not. It may
// be called for a key that needs nothing, and for one that is gone. When ctx
// ends it should return soon; the step it is in may be left undone.
type Reconciler[K comparable] func(ctx context.Context, key K) (Result, error)

// Config describes a Controller. Name and Reconcile must be set.
type Config[K comparable] struct {
	// Name is what logs call the controller.
	Name      string
	Reconcile Reconciler[K]
	// Workers is how many keys are worked on at a time. Zero is 5.
	Workers int
	// Queue is where keys come from. Nil is a queue of its own.
	Queue *Queue[K]
	// Drain is how long calls under way may go on after Run's context has ended
	// before theirs ends too. Zero ends both at once. As an Elector's work it must
	// be shorter than the time between the end of that and the next leader:
	// LeaseDuration - RenewDeadline.
	Drain time.Duration
	// Log is told of failures. The zero Logger is silent.
	Log logr.Logger
	// Hooks are told of calls.
	Hooks Hooks
}

// Hooks are told what a Controller does. They are called by its workers and must
// be safe for concurrent use. The nil ones cost nothing.
type Hooks struct {
	// Began: a call begins.
	Began func()
	// Ended: it has ended, so and after so long.
	Ended func(how Outcome, took time.Duration)
}

// Outcome is how a call ended, by the words of controller-runtime's metrics.
type Outcome string

// The outcomes. A panic is an error as well.
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

// New checks config. It starts nothing.
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

// Enqueue asks for a call with key. It may be called before, while and after
// Run runs.
func (c *Controller[K]) Enqueue(key K) { c.config.Queue.Add(key) }

// EnqueueWith asks for a call with key as o says.
func (c *Controller[K]) EnqueueWith(key K, o AddOptions) { c.config.Queue.AddWith(key, o) }

// EnqueueAfter asks for a call with key after wait.
func (c *Controller[K]) EnqueueAfter(key K, wait time.Duration) { c.config.Queue.AddAfter(key, wait) }

// Run works until ctx is done and the calls under way have returned. It returns
// nil. It may be called again then, as an Elector does that leads again: the keys
// that were left are worked on first.
func (c *Controller[K]) Run(ctx context.Context) error {
	unfollow, complete := follow(ctx, c.watches)
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

// calls returns the context of the calls, which lasts Drain longer than ctx.
// Without Drain it is ctx itself: one that knows by itself that it is over, as a
// leader's does, must not be asked through another.
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

// work makes one call and returns what is to become of key.
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

// call turns a panic into an error, so that one bad object cannot stop the
// work on all others.
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
