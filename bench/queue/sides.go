package main

import (
	"context"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/reconcile"
	"github.com/planekit/planekit/reconcile/metrics"
	"k8s.io/client-go/util/workqueue"
	_ "k8s.io/component-base/metrics/prometheus/workqueue" // client-go's named queues report to it
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// queue has the common methods of the three.
type queue interface {
	add(key string)
	retry(key string)
	forget(key string)
	// get waits for a key; ok is false once stop was called.
	get() (key string, ok bool)
	done(key string)
	// cycle adds each of keys, gets one and does it, with direct calls as in a program: calls
	// through this interface would cost as much as a lock.
	cycle(keys []string)
	len() int
	stop()
}

// side is one kind of queue. With metrics it reports to Prometheus, as in every program of
// Kubernetes; controller-runtime's always does.
type side struct {
	name string
	open func(metrics bool) queue
}

// sides returns the sides in the order of the table's columns, planekit first.
func sides() []side {
	told := metrics.New()
	return []side{
		{"planekit", func(metrics bool) queue {
			ctx, cancel := context.WithCancel(context.Background())
			config := reconcile.QueueConfig[string]{}
			if metrics {
				config.Hooks = told.Queue(name)
			}
			return &ours{reconcile.NewQueueWith(config), ctx, cancel}
		}},
		{"client-go", func(metrics bool) queue {
			limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryMin, retryMax)
			config := workqueue.TypedRateLimitingQueueConfig[string]{}
			if metrics {
				config.Name = name
			}
			return clientGo{workqueue.NewTypedRateLimitingQueueWithConfig(limiter, config)}
		}},
		{"controller-runtime", func(bool) queue {
			return clientGo{priorityqueue.New(name, func(o *priorityqueue.Opts[string]) { o.Log = logr.Discard() })}
		}},
	}
}

const name = "bench"

type ours struct {
	*reconcile.Queue[string]
	ctx    context.Context
	cancel context.CancelFunc
}

func (q *ours) add(key string)    { q.Add(key) }
func (q *ours) retry(key string)  { q.Retry(key) }
func (q *ours) forget(key string) { q.Forget(key) }
func (q *ours) done(key string)   { q.Done(key) }
func (q *ours) len() int          { return q.Len() }
func (q *ours) stop()             { q.cancel() }

func (q *ours) get() (string, bool) {
	key, err := q.Get(q.ctx)
	return key, err == nil
}

func (q *ours) cycle(keys []string) {
	for _, key := range keys {
		q.Add(key)
		got, _ := q.Get(q.ctx)
		q.Done(got)
	}
}

// clientGo is client-go's queue, or controller-runtime's, which has the same methods.
type clientGo struct {
	workqueue.TypedRateLimitingInterface[string]
}

func (q clientGo) add(key string)    { q.Add(key) }
func (q clientGo) retry(key string)  { q.AddRateLimited(key) }
func (q clientGo) forget(key string) { q.Forget(key) }
func (q clientGo) done(key string)   { q.Done(key) }
func (q clientGo) len() int          { return q.Len() }
func (q clientGo) stop()             { q.ShutDown() }

func (q clientGo) get() (string, bool) {
	key, shutdown := q.Get()
	return key, !shutdown
}

func (q clientGo) cycle(keys []string) {
	for _, key := range keys {
		q.Add(key)
		got, _ := q.Get()
		q.Done(got)
	}
}
