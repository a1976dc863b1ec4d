package kubelet

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/planekit/planekit/kubelet/internal/lifecycle"
	"github.com/planekit/planekit/kubelet/internal/mirror"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// standalone reports whether the kubelet works without an API server.
func (c *Config) standalone() bool {
	return c.StaticPods != nil && c.Pods == nil && c.PodStatus == nil && c.Nodes == nil && c.Leases == nil
}

// sources joins the pods of the API with the static pods, which win. Mirror pods are hidden: they
// show static pods, and no kubelet runs them.
func (k *Kubelet) sources() {
	c := k.config
	static, api := c.StaticPods, c.Pods
	if static == nil {
		static = localcache.NewMap[*corev1.Pod]()
	}
	if api == nil {
		api = localcache.NewMap[*corev1.Pod]()
	}
	k.pods = localcache.NewOverlay(static, api, localcache.KeyOf[*corev1.Pod], mirror.IsMirror)
	if c.standalone() {
		return
	}
	k.mirrors = mirror.New(mirror.Config{
		Static: static, API: api, Pods: c.PodStatus, Create: c.CreatePod, Log: k.log,
		Node:    func(ctx context.Context) (*corev1.Node, error) { return c.Nodes.Get(ctx, "", c.NodeName) },
		Current: k.withStatus, Ending: k.ending,
	})
}

// withStatus returns a static pod with its present status, and other pods as they are.
func (k *Kubelet) withStatus(pod *corev1.Pod) *corev1.Pod {
	if !mirror.IsStatic(pod) {
		return pod
	}
	k.mu.Lock()
	w := k.workers[pod.UID]
	k.mu.Unlock()
	if w != nil {
		pod, _ = w.current()
	}
	return pod
}

// ending reports whether a pod with that name, but not with that UID or no longer in a cache, is
// being stopped.
func (k *Kubelet) ending(namespace, name string, uid podUID) bool {
	k.mu.Lock()
	workers := slices.Collect(maps.Values(k.workers))
	k.mu.Unlock()
	return slices.ContainsFunc(workers, func(w *worker) bool {
		pod, gone := w.current()
		return pod.Namespace == namespace && pod.Name == name && (gone || pod.UID != uid)
	})
}

// ended wakes the pod that waits for an earlier one with its name, and updates their mirror pod.
func (k *Kubelet) ended(pod *corev1.Pod) {
	key := localcache.KeyOf(pod)
	if k.mirrors != nil {
		k.mirrors.Notify(key)
	}
	if next, ok := k.pods.Get(key); ok {
		k.wake(next.UID)
	}
}

// mustWait reports whether a static pod must wait until an earlier one with its name has ended. Both
// may use the same ports and directories of the node.
func (w *worker) mustWait(pod *corev1.Pod) bool {
	return mirror.IsStatic(pod) && w.kubelet.ending(pod.Namespace, pod.Name, pod.UID)
}

// remember keeps the status of a static pod, whose source has none, and shows it in its mirror pod.
func (w *worker) remember(status corev1.PodStatus) {
	w.mu.Lock()
	next := *w.pod
	next.Status = lifecycle.MergeStatus(&w.pod.Status, &status, time.Now())
	mirror.SetScheduled(&next.Status, next.Status.StartTime)
	changed := !equality.Semantic.DeepEqual(&next.Status, &w.pod.Status)
	if changed {
		w.pod = &next
	}
	w.mu.Unlock()
	if changed && w.kubelet.mirrors != nil {
		w.kubelet.mirrors.Notify(localcache.KeyOf(&next))
	}
}

// newer returns the next version of a pod. That of a static pod has the status of the last one.
func newer(old, pod *corev1.Pod) *corev1.Pod {
	if old == pod || !mirror.IsStatic(pod) {
		return pod
	}
	next := *pod
	next.Status = old.Status
	return &next
}

// Pods returns the pods that this kubelet runs, for its server: those of the API and the static pods
// with their status, without mirror pods.
func (k *Kubelet) Pods() localcache.Reader[*corev1.Pod] { return podView{k} }

type podView struct{ kubelet *Kubelet }

func (v podView) Get(key string) (*corev1.Pod, bool) {
	pod, ok := v.kubelet.pods.Get(key)
	if !ok {
		return nil, false
	}
	return v.kubelet.withStatus(pod), true
}

func (v podView) All() iter.Seq[*corev1.Pod] {
	return func(yield func(*corev1.Pod) bool) {
		for pod := range v.kubelet.pods.All() {
			if !yield(v.kubelet.withStatus(pod)) {
				return
			}
		}
	}
}

// MirrorUID returns the UID that the mirror pod of a static pod has in the API; false if there is
// none.
func (k *Kubelet) MirrorUID(static *corev1.Pod) (uid podUID, ok bool) {
	if k.config.Pods == nil || !mirror.IsStatic(static) {
		return "", false
	}
	found, ok := k.config.Pods.Get(localcache.KeyOf(static))
	if !ok || !mirror.Shows(found, static) {
		return "", false
	}
	return found.UID, true
}

// follow starts the loops that run pods. Their subscription must be stopped before group is waited
// for.
func (k *Kubelet) follow(ctx context.Context, group *sync.WaitGroup) localcache.Subscription {
	subscription := k.pods.Subscribe(func(old, pod *corev1.Pod) {
		if old != nil && (pod == nil || pod.UID != old.UID) {
			k.podGone(old)
		}
		k.config.Meters.meterResize(old, pod)
		k.allocations.PodChanged(old, pod)
		if pod != nil {
			k.podChanged(ctx, group, pod)
		}
	})
	group.Go(func() { k.lister.Run(ctx) })
	group.Go(func() { k.lister.Follow(ctx) })
	group.Go(func() { k.evictor.run(ctx) })
	group.Go(func() { k.cpus.Run(ctx) })
	group.Go(func() { k.allocations.Run(ctx) })
	if k.collector != nil {
		group.Go(func() { k.collector.Run(ctx) })
	}
	if k.rotator != nil {
		group.Go(func() { k.rotator.Run(ctx) })
	}
	return subscription
}
