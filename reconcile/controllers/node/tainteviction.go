package node

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/internal/loop"
	"github.com/planekit/planekit/reconcile/controllers/internal/podstatus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ByNode is the key function of an index of pods by the name of their node.
func ByNode(pod *corev1.Pod) []string {
	if pod.Spec.NodeName == "" {
		return nil
	}
	return []string{pod.Spec.NodeName}
}

// PodEnder marks pods, by patches of their status, and deletes them.
type PodEnder interface {
	controllers.Patcher[*corev1.Pod]
	controllers.Deleter
}

// TaintEvictionConfig configures a TaintEviction. Pods, Nodes, PodsByNode and Writer are required.
type TaintEvictionConfig struct {
	Pods       localcache.Cache[*corev1.Pod]
	Nodes      localcache.Cache[*corev1.Node]
	PodsByNode localcache.Index[string, *corev1.Pod]
	Writer     PodEnder
	// Events records Event objects. Nil discards them.
	Events controllers.Events
	// Workers is the number of pods processed concurrently. Zero means 5.
	Workers int
	// Metrics receives the measurements of the queue and the workers. Nil means none.
	Metrics controllers.Metrics
	// Log receives failures. The zero Logger discards them.
	Log logr.Logger
}

// TaintEviction deletes pods that do not tolerate the NoExecute taints of their node, or no longer
// tolerate them.
//
// The time under a taint begins when this process first sees the pod under it, by this process's
// clock. A new process starts the time again, so that a pod may stay longer than it tolerates the
// taint, but is never deleted earlier.
type TaintEviction struct {
	*reconcile.Controller[string]
	config TaintEvictionConfig

	mu sync.Mutex
	// terms holds the terms of the pods that have one. Guarded by mu.
	terms map[types.UID]term
}

// term is the time that a pod may stay under taints.
type term struct {
	// since is when the toleration began to count.
	since time.Time
	// awaited reports whether the end is still to come.
	awaited bool
}

// NewTaintEviction returns a controller, or an error if config lacks a required field. It starts
// nothing.
func NewTaintEviction(config TaintEvictionConfig) (*TaintEviction, error) {
	err := loop.Required("node: TaintEvictionConfig", "Pods", config.Pods, "Nodes", config.Nodes,
		"PodsByNode", config.PodsByNode, "Writer", config.Writer)
	if err != nil {
		return nil, err
	}
	if config.Events == nil {
		config.Events = controllers.NoEvents{}
	}
	c := &TaintEviction{config: config, terms: make(map[types.UID]term)}
	if c.Controller, err = loop.New(loop.Config{Name: "tainteviction", Workers: config.Workers, Log: config.Log, Metrics: config.Metrics}, c.reconcile); err != nil {
		return nil, err
	}
	reconcile.WatchFunc(c.Controller, config.Pods, c.podChanged)
	reconcile.WatchFunc(c.Controller, config.Nodes, func(old, new *corev1.Node) {
		if new == nil || old != nil && equality.Semantic.DeepEqual(noExecute(old), noExecute(new)) {
			return
		}
		for pod := range config.PodsByNode.Get(new.Name) {
			c.Enqueue(localcache.KeyOf(pod))
		}
	})
	return c, nil
}

func (c *TaintEviction) podChanged(old, new *corev1.Pod) {
	if new == nil {
		c.cancel(old)
		return
	}
	if old == nil || old.Spec.NodeName != new.Spec.NodeName || !equality.Semantic.DeepEqual(old.Spec.Tolerations, new.Spec.Tolerations) {
		c.Enqueue(localcache.KeyOf(new))
	}
}

// cancel forgets the term of a pod, and records an Event object if its end was awaited.
func (c *TaintEviction) cancel(pod *corev1.Pod) {
	c.mu.Lock()
	awaited := c.terms[pod.UID].awaited
	delete(c.terms, pod.UID)
	c.mu.Unlock()
	if awaited {
		c.config.Events.Event(pod, corev1.EventTypeNormal, "TaintManagerEviction", "Cancelling deletion of Pod "+localcache.KeyOf(pod))
	}
}

// left returns how much of the allowed time of a pod is left, and whether there was more before.
// The time begins with the first call.
func (c *TaintEviction) left(pod types.UID, allowed time.Duration, now time.Time) (left time.Duration, awaited bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, ok := c.terms[pod]
	if !ok {
		t.since = now
	}
	left, awaited = allowed-now.Sub(t.since), t.awaited
	t.awaited = left > 0
	c.terms[pod] = t
	return left, awaited
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
		c.cancel(pod)
		return reconcile.Result{}, nil
	}
	left, awaited := c.left(pod.UID, allowed, time.Now())
	if left > 0 {
		return reconcile.Result{After: left}, nil
	}
	if awaited && allowed == 0 {
		// As in Kubernetes, a pod that was to be deleted later is deleted at once.
		c.config.Events.Event(pod, corev1.EventTypeNormal, "TaintManagerEviction", "Cancelling deletion of Pod "+key)
	}
	return reconcile.Result{}, c.evict(ctx, pod)
}

func (c *TaintEviction) evict(ctx context.Context, pod *corev1.Pod) error {
	status := *pod.Status.DeepCopy()
	condition := podstatus.Disruption(pod, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
	if podstatus.SetCondition(&status, *condition, metav1.Now()) {
		if err := podstatus.Patch(ctx, c.config.Writer, pod, status); apierrors.IsNotFound(err) {
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
		return fmt.Errorf("evict pod %s: %w", localcache.KeyOf(pod), err)
	}
	c.config.Events.Event(pod, corev1.EventTypeNormal, "TaintManagerEviction", "Marking for deletion Pod "+localcache.KeyOf(pod))
	c.cancel(pod)
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

// toleration returns how long a pod may stay under taints, and whether that is limited.
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

// tolerates compares as the API documents it: an empty field of a toleration matches any value.
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
