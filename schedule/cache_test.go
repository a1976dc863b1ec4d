package schedule_test

import (
	"iter"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// objects is a Cache that tests write to. Subscribers are called by the writer.
type objects[T comparable] struct {
	key func(T) string

	mu     sync.Mutex
	all    map[string]T
	subs   map[int]func(old, new T)
	next   int
	synced chan struct{}
}

func newObjects[T comparable](key func(T) string) *objects[T] {
	synced := make(chan struct{})
	close(synced)
	return &objects[T]{key: key, all: make(map[string]T), subs: make(map[int]func(old, new T)), synced: synced}
}

func (o *objects[T]) Synced() <-chan struct{} { return o.synced }

func (o *objects[T]) All() iter.Seq[T] {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Values(maps.Clone(o.all))
}

func (o *objects[T]) Subscribe(f func(old, new T)) (stop func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := o.next
	o.next++
	o.subs[n] = f
	var zero T
	for _, v := range o.all {
		f(zero, v)
	}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.subs, n)
	}
}

// put adds or replaces an object.
func (o *objects[T]) put(v T) {
	o.mu.Lock()
	defer o.mu.Unlock()
	old := o.all[o.key(v)]
	o.all[o.key(v)] = v
	for _, f := range o.subs {
		f(old, v)
	}
}

func (o *objects[T]) get(key string) T {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all[key]
}

func (o *objects[T]) remove(key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	old, ok := o.all[key]
	if !ok {
		return
	}
	delete(o.all, key)
	var zero T
	for _, f := range o.subs {
		f(old, zero)
	}
}

func newNodes() *objects[*corev1.Node] {
	return newObjects(func(n *corev1.Node) string { return n.Name })
}

func newPods() *objects[*corev1.Pod] {
	return newObjects(func(p *corev1.Pod) string { return p.Namespace + "/" + p.Name })
}

// node returns a node with room for pods.
func node(name, cpu, memory, pods string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
			corev1.ResourcePods: resource.MustParse(pods),
		}},
	}
}

// pod returns a pod in the namespace default.
func pod(name, cpu, memory string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)},
		Spec: corev1.PodSpec{
			SchedulerName: "default-scheduler",
			Containers:    []corev1.Container{container(cpu, memory)},
		},
	}
}

// container returns a container; "" requests nothing.
func container(cpu, memory string) corev1.Container {
	requests := corev1.ResourceList{}
	if cpu != "" {
		requests[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		requests[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	return corev1.Container{Name: "c", Resources: corev1.ResourceRequirements{Requests: requests}}
}

// on returns p as it is on a node.
func on(p *corev1.Pod, node string) *corev1.Pod {
	p = p.DeepCopy()
	p.Spec.NodeName = node
	return p
}
