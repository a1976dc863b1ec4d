package mirror

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/kubelet/internal/lifecycle"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// Delays after a failed step.
	firstRetry = 200 * time.Millisecond
	lastRetry  = 10 * time.Second
	// stepTimeout bounds the requests for one pod, so that they do not hold up the others.
	stepTimeout = 30 * time.Second
	// resyncPeriod is the interval at which all static pods are checked, and the time within which
	// the cache has what was written.
	resyncPeriod = 20 * time.Second
)

// Pods reads and writes pods in the API.
type Pods interface {
	Get(ctx context.Context, namespace, name string) (*corev1.Pod, error)
	UpdateStatus(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error)
	Delete(ctx context.Context, namespace, name string, options metav1.DeleteOptions) error
}

// Config describes a Keeper. All fields but Create and Log must be set.
type Config struct {
	// Static is the cache of the static pods, and API that of the node's pods in the API.
	Static, API localcache.ReadSubscriber[*corev1.Pod]
	Pods        Pods
	// Create creates a pod. If nil, no mirror pods are created; old ones are deleted.
	Create func(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error)
	// Node reads the Node, which owns the mirror pods.
	Node func(ctx context.Context) (*corev1.Node, error)
	// Current returns a static pod with its present status.
	Current func(pod *corev1.Pod) *corev1.Pod
	// Ending reports whether a pod with that name, but another UID, is being stopped.
	Ending func(namespace, name string, uid types.UID) bool
	Log    logr.Logger
}

// Keeper creates, updates and deletes the mirror pods of a node.
type Keeper struct {
	config Config
	signal chan struct{} // of size 1

	mu sync.Mutex
	// The fields below are guarded by mu.
	due map[string]time.Time // when to look at a name
	// gone holds the UID of the last pod with a name that the cache has reported as deleted.
	gone map[string]types.UID

	// Only Run uses names.
	names map[string]*entry
}

// entry holds what Run remembers about one name.
type entry struct {
	// written is the last pod that the API has returned, at a time; it may be nil. The cache may be
	// older.
	written *corev1.Pod
	at      time.Time
	// deleted is the UID of the last pod that was deleted.
	deleted types.UID
	delay   time.Duration
	said    string // the last error
}

// New returns a Keeper. It starts nothing.
func New(c Config) *Keeper {
	return &Keeper{
		config: c, signal: make(chan struct{}, 1),
		due: map[string]time.Time{}, gone: map[string]types.UID{}, names: map[string]*entry{},
	}
}

// Notify requests a look at the static pod with that key, because its status has changed or an
// earlier one has ended.
func (k *Keeper) Notify(key string) { k.schedule(key, time.Time{}) }

func (k *Keeper) schedule(key string, at time.Time) {
	k.mu.Lock()
	if before, ok := k.due[key]; !ok || at.Before(before) {
		k.due[key] = at
	}
	k.mu.Unlock()
	select {
	case k.signal <- struct{}{}:
	default:
	}
}

// Run keeps the mirror pods up to date until ctx is done. It may be called once.
func (k *Keeper) Run(ctx context.Context) {
	static := k.config.Static.Subscribe(func(old, pod *corev1.Pod) {
		if pod == nil {
			pod = old
		}
		k.Notify(localcache.KeyOf(pod))
	})
	defer static.Stop()
	pods := k.config.API.Subscribe(k.observe)
	defer pods.Stop()
	for _, cache := range []localcache.ReadSubscriber[*corev1.Pod]{k.config.Static, k.config.API} {
		select {
		case <-cache.Synced():
		case <-ctx.Done():
			return
		}
	}
	tick := time.NewTicker(resyncPeriod)
	defer tick.Stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		key, wait, ok := k.next()
		if ok {
			k.look(ctx, key)
			continue
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-k.signal:
		case <-timer.C:
		case <-tick.C:
			for pod := range k.config.Static.All() {
				k.Notify(localcache.KeyOf(pod))
			}
		}
	}
}

// observe handles a change of a pod in the API. Most pods are neither a mirror pod nor have the name
// of a static pod.
func (k *Keeper) observe(old, pod *corev1.Pod) {
	object := pod
	if pod == nil {
		object = old
	}
	key := localcache.KeyOf(object)
	if _, static := k.config.Static.Get(key); !static && !IsMirror(object) {
		return
	}
	if old != nil && (pod == nil || pod.UID != old.UID) {
		k.mu.Lock()
		k.gone[key] = old.UID
		k.mu.Unlock()
	}
	k.Notify(key)
}

// next returns a name that is due, or the time until one is.
func (k *Keeper) next() (key string, wait time.Duration, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	wait = resyncPeriod
	for key, at := range k.due {
		if !at.After(now) {
			delete(k.due, key)
			return key, 0, true
		}
		wait = min(wait, at.Sub(now))
	}
	return "", wait, false
}

// look takes the next step for a name, and schedules another attempt if it fails.
func (k *Keeper) look(ctx context.Context, key string) {
	e := k.names[key]
	if e == nil {
		e = &entry{}
		k.names[key] = e
	}
	static, exists := k.config.Static.Get(key)
	if exists {
		static = k.config.Current(static)
	} else {
		static = nil
	}
	err := k.step(ctx, e, key, static)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		e.delay = min(max(2*e.delay, firstRetry), lastRetry)
		if text := err.Error(); text != e.said {
			e.said = text
			k.config.Log.Error(err, "mirror pod", "pod", key)
		}
		k.schedule(key, time.Now().Add(e.delay))
	default:
		e.delay, e.said = 0, ""
		if _, cached := k.config.API.Get(key); static == nil && !cached {
			k.forget(key)
		}
	}
}

// forget removes what is remembered about a name that no pod has.
func (k *Keeper) forget(key string) {
	delete(k.names, key)
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.gone, key)
}

func (k *Keeper) step(ctx context.Context, e *entry, key string, static *corev1.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	found := k.found(e, key)
	var ending bool
	switch {
	case static != nil:
		ending = k.config.Ending(static.Namespace, static.Name, static.UID)
	case found != nil:
		ending = k.config.Ending(found.Namespace, found.Name, "")
	}
	switch plan(static, found, ending) {
	case remove:
		return k.remove(ctx, e, found)
	case replace:
		if err := k.remove(ctx, e, found); err != nil {
			return err
		}
		return k.create(ctx, e, static)
	case create:
		return k.create(ctx, e, static)
	case report:
		return k.report(ctx, e, static, found)
	case blocked:
		return fmt.Errorf("a pod that is not a mirror pod has the name of the static pod %s", key)
	}
	return nil
}

// found returns the pod with the name in the API, which is the cached one unless a newer one was
// written; nil if there is none.
func (k *Keeper) found(e *entry, key string) *corev1.Pod {
	cached, ok := k.config.API.Get(key)
	if !ok || cached.UID == e.deleted {
		cached = nil
	}
	k.mu.Lock()
	gone := k.gone[key]
	k.mu.Unlock()
	w := e.written
	if w == nil || w.UID == gone || time.Since(e.at) > resyncPeriod ||
		cached != nil && (cached.UID != w.UID || cached.DeletionTimestamp != nil || cached.ResourceVersion == w.ResourceVersion) {
		e.written = nil
		return cached
	}
	return w
}

// remove deletes a mirror pod at once, but not another pod with the same name.
func (k *Keeper) remove(ctx context.Context, e *entry, pod *corev1.Pod) error {
	now := int64(0)
	err := k.config.Pods.Delete(ctx, pod.Namespace, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &pod.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	e.written, e.deleted = nil, pod.UID
	return nil
}

// create creates the mirror pod of a static pod, and writes its status.
func (k *Keeper) create(ctx context.Context, e *entry, static *corev1.Pod) error {
	if k.config.Create == nil {
		return nil
	}
	node, err := k.config.Node(ctx)
	if err != nil {
		return fmt.Errorf("get node: %w", err)
	}
	if node.DeletionTimestamp != nil {
		return fmt.Errorf("node %s is being deleted", node.Name)
	}
	pod, err := k.config.Create(ctx, mirrorOf(static, node))
	if apierrors.IsAlreadyExists(err) {
		// An earlier request may have succeeded although it returned an error.
		live, getErr := k.config.Pods.Get(ctx, static.Namespace, static.Name)
		if getErr == nil && Shows(live, static) && live.DeletionTimestamp == nil {
			pod, err = live, nil
		}
	}
	if err != nil {
		return fmt.Errorf("create pod %s/%s: %w", static.Namespace, static.Name, err)
	}
	e.written, e.at = pod, time.Now()
	return k.report(ctx, e, static, pod)
}

// mirrorOf returns the mirror pod of a static pod.
func mirrorOf(static *corev1.Pod, node *corev1.Node) *corev1.Pod {
	pod := static.DeepCopy()
	pod.UID, pod.Status = "", corev1.PodStatus{}
	pod.Annotations[corev1.MirrorPodAnnotationKey] = pod.Annotations[annotationHash]
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, Controller: new(true)}}
	return pod
}

// maxConflicts is the number of consecutive conflicts that a write may have.
const maxConflicts = 5

// report writes the status of a static pod into its mirror pod. A mirror pod that is gone is created
// again when the cache reports that.
func (k *Keeper) report(ctx context.Context, e *entry, static, pod *corev1.Pod) error {
	for range maxConflicts {
		next := *pod
		next.Status = lifecycle.MergeStatus(&pod.Status, &static.Status, time.Now())
		SetScheduled(&next.Status, static.Status.StartTime)
		if equality.Semantic.DeepEqual(&next.Status, &pod.Status) {
			return nil
		}
		written, err := k.config.Pods.UpdateStatus(ctx, &next)
		if err == nil {
			e.written, e.at = written, time.Now()
			return nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return fmt.Errorf("update status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		live, err := k.config.Pods.Get(ctx, pod.Namespace, pod.Name)
		if apierrors.IsNotFound(err) || err == nil && live.UID != pod.UID {
			e.written, e.deleted = nil, pod.UID
			k.Notify(localcache.KeyOf(pod))
			return nil
		}
		if err != nil {
			return fmt.Errorf("get pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		e.written, e.at, pod = live, time.Now(), live
	}
	return fmt.Errorf("update status of pod %s/%s: conflict after conflict", pod.Namespace, pod.Name)
}

// SetScheduled adds the condition that a scheduler sets on other pods.
func SetScheduled(status *corev1.PodStatus, since *metav1.Time) {
	for _, c := range status.Conditions {
		if c.Type == corev1.PodScheduled {
			return
		}
	}
	c := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}
	if since != nil {
		c.LastTransitionTime = *since
	}
	status.Conditions = append(status.Conditions, c)
}
