package controllers

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/reconcile"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PodsByNode finds pods by the name of their node, as [ByNode] tells it.
type PodsByNode interface {
	Get(node string) iter.Seq[*corev1.Pod]
}

// ByNode is the key function of a [PodsByNode] index.
func ByNode(pod *corev1.Pod) []string {
	if pod.Spec.NodeName == "" {
		return nil
	}
	return []string{pod.Spec.NodeName}
}

// TaintEvictionConfig joins a TaintEviction controller to its surroundings. The
// first four fields must be set.
type TaintEvictionConfig struct {
	Pods       Cache[*corev1.Pod]
	Nodes      Cache[*corev1.Node]
	PodsByNode PodsByNode
	Writer     PodEnder
	// Events may be nil.
	Events Events
	// Workers is how many pods are looked at at a time. Zero is 5.
	Workers int
	Log     logr.Logger
}

// TaintEviction deletes pods that do not tolerate the NoExecute taints of their
// node, or not any longer.
//
// How long a taint has been there is told from when this process first saw the
// pod under it, by this process's clock. A new process begins anew, so a pod
// may stay longer than it tolerates, but is never deleted before.
type TaintEviction struct {
	*loop
	config TaintEvictionConfig

	// mu guards since: from when the toleration of a pod counts.
	mu    sync.Mutex
	since map[types.UID]time.Time
}

// NewTaintEviction checks config. It starts nothing.
func NewTaintEviction(config TaintEvictionConfig) (*TaintEviction, error) {
	err := required("TaintEvictionConfig", "Pods", config.Pods, "Nodes", config.Nodes,
		"PodsByNode", config.PodsByNode, "Writer", config.Writer)
	if err != nil {
		return nil, err
	}
	if config.Events == nil {
		config.Events = noEvents{}
	}
	c := &TaintEviction{config: config, since: make(map[types.UID]time.Time)}
	if c.loop, err = newLoop("tainteviction", config.Workers, config.Log, reconcile.Backoff{}, c.reconcile); err != nil {
		return nil, err
	}
	watch(c.loop, config.Pods, c.podChanged)
	watch(c.loop, config.Nodes, func(old, new *corev1.Node) {
		if new == nil || old != nil && equality.Semantic.DeepEqual(noExecute(old), noExecute(new)) {
			return
		}
		for pod := range config.PodsByNode.Get(new.Name) {
			c.Enqueue(key(pod))
		}
	})
	return c, nil
}

func (c *TaintEviction) podChanged(old, new *corev1.Pod) {
	if new == nil {
		c.forget(old.UID)
		return
	}
	if old == nil || old.Spec.NodeName != new.Spec.NodeName || !equality.Semantic.DeepEqual(old.Spec.Tolerations, new.Spec.Tolerations) {
		c.Enqueue(key(new))
	}
}

// forget reports whether an eviction had been planned.
func (c *TaintEviction) forget(pod types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, planned := c.since[pod]
	delete(c.since, pod)
	return planned
}

// passed is how long it has been since the toleration of a pod began to count.
func (c *TaintEviction) passed(pod types.UID, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.since[pod]; !ok {
		c.since[pod] = now
	}
	return now.Sub(c.since[pod])
}

func (c *TaintEviction) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	pod, ok := c.config.Pods.Get(key)
	if !ok || pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	node, ok := c.config.Nodes.Get(pod.Spec.NodeName)
	if !ok {
		return reconcile.Result{}, nil // a matter of PodGarbage
	}
	allowed, limited := toleration(noExecute(node), pod.Spec.Tolerations)
	if !limited {
		if c.forget(pod.UID) {
			c.config.Events.Event(pod, corev1.EventTypeNormal, "TaintManagerEviction", "Cancelling deletion of Pod "+key)
		}
		return reconcile.Result{}, nil
	}
	if left := allowed - c.passed(pod.UID, time.Now()); left > 0 {
		return reconcile.Result{After: left}, nil
	}
	return reconcile.Result{}, c.evict(ctx, pod)
}

func (c *TaintEviction) evict(ctx context.Context, pod *corev1.Pod) error {
	status := *pod.Status.DeepCopy()
	condition := disruption(pod, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
	if setPodCondition(&status, *condition, metav1.Now()) {
		if err := patchPodStatus(ctx, c.config.Writer, pod, status); apierrors.IsNotFound(err) {
			return nil
		} else if err != nil {
			return err
		}
	}
	err := c.config.Writer.Delete(ctx, pod.Namespace, pod.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("evict pod %s: %w", key(pod), err)
	}
	c.config.Events.Event(pod, corev1.EventTypeNormal, "TaintManagerEviction", "Marking for deletion Pod "+key(pod))
	c.forget(pod.UID)
	return nil
}

func noExecute(node *corev1.Node) (taints []corev1.Taint) {
	for _, t := range node.Spec.Taints {
		if t.Effect == corev1.TaintEffectNoExecute {
			t.TimeAdded = nil
			taints = append(taints, t)
		}
	}
	return taints
}

// toleration is how long a pod may stay under taints, if that is limited at all.
func toleration(taints []corev1.Taint, tolerations []corev1.Toleration) (allowed time.Duration, limited bool) {
	least := int64(math.MaxInt64)
	for i := range taints {
		at := slices.IndexFunc(tolerations, func(t corev1.Toleration) bool { return tolerates(&t, &taints[i]) })
		if at < 0 {
			return 0, true
		}
		if seconds := tolerations[at].TolerationSeconds; seconds != nil {
			least = min(least, max(*seconds, 0))
		}
	}
	if least == math.MaxInt64 {
		return 0, false
	}
	return time.Duration(min(least, math.MaxInt64/int64(time.Second))) * time.Second, true
}

// tolerates compares as the API documents it: what a toleration leaves empty
// matches anything.
func tolerates(t *corev1.Toleration, taint *corev1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	switch t.Operator {
	case "", corev1.TolerationOpEqual:
		return t.Value == taint.Value
	case corev1.TolerationOpExists:
		return true
	}
	return false
}
