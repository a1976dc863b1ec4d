package controllers

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
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeLifecycleConfig joins a NodeLifecycle controller to its surroundings.
// The first three fields must be set.
type NodeLifecycleConfig struct {
	Nodes localcache.Cache[*corev1.Node]
	// Leases of nodes are those in the namespace kube-node-lease.
	Leases localcache.Cache[*coordinationv1.Lease]
	Writer interface {
		Updater[*corev1.Node]
		StatusUpdater[*corev1.Node]
	}
	// Pods and PodStatus are for the pods of nodes that are silent: they are not
	// ready any more. Both are nil if that is not to be said.
	Pods      localcache.Index[string, *corev1.Pod]
	PodStatus StatusUpdater[*corev1.Pod]
	// PodCache has the pods that Pods finds. It may be nil: then a pod that comes to
	// a node which is silent already is seen to when the node changes.
	PodCache localcache.Cache[*corev1.Pod]
	// Grace is how long a node may be silent. Zero is 50 s.
	Grace time.Duration
	// StartupGrace is how long a node that has never reported its readiness may
	// be silent. Zero is 60 s.
	StartupGrace time.Duration
	// Limits is how fast pods are driven off nodes that are not ready.
	Limits EvictionLimits
	// Events may be nil.
	Events Events
	// Workers is how many nodes are looked at at a time. Zero is 5.
	Workers int
	Log     logr.Logger
}

// NodeLifecycle marks and taints nodes that are not heard of, taints nodes as
// their conditions call for, and keeps the labels that have newer names. The taints that drive pods away are given so
// many at a time, zone by zone, and none at all when every node seems to be
// lost. Deleting pods is up to [TaintEviction].
//
// A node is heard of when this process sees the time in its lease or in its status
// change, by this process's clock. What the clock of the node says does not matter,
// and after a restart every node is given the whole grace again.
type NodeLifecycle struct {
	*loop
	config NodeLifecycleConfig

	zones zones

	// mu guards heard: when each node was last heard of.
	mu    sync.Mutex
	heard map[string]time.Time
}

// The node monitor grace period of Kubernetes since 1.32, and the node startup
// grace period.
const (
	defaultGrace        = 50 * time.Second
	defaultStartupGrace = 60 * time.Second
)

// NewNodeLifecycle checks config. It starts nothing.
func NewNodeLifecycle(config NodeLifecycleConfig) (*NodeLifecycle, error) {
	err := required("NodeLifecycleConfig", "Nodes", config.Nodes, "Leases", config.Leases, "Writer", config.Writer)
	if err != nil {
		return nil, err
	}
	switch l := config.Limits; {
	case config.Grace < 0 || config.StartupGrace < 0:
		return nil, errors.New("controllers: NodeLifecycleConfig: negative Grace")
	case !(l.Unhealthy <= 1):
		return nil, errors.New("controllers: NodeLifecycleConfig: Limits make no sense")
	case (config.Pods == nil) != (config.PodStatus == nil):
		return nil, errors.New("controllers: NodeLifecycleConfig: Pods without PodStatus, or the other way round")
	case config.Pods == nil && config.PodCache != nil:
		return nil, errors.New("controllers: NodeLifecycleConfig: PodCache without Pods")
	}
	config.Grace, config.StartupGrace = nonZero(config.Grace, defaultGrace), nonZero(config.StartupGrace, defaultStartupGrace)
	if config.Events == nil {
		config.Events = noEvents{}
	}
	c := &NodeLifecycle{config: config, heard: make(map[string]time.Time), zones: zones{limits: config.Limits.filled()}}
	if c.loop, err = newLoop("nodelifecycle", config.Workers, config.Log, reconcile.Backoff{}, c.reconcile); err != nil {
		return nil, err
	}
	watch(c.loop, config.Nodes, c.nodeChanged)
	if config.PodCache != nil {
		watch(c.loop, config.PodCache, c.podChanged)
	}
	watch(c.loop, config.Leases, func(old, new *coordinationv1.Lease) {
		if new != nil && new.Namespace == corev1.NamespaceNodeLease && (old == nil || !old.Spec.RenewTime.Equal(new.Spec.RenewTime)) {
			c.hear(new.Name)
		}
	})
	return c, nil
}

// podChanged looks at the node that a pod came to, if it is silent.
func (c *NodeLifecycle) podChanged(old, new *corev1.Pod) {
	if new == nil || new.Spec.NodeName == "" || old != nil && old.Spec.NodeName == new.Spec.NodeName {
		return
	}
	if node, ok := c.config.Nodes.Get(new.Spec.NodeName); ok && silent(node) {
		c.Enqueue(node.Name)
	}
}

// silent tells that a node has been marked as one that is not heard of.
func silent(node *corev1.Node) bool {
	r := nodeReady(node)
	return r != nil && r.Status == corev1.ConditionUnknown
}

func (c *NodeLifecycle) nodeChanged(old, new *corev1.Node) {
	name := nonZero(new, old).Name
	switch {
	case new == nil:
		c.mu.Lock()
		delete(c.heard, name)
		c.mu.Unlock()
		c.config.Events.Event(old, corev1.EventTypeNormal, "RemovingNode", fmt.Sprintf("Node %[1]s event: Removing Node %[1]s from Controller", name))
	case old == nil:
		c.config.Events.Event(new, corev1.EventTypeNormal, "RegisteredNode", fmt.Sprintf("Node %[1]s event: Registered Node %[1]s in Controller", name))
		c.hear(name)
	case !heartbeat(old).Equal(heartbeat(new)):
		c.hear(name)
	}
	if new != nil {
		c.Enqueue(name)
	}
	lost, wasLost, rate := c.zones.set(name, new)
	if wasLost && !lost {
		// Who was cut off has heard of nobody; the others have all their grace again.
		for node := range c.config.Nodes.All() {
			c.hear(node.Name)
		}
	}
	if wasLost != lost || rate {
		for node := range c.config.Nodes.All() {
			c.Enqueue(node.Name)
		}
	}
}

// heartbeat is when the kubelet last reported, by its clock. Marking a node
// as silent does not change it.
func heartbeat(node *corev1.Node) time.Time {
	if c := nodeReady(node); c != nil {
		return c.LastHeartbeatTime.Time
	}
	return time.Time{}
}

func nodeReady(node *corev1.Node) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == corev1.NodeReady {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}

func (c *NodeLifecycle) hear(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard[node] = time.Now()
}

func (c *NodeLifecycle) reconcile(ctx context.Context, name string) (reconcile.Result, error) {
	node, ok := c.config.Nodes.Get(name)
	if !ok {
		return reconcile.Result{}, nil
	}
	c.mu.Lock()
	heard, ok := c.heard[name]
	c.mu.Unlock()
	if !ok {
		return reconcile.Result{}, nil // its deletion was seen: the copy is about to show it
	}
	grace := c.config.Grace
	if nodeReady(node) == nil {
		grace = c.config.StartupGrace
	}
	now := time.Now()
	left := grace - now.Sub(heard)
	plan := node.DeepCopy()
	if left <= 0 {
		markUnknown(plan, metav1.NewTime(now))
	}
	if plan, err := c.writeStatus(ctx, node, plan); err != nil {
		return reconcile.Result{}, err
	} else if wait, err := c.writeNode(ctx, plan, now); err != nil {
		return reconcile.Result{}, err
	} else if err := c.markPods(ctx, plan); err != nil {
		return reconcile.Result{}, err
	} else {
		return reconcile.Result{After: sooner(left, wait)}, nil
	}
}

// writeStatus stores what plan says of node if that is new, and returns what is
// stored.
func (c *NodeLifecycle) writeStatus(ctx context.Context, node, plan *corev1.Node) (*corev1.Node, error) {
	if equality.Semantic.DeepEqual(plan.Status, node.Status) {
		return node, nil
	}
	stored, err := c.config.Writer.UpdateStatus(ctx, plan)
	if err != nil {
		return nil, fmt.Errorf("status of node %s: %w", node.Name, err)
	}
	if r := nodeReady(node); r != nil && r.Status == corev1.ConditionTrue {
		c.config.Events.Event(node, corev1.EventTypeNormal, "NodeNotReady", fmt.Sprintf("Node %s status is now: NodeNotReady", node.Name))
	}
	return stored, nil
}

// writeNode gives node the taints and labels it should have. If it may not have
// a taint yet, wait tells when it may.
func (c *NodeLifecycle) writeNode(ctx context.Context, node *corev1.Node, now time.Time) (wait time.Duration, err error) {
	plan := node.DeepCopy()
	planLabels(plan)
	planNoSchedule(plan, metav1.NewTime(now))
	took := false
	planNoExecute(plan, c.zones.allLost(), metav1.NewTime(now), func() bool {
		took, wait = c.zones.take(node, now)
		return took
	})
	if equality.Semantic.DeepEqual(plan.Spec.Taints, node.Spec.Taints) && maps.Equal(plan.Labels, node.Labels) {
		return wait, nil
	}
	if _, err := c.config.Writer.Update(ctx, plan); err != nil {
		// If the answer was lost, the node may have the taint, and counts.
		if took && (isStale(err) || refused(err)) {
			c.zones.giveBack(node, now)
		}
		return 0, fmt.Errorf("taints and labels of node %s: %w", node.Name, err)
	}
	return wait, nil
}

// markPods says of the pods of a node that is silent that they are not ready.
// If the kubelet talks, what it says of its pods stands.
func (c *NodeLifecycle) markPods(ctx context.Context, node *corev1.Node) error {
	if c.config.Pods == nil || !silent(node) {
		return nil
	}
	for pod := range c.config.Pods.Get(node.Name) {
		condition := readyCondition(pod)
		if condition == nil || condition.Status == corev1.ConditionFalse {
			continue
		}
		update, set := pod.DeepCopy(), *condition
		set.Status = corev1.ConditionFalse
		setPodCondition(&update.Status, set, metav1.Now())
		if _, err := c.config.PodStatus.UpdateStatus(ctx, update); apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return fmt.Errorf("status of pod %s: %w", key(pod), err)
		}
		c.config.Events.Event(pod, corev1.EventTypeWarning, "NodeNotReady", "Node is not ready")
	}
	return nil
}
