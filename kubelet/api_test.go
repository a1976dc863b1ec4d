package kubelet_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/planekit/planekit/localcache"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// api is the little of an API that a kubelet sees: objects with versions and
// conflicts, and a pod cache that follows at once.
type api struct {
	// pods is written to with mu held.
	pods *localcache.Map[*corev1.Pod]

	mu sync.Mutex
	// All below are guarded by mu.
	version  int
	node     *corev1.Node
	lease    *coordinationv1.Lease
	renewals int
	events   []*corev1.Event
	changed  chan struct{} // closed and replaced at every change
	down     bool
}

func newAPI() *api {
	return &api{pods: localcache.NewMap[*corev1.Pod](), changed: make(chan struct{})}
}

// touch gives the next version. The caller holds a.mu.
func (a *api) touch() string {
	a.version++
	close(a.changed)
	a.changed = make(chan struct{})
	return strconv.Itoa(a.version)
}

func podNotFound(name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, name)
}

// create stores a pod as an API server would, bound to node-1.
func (a *api) create(pod *corev1.Pod) *corev1.Pod {
	a.mu.Lock()
	defer a.mu.Unlock()
	pod = pod.DeepCopy()
	if pod.Namespace == "" {
		pod.Namespace = "default"
	}
	if pod.Spec.RestartPolicy == "" {
		pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	}
	pod.Spec.NodeName = "node-1"
	pod.UID = types.UID(fmt.Sprintf("uid-%s-%d", pod.Name, a.version))
	pod.Generation = 1
	pod.Status.Phase = corev1.PodPending
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
	pod.ResourceVersion = a.touch()
	a.pods.Put(pod)
	return pod
}

// delete asks for a pod's graceful deletion.
func (a *api) delete(name string, grace int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	old, _ := a.pods.Get("default/" + name)
	pod := old.DeepCopy()
	now := metav1.Now()
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &now, &grace
	pod.ResourceVersion = a.touch()
	a.pods.Put(pod)
}

// lose takes a pod away without any grace.
func (a *api) lose(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.touch()
	a.pods.Delete("default/" + name)
}

// await waits until the pod, nil if there is none, is as wanted.
func (a *api) await(t *testing.T, name, what string, want func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	limit := time.After(patience)
	for {
		a.mu.Lock()
		pod, _ := a.pods.Get("default/" + name)
		changed := a.changed
		a.mu.Unlock()
		if want(pod) {
			return pod
		}
		select {
		case <-changed:
		case <-limit:
			a.mu.Lock()
			defer a.mu.Unlock()
			for _, e := range a.events {
				t.Logf("event %s %s: %s", e.InvolvedObject.Name, e.Reason, e.Message)
			}
			if pod == nil {
				t.Fatalf("pod %s is not %s but gone", name, what)
			}
			t.Fatalf("pod %s is not %s: %+v", name, what, pod.Status)
		}
	}
}

// firstStatus returns the status of the first container, which is empty as long as none was reported.
func firstStatus(pod *corev1.Pod) corev1.ContainerStatus {
	if pod == nil || len(pod.Status.ContainerStatuses) == 0 {
		return corev1.ContainerStatus{}
	}
	return pod.Status.ContainerStatuses[0]
}

// The parts of the API that a kubelet writes to.
type (
	podAPI   struct{ *api }
	nodeAPI  struct{ *api }
	leaseAPI struct{ *api }
	eventAPI struct{ *api }
)

func (p podAPI) lock() error {
	p.mu.Lock()
	if p.down {
		p.mu.Unlock()
		return apierrors.NewServiceUnavailable("down")
	}
	return nil
}

func (p podAPI) Get(_ context.Context, namespace, name string) (*corev1.Pod, error) {
	if err := p.lock(); err != nil {
		return nil, err
	}
	defer p.mu.Unlock()
	if pod, ok := p.pods.Get(localcache.Key(namespace, name)); ok {
		return pod, nil
	}
	return nil, podNotFound(name)
}

func (p podAPI) UpdateStatus(_ context.Context, in *corev1.Pod) (*corev1.Pod, error) {
	if err := p.lock(); err != nil {
		return nil, err
	}
	defer p.mu.Unlock()
	old, _ := p.pods.Get(localcache.KeyOf(in))
	switch {
	case old == nil:
		return nil, podNotFound(in.Name)
	case old.ResourceVersion != in.ResourceVersion || old.UID != in.UID:
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, in.Name, fmt.Errorf("it has been modified"))
	}
	pod := old.DeepCopy()
	pod.Status = *in.Status.DeepCopy()
	pod.ResourceVersion = p.touch()
	p.pods.Put(pod)
	return pod, nil
}

func (p podAPI) Delete(_ context.Context, namespace, name string, o metav1.DeleteOptions) error {
	if err := p.lock(); err != nil {
		return err
	}
	defer p.mu.Unlock()
	old, _ := p.pods.Get(localcache.Key(namespace, name))
	switch {
	case old == nil:
		return podNotFound(name)
	case *o.Preconditions.UID != old.UID || *o.GracePeriodSeconds != 0:
		return apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, name, fmt.Errorf("another uid"))
	}
	p.touch()
	p.pods.Delete(localcache.Key(namespace, name))
	return nil
}

func (n nodeAPI) Get(_ context.Context, _, name string) (*corev1.Node, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.node == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, name)
	}
	return n.node, nil
}

func (n nodeAPI) write(in *corev1.Node) (*corev1.Node, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.node = in.DeepCopy()
	n.node.ResourceVersion = n.touch()
	return n.node, nil
}

func (n nodeAPI) Create(_ context.Context, in *corev1.Node) (*corev1.Node, error) { return n.write(in) }
func (n nodeAPI) Update(_ context.Context, in *corev1.Node) (*corev1.Node, error) { return n.write(in) }
func (n nodeAPI) UpdateStatus(_ context.Context, in *corev1.Node) (*corev1.Node, error) {
	return n.write(in)
}

func (l leaseAPI) Get(_ context.Context, _, name string) (*coordinationv1.Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lease == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, name)
	}
	return l.lease, nil
}

func (l leaseAPI) Create(_ context.Context, in *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lease = in
	l.renewals++
	l.touch()
	return in, nil
}

func (l leaseAPI) Update(ctx context.Context, in *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	return l.Create(ctx, in)
}

func (e eventAPI) Create(_ context.Context, in *corev1.Event) (*corev1.Event, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.events = append(e.events, in)
	e.touch()
	return in, nil
}

func (e eventAPI) Update(_ context.Context, in *corev1.Event) (*corev1.Event, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.events {
		if e.events[i].Name == in.Name {
			e.events[i] = in
			e.touch()
			return in, nil
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "events"}, in.Name)
}

// awaitEvent waits for an event about a pod.
func (a *api) awaitEvent(t *testing.T, pod, reason, message string) {
	t.Helper()
	limit := time.After(patience)
	for {
		a.mu.Lock()
		changed := a.changed
		var said []string
		for _, e := range a.events {
			if e.InvolvedObject.Name == pod && e.Reason == reason {
				said = append(said, e.Message)
			}
		}
		a.mu.Unlock()
		if slices.Contains(said, message) {
			return
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("no event %s about %s says %q: %q", reason, pod, message, said)
		}
	}
}
