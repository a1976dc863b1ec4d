package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const namespace = metav1.NamespaceDefault

// watcher records the state of each Deployment from two watches over the wire.
type watcher struct {
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu sync.Mutex
	// Guarded by mu, by the name of the Deployment.
	seen map[string]*rollout
	// changed is guarded by mu. It is closed, and another put in its place,
	// whenever something changes.
	changed chan struct{}
	// begun counts the watches that have begun; broken is the error that ended one. Both
	// are guarded by mu.
	begun  int
	broken error
}

// rollout holds the observed state of one Deployment.
type rollout struct {
	// pods has an entry for every pod ever seen, which is true while the pod exists.
	pods map[types.UID]bool
	live int
	// counted is the number of updated pods in the status of the Deployment.
	counted int
	deleted bool
}

// watch begins to watch the pods and Deployments of the namespace, and returns
// once both watches have begun.
func watch(ctx context.Context, api *client.Client) (*watcher, error) {
	ctx, cancel := context.WithCancel(ctx)
	w := &watcher{cancel: cancel, seen: map[string]*rollout{}, changed: make(chan struct{})}
	w.done.Go(func() { follow(ctx, w, typed.Pods(api), w.pod) })
	w.done.Go(func() { follow(ctx, w, typed.Deployments(api), w.deployment) })
	if err := w.await(ctx, func() bool { return w.begun == 2 }); err != nil {
		w.stop()
		return nil, err
	}
	return w, nil
}

func (w *watcher) stop() {
	w.cancel()
	w.done.Wait()
}

// follow tells changed of every object until ctx is done.
func follow[T client.Object](ctx context.Context, w *watcher, resource client.Resource[T], changed func(object T, exists bool)) {
	err := resource.Where(namespace, "", "").WithInitialEvents(time.Minute).Sync(ctx, "", &sink[T]{w, changed})
	w.change(func() { w.broken = errors.Join(w.broken, err) })
}

// sink is where a watch leads to.
type sink[T any] struct {
	*watcher
	changed func(object T, exists bool)
}

// Replace begins the watch. A second list is an error: it would miss deletions between
// the two, and the times would mean nothing.
func (s *sink[T]) Replace(_ string, objects []T) {
	for _, object := range objects {
		s.changed(object, true)
	}
	s.change(func() {
		if s.begun++; s.begun > 2 {
			s.broken = errors.New("a watch fell behind and began anew")
		}
	})
}

func (s *sink[T]) Put(_ string, object T)    { s.changed(object, true) }
func (s *sink[T]) Remove(_ string, object T) { s.changed(object, false) }
func (s *sink[T]) Bookmark(string)           {}

func (w *watcher) change(what func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	what()
	close(w.changed)
	w.changed = make(chan struct{})
}

// of is called with mu held.
func (w *watcher) of(deployment string) *rollout {
	if w.seen[deployment] == nil {
		w.seen[deployment] = &rollout{pods: map[types.UID]bool{}}
	}
	return w.seen[deployment]
}

func (w *watcher) pod(pod *corev1.Pod, exists bool) {
	w.change(func() {
		r := w.of(pod.Labels["app"])
		if exists == r.pods[pod.UID] {
			return
		}
		r.pods[pod.UID] = exists
		if exists {
			r.live++
		} else {
			r.live--
		}
	})
}

func (w *watcher) deployment(d *appsv1.Deployment, exists bool) {
	w.change(func() {
		r := w.of(d.Name)
		r.counted, r.deleted = int(d.Status.UpdatedReplicas), !exists
	})
}

// await waits until holds, which is called with mu held and must not block.
func (w *watcher) await(ctx context.Context, holds func() bool) error {
	for {
		w.mu.Lock()
		ok, broken, changed := holds(), w.broken, w.changed
		w.mu.Unlock()
		switch {
		case ok:
			return nil
		case broken != nil:
			return broken
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
