package main

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/planekit/planekit/informer"
	"github.com/planekit/planekit/reconcile/controllers"
	corev1 "k8s.io/api/core/v1"
)

// planekit is a local copy made by this module.
type planekit struct {
	inf    *informer.Informer[*corev1.Pod]
	byNode *informer.Index[string, *corev1.Pod]
	cancel context.CancelFunc
	done   chan error
}

// feed is a Source of a list and of changes.
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

// newPlanekit makes a cache as a cluster does, with the two indexes that the other
// side has.
func newPlanekit(source informer.Source[*corev1.Pod]) (*planekit, error) {
	inf, err := informer.For(source)
	if err != nil {
		return nil, err
	}
	informer.NewIndex(inf, controllers.ByNamespace[*corev1.Pod])
	return &planekit{inf: inf, byNode: informer.NewIndex(inf, controllers.ByNode), done: make(chan error, 1)}, nil
}

// start runs the copy until stop and waits for the first list.
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

// follow adds handlers that count; told is done when each has been told of last.
func (p *planekit) follow(handlers int, last string) (told *sync.WaitGroup, calls *atomic.Int64) {
	told, calls = new(sync.WaitGroup), new(atomic.Int64)
	told.Add(handlers)
	for range handlers {
		n := int64(0)
		<-p.inf.Subscribe(func(_, pod *corev1.Pod) {
			n++
			if pod.ResourceVersion == last {
				calls.Add(n)
				told.Done()
			}
		}).CaughtUp
	}
	return told, calls
}
