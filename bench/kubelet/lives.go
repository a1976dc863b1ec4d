package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane/caches"
)

const namespace = metav1.NamespaceDefault

// lives are the times of pods.
type lives struct{ starts, stops []time.Duration }

// watcher records when pods become ready and when they are gone.
type watcher struct {
	pods   client.Resource[*corev1.Pod]
	cancel context.CancelFunc
	done   chan error
	next   int // the number of the next pod

	mu sync.Mutex
	// mu guards the pods that are waited for, by name.
	waiting map[string]*life
}

// life is one pod.
type life struct {
	began, ready time.Time
	isReady      chan struct{}
	isGone       chan struct{}
	gone         time.Time
}

// watch begins to watch the pods of all nodes.
func watch(ctx context.Context, api *client.Client) (*watcher, error) {
	ctx, cancel := context.WithCancel(ctx)
	w := &watcher{pods: typed.Pods(api), cancel: cancel, done: make(chan error, 1), waiting: map[string]*life{}}
	pods, err := caches.Of(w.pods, logr.Discard())
	if err != nil {
		cancel()
		return nil, err
	}
	pods.Subscribe(w.see)
	go func() { w.done <- pods.Run(ctx) }()
	<-pods.Synced()
	return w, nil
}

func (w *watcher) stop() {
	w.cancel()
	<-w.done
}

// see is called for each change of a pod.
func (w *watcher) see(old, pod *corev1.Pod) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case pod == nil:
		if l := w.waiting[old.Name]; l != nil && l.gone.IsZero() {
			l.gone = now
			close(l.isGone)
		}
	case isReady(pod):
		if l := w.waiting[pod.Name]; l != nil && l.ready.IsZero() {
			l.ready = now
			close(l.isReady)
		}
	}
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// patience bounds the life of a pod.
const patience = 2 * time.Minute

// trapping is how long pods run, so that their shells are ready to get TERM.
const trapping = time.Second

// live starts pods on a node at once, stops them at once when all are ready, and adds their times.
func (w *watcher) live(ctx context.Context, n *node, pods int, times *lives) error {
	names, err := w.start(ctx, n, pods, times)
	time.Sleep(trapping)
	return errors.Join(err, w.end(ctx, names, times))
}

// start creates pods at once and waits until they are ready.
func (w *watcher) start(ctx context.Context, n *node, pods int, times *lives) (names []string, err error) {
	var group sync.WaitGroup
	errs := make([]error, pods)
	for i := range pods {
		name := fmt.Sprintf("%s-%d", n.kind, w.next)
		w.next++
		names = append(names, name)
		group.Go(func() {
			l := &life{began: time.Now(), isReady: make(chan struct{}), isGone: make(chan struct{})}
			w.mu.Lock()
			w.waiting[name] = l
			w.mu.Unlock()
			if _, errs[i] = w.pods.Create(ctx, podOn(n, name)); errs[i] == nil {
				errs[i] = await(ctx, l.isReady, name+" is ready")
			}
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return names, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range names {
		l := w.waiting[name]
		times.starts = append(times.starts, l.ready.Sub(l.began))
	}
	return names, nil
}

// end deletes pods at once and waits until they are gone.
func (w *watcher) end(ctx context.Context, names []string, times *lives) error {
	var group sync.WaitGroup
	errs, took := make([]error, len(names)), make([]time.Duration, len(names))
	for i, name := range names {
		group.Go(func() {
			w.mu.Lock()
			l := w.waiting[name]
			w.mu.Unlock()
			began := time.Now()
			if errs[i] = w.pods.Delete(ctx, namespace, name, metav1.DeleteOptions{}); errs[i] == nil {
				errs[i] = await(ctx, l.isGone, name+" is gone")
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			took[i] = l.gone.Sub(began)
			delete(w.waiting, name)
		})
	}
	group.Wait()
	times.stops = append(times.stops, took...)
	return errors.Join(errs...)
}

func await(ctx context.Context, done <-chan struct{}, what string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait until %s: %w", what, ctx.Err())
	}
}

// command ends at once when it gets TERM.
var command = []string{"sh", "-c", "trap 'exit 0' TERM; while :; do sleep 100000 & wait; done"}

// podOn returns a pod whose container runs command.
func podOn(n *node, name string) *corev1.Pod {
	no := false
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			NodeName: n.kind, HostNetwork: true, AutomountServiceAccountToken: &no,
			Containers: []corev1.Container{{
				Name: "c", Image: "busybox", ImagePullPolicy: corev1.PullIfNotPresent,
				Command: command,
			}},
		},
	}
}

// usage holds the memory and the processor time of an idle kubelet.
type usage struct {
	resident float64 // MiB
	cpu      time.Duration
}

// rest measures the kubelet of a node with many pods to which nothing happens.
func (w *watcher) rest(ctx context.Context, n *node, o options) (u usage, err error) {
	names, err := w.start(ctx, n, o.idle, &lives{})
	if err == nil {
		u, err = n.usage(ctx, o.rest)
	}
	return u, errors.Join(err, w.end(ctx, names, &lives{}))
}

// usage measures the kubelet for a time, after an equally long one in which it settles.
func (n *node) usage(ctx context.Context, long time.Duration) (u usage, err error) {
	var before time.Duration
	for range 2 {
		if before, err = n.kubelet.CPU(); err != nil {
			return u, err
		}
		select {
		case <-time.After(long):
		case <-ctx.Done():
			return u, ctx.Err()
		}
	}
	after, err := n.kubelet.CPU()
	if err != nil {
		return u, err
	}
	u.cpu = after - before
	u.resident, err = n.kubelet.Resident()
	return u, err
}
