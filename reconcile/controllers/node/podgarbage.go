package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/internal/loop"
	"github.com/planekit/planekit/reconcile/controllers/internal/optional"
	"github.com/planekit/planekit/reconcile/controllers/internal/podstatus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PodGarbageConfig configures a PodGarbage. Pods, Nodes, NodeReader and Writer are required.
type PodGarbageConfig struct {
	Pods  localcache.Cache[*corev1.Pod]
	Nodes localcache.Cache[*corev1.Node]
	// NodeReader reads a node from the API, not from a cache.
	NodeReader interface {
		Get(ctx context.Context, namespace, name string) (*corev1.Node, error)
	}
	Writer PodEnder
	// Ended is the number of ended pods to keep. Zero means 12500; a negative number keeps all.
	Ended int
	// Quarantine is how long a node must be missing before the controller asks the API whether it
	// is deleted. Zero means 40 s.
	Quarantine time.Duration
	// Workers is the number of pods processed concurrently. Zero means 5.
	Workers int
	// Metrics receives the measurements of the queue and the workers. Nil means none.
	Metrics controllers.Metrics
	// Log receives failures. The zero Logger discards them.
	Log logr.Logger
}

const (
	// keepEnded is the terminated pod threshold of Kubernetes.
	keepEnded = 12500
	// nodeQuarantine is how long Kubernetes waits for a missing node.
	nodeQuarantine = 40 * time.Second
)

// PodGarbage deletes pods that would otherwise never end: those bound to nodes that no longer
// exist, those deleted before they were bound, and those being deleted on a node that an
// administrator has declared out of service. It also deletes the oldest ended pods if there are too
// many. It marks a pod as failed before it deletes it, so that controllers that count pods see how
// it ended.
type PodGarbage struct {
	*reconcile.Controller[string]
	config PodGarbageConfig

	// mu guards missing, the times since when nodes are missing, and ended, the pods that have
	// ended. ended is a set, so that a repeated change counts once.
	mu      sync.Mutex
	missing map[string]time.Time
	ended   map[types.UID]struct{}
}

// endedKey is the key of all pods that have ended. No pod has it.
const endedKey = "/ended"

// NewPodGarbage returns a controller, or an error if config lacks a required field. It starts
// nothing.
func NewPodGarbage(config PodGarbageConfig) (*PodGarbage, error) {
	err := loop.Required("node: PodGarbageConfig", "Pods", config.Pods, "Nodes", config.Nodes,
		"NodeReader", config.NodeReader, "Writer", config.Writer)
	if err != nil {
		return nil, err
	}
	if config.Quarantine < 0 {
		return nil, errors.New("node: PodGarbageConfig: negative Quarantine")
	}
	if config.Quarantine == 0 {
		config.Quarantine = nodeQuarantine
	}
	if config.Ended == 0 {
		config.Ended = keepEnded
	}
	c := &PodGarbage{config: config, missing: make(map[string]time.Time), ended: make(map[types.UID]struct{})}
	if c.Controller, err = loop.New(loop.Config{Name: "podgarbage", Workers: config.Workers, Log: config.Log, Metrics: config.Metrics}, c.reconcile); err != nil {
		return nil, err
	}
	reconcile.WatchFunc(c.Controller, config.Pods, c.podChanged)
	reconcile.WatchFunc(c.Controller, config.Nodes, c.nodeChanged)
	return c, nil
}

func (c *PodGarbage) podChanged(old, new *corev1.Pod) {
	if new != nil && (old == nil || old.Spec.NodeName != new.Spec.NodeName || old.DeletionTimestamp == nil && new.DeletionTimestamp != nil) {
		c.Enqueue(localcache.KeyOf(new))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old != nil {
		delete(c.ended, old.UID)
	}
	if new != nil && podstatus.Ended(new) {
		c.ended[new.UID] = struct{}{}
	}
	if c.config.Ended >= 0 && len(c.ended) > c.config.Ended {
		c.Enqueue(endedKey)
	}
}

// nodeChanged enqueues the pods of a node that is deleted or out of service.
func (c *PodGarbage) nodeChanged(old, new *corev1.Node) {
	if new != nil {
		c.mu.Lock()
		delete(c.missing, new.Name)
		c.mu.Unlock()
		if !outOfService(new) || old != nil && outOfService(old) {
			return
		}
		old = new
	}
	for pod := range c.config.Pods.All() {
		if pod.Spec.NodeName == old.Name {
			c.Enqueue(localcache.KeyOf(pod))
		}
	}
}

// outOfService reports whether a node is not ready and an administrator has made sure that nothing
// runs on it.
func outOfService(node *corev1.Node) bool {
	if r := nodeReady(node); r != nil && r.Status == corev1.ConditionTrue {
		return false
	}
	for _, t := range node.Spec.Taints {
		if t.Key == corev1.TaintNodeOutOfService {
			return true
		}
	}
	return false
}

func (c *PodGarbage) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	if key == endedKey {
		return reconcile.Result{}, c.thinOut(ctx)
	}
	pod, ok := c.config.Pods.Get(key)
	if !ok || pod.DeletionTimestamp != nil && optional.Value(pod.DeletionGracePeriodSeconds, 1) == 0 && podstatus.Ended(pod) {
		return reconcile.Result{}, nil
	}
	if pod.Spec.NodeName == "" {
		if pod.DeletionTimestamp == nil {
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, c.remove(ctx, pod, nil)
	}
	if node, ok := c.config.Nodes.Get(pod.Spec.NodeName); ok {
		if pod.DeletionTimestamp == nil || !outOfService(node) {
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, c.remove(ctx, pod, nil)
	}
	if wait := c.quarantine(pod.Spec.NodeName, time.Now()); wait > 0 {
		return reconcile.Result{After: wait}, nil
	}
	if _, err := c.config.NodeReader.Get(ctx, "", pod.Spec.NodeName); !apierrors.IsNotFound(err) {
		if err != nil {
			return reconcile.Result{}, fmt.Errorf("node %s of pod %s: %w", pod.Spec.NodeName, key, err)
		}
		return reconcile.Result{Requeue: true}, nil // on its way to the copy
	}
	return reconcile.Result{}, c.remove(ctx, pod, podstatus.Disruption(pod, "DeletionByPodGC", "PodGC: node no longer exists"))
}

// quarantine returns how long to wait for a node that is missing in the cache.
func (c *PodGarbage) quarantine(node string, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	since, ok := c.missing[node]
	if !ok {
		// Old entries are of nodes whose pods no longer exist.
		maps.DeleteFunc(c.missing, func(_ string, t time.Time) bool { return now.Sub(t) > 10*c.config.Quarantine })
		c.missing[node], since = now, now
	}
	return since.Add(c.config.Quarantine).Sub(now)
}

// remove marks a pod as failed, with condition if there is one, and deletes it.
func (c *PodGarbage) remove(ctx context.Context, pod *corev1.Pod, condition *corev1.PodCondition) error {
	if !podstatus.Ended(pod) {
		status := *pod.Status.DeepCopy()
		status.Phase, status.ObservedGeneration = corev1.PodFailed, pod.Generation
		if condition != nil {
			podstatus.SetCondition(&status, *condition, metav1.Now())
		}
		if err := podstatus.Patch(ctx, c.config.Writer, pod, status); apierrors.IsNotFound(err) {
			return nil
		} else if err != nil {
			return err
		}
	}
	// Without a grace period, because no kubelet could confirm the end.
	err := c.config.Writer.Delete(ctx, pod.Namespace, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{UID: &pod.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete pod %s: %w", localcache.KeyOf(pod), err)
	}
	return nil
}

// thinOut deletes the ended pods beyond the maximum.
func (c *PodGarbage) thinOut(ctx context.Context) error {
	var all []*corev1.Pod
	for pod := range c.config.Pods.All() {
		if podstatus.Ended(pod) {
			all = append(all, pod)
		}
	}
	for _, pod := range planThinning(all, c.config.Ended) {
		if err := c.remove(ctx, pod, nil); err != nil {
			return err
		}
	}
	return nil
}
