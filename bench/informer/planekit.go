package main

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/planekit/planekit/informer"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/node"
	corev1 "k8s.io/api/core/v1"
)

// planekit is a cache of this module.
type planekit struct {
	inf    *informer.Informer[*corev1.Pod]
	byNode *informer.Index[string, *corev1.Pod]
	cancel context.CancelFunc
	done   chan error
}

// feed is a Source with a list and changes.
type feed struct {
	list    []*corev1.Pod
	changes chan []*corev1.Pod
}

func (f *feed) Sync(ctx context.Context, _ string, sink informer.Sink[*corev1.Pod]) error {
	sink.Replace(strconv.Itoa(len(f.list)), f.list)
	for {
		select {
		case pods := <-f.changes:
			for _, p := range pods {
				sink.Put(p.ResourceVersion, p)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// newPlanekit returns a cache like those of a cluster, with the two indexes of the other side.
func newPlanekit(source informer.Source[*corev1.Pod]) (*planekit, error) {
	inf, err := informer.For(source)
	if err != nil {
		return nil, err
	}
	informer.NewIndex(inf, controllers.ByNamespace[*corev1.Pod])
	return &planekit{inf: inf, byNode: informer.NewIndex(inf, node.ByNode), done: make(chan error, 1)}, nil
}

// start runs the cache until stop and waits for the first list.
func (p *planekit) start() {
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	go func() { p.done <- p.inf.Run(ctx) }()
	<-p.inf.Synced()
}

func (p *planekit) stop() {
	p.cancel()
	<-p.done
}

// follow adds handlers that count their calls. received is done when each has received last.
func (p *planekit) follow(handlers int, last string) (received *sync.WaitGroup, calls *atomic.Int64) {
	received, calls = new(sync.WaitGroup), new(atomic.Int64)
	received.Add(handlers)
	for range handlers {
		n := int64(0)
		<-p.inf.Subscribe(func(_, pod *corev1.Pod) {
			n++
			if pod.ResourceVersion == last {
				calls.Add(n)
				received.Done()
			}
		}).CaughtUp
	}
	return received, calls
}
