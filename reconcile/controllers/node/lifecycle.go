package node

import (
	"cmp"
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
	"github.com/planekit/planekit/reconcile/controllers/internal/podstatus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LifecycleConfig configures a Lifecycle. Nodes, Leases and Writer are required.
type LifecycleConfig struct {
	Nodes localcache.Cache[*corev1.Node]
	// Leases is the cache of Leases. Those in the namespace kube-node-lease are of nodes.
	Leases localcache.Cache[*coordinationv1.Lease]
	Writer interface {
		controllers.Updater[*corev1.Node]
		controllers.StatusUpdater[*corev1.Node]
	}
	// PodsByNode and PodWriter mark the pods of nodes that do not report as not ready. Both are nil
	// if they are not to be marked.
	PodsByNode localcache.Index[string, *corev1.Pod]
	PodWriter  controllers.StatusUpdater[*corev1.Pod]
	// Pods is the cache of the pods of PodsByNode. If it is nil, a pod that is bound to a node that
	// does not report is marked when the node changes.
	Pods localcache.Cache[*corev1.Pod]
	// Grace is how long a node may fail to report. Zero means 50 s.
	Grace time.Duration
	// StartupGrace is how long a node that has never reported its readiness may fail to report.
	// Zero means 60 s.
	StartupGrace time.Duration
	// Limits bounds how fast pods are evicted from nodes that are not ready.
	Limits EvictionLimits
	// Events records Event objects. Nil discards them.
	Events controllers.Events
	// Workers is the number of nodes processed concurrently. Zero means 5.
	Workers int
	// Metrics receives the measurements of the queue and the workers. Nil means none.
	Metrics controllers.Metrics
	// Log receives failures. The zero Logger discards them.
	Log logr.Logger
}

// Lifecycle marks and taints nodes that do not report, taints nodes according to their conditions,
// and keeps the labels that have newer names. It adds the taints that evict pods at a limited rate,
// zone by zone, and adds none if every node seems to be lost. [TaintEviction] deletes the pods.
//
// A node reports when this process sees the time in its lease or in its status change, by this
// process's clock. The clock of the node does not matter, and after a restart every node has the
// whole grace period again.
type Lifecycle struct {
	*reconcile.Controller[string]
	config LifecycleConfig

	zones zones

	// mu guards heard, the time of the last sign of life of each node.
	mu    sync.Mutex
	heard map[string]time.Time
}

// The node monitor grace period of Kubernetes since 1.32, and the node startup
// grace period.
const (
	defaultGrace        = 50 * time.Second
	defaultStartupGrace = 60 * time.Second
)

// NewLifecycle returns a controller, or an error if config is invalid. It starts nothing.
func NewLifecycle(config LifecycleConfig) (*Lifecycle, error) {
	err := loop.Required("node: LifecycleConfig", "Nodes", config.Nodes, "Leases", config.Leases, "Writer", config.Writer)
	if err != nil {
		return nil, err
	}
	switch l := config.Limits; {
	case config.Grace < 0 || config.StartupGrace < 0:
		return nil, errors.New("node: LifecycleConfig: negative Grace")
	case !(l.Unhealthy <= 1):
		return nil, errors.New("node: LifecycleConfig: Limits make no sense")
	case (config.PodsByNode == nil) != (config.PodWriter == nil):
		return nil, errors.New("node: LifecycleConfig: PodsByNode without PodWriter, or PodWriter without PodsByNode")
	case config.PodsByNode == nil && config.Pods != nil:
		return nil, errors.New("node: LifecycleConfig: Pods without PodsByNode")
	}
	config.Grace, config.StartupGrace = cmp.Or(config.Grace, defaultGrace), cmp.Or(config.StartupGrace, defaultStartupGrace)
	if config.Events == nil {
		config.Events = controllers.NoEvents{}
	}
	c := &Lifecycle{config: config, heard: make(map[string]time.Time), zones: zones{limits: config.Limits.filled()}}
	if c.Controller, err = loop.New(loop.Config{Name: "nodelifecycle", Workers: config.Workers, Log: config.Log, Metrics: config.Metrics}, c.reconcile); err != nil {
		return nil, err
	}
	reconcile.WatchFunc(c.Controller, config.Nodes, c.nodeChanged)
	if config.Pods != nil {
		reconcile.WatchFunc(c.Controller, config.Pods, c.podChanged)
	}
	reconcile.WatchFunc(c.Controller, config.Leases, func(old, new *coordinationv1.Lease) {
		if new != nil && new.Namespace == corev1.NamespaceNodeLease && (old == nil || !old.Spec.RenewTime.Equal(new.Spec.RenewTime)) {
			c.hear(new.Name)
		}
	})
	return c, nil
}

// podChanged enqueues the node that a pod was bound to, if it does not report.
func (c *Lifecycle) podChanged(old, new *corev1.Pod) {
	if new == nil || new.Spec.NodeName == "" || old != nil && old.Spec.NodeName == new.Spec.NodeName {
		return
	}
	if node, ok := c.config.Nodes.Get(new.Spec.NodeName); ok && silent(node) {
		c.Enqueue(node.Name)
	}
}

// silent reports whether a node is marked as not reporting.
func silent(node *corev1.Node) bool {
	r := nodeReady(node)
	return r != nil && r.Status == corev1.ConditionUnknown
}

func (c *Lifecycle) nodeChanged(old, new *corev1.Node) {
	name := cmp.Or(new, old).Name
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
		// All nodes seemed lost because this process was cut off. The other nodes have their whole
		// grace period again.
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

// heartbeat returns when the kubelet last reported, by its clock. Marking a node as silent does not
// change it.
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

func (c *Lifecycle) hear(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard[node] = time.Now()
}

func (c *Lifecycle) reconcile(ctx context.Context, name string) (reconcile.Result, error) {
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
		return reconcile.Result{After: loop.Sooner(left, wait)}, nil
	}
}

// writeStatus stores the planned status of node if it differs, and returns the stored node.
func (c *Lifecycle) writeStatus(ctx context.Context, node, plan *corev1.Node) (*corev1.Node, error) {
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

// writeNode gives node the planned taints and labels. If the rate does not allow a taint yet, wait
// is the time until it does.
func (c *Lifecycle) writeNode(ctx context.Context, node *corev1.Node, now time.Time) (wait time.Duration, err error) {
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
		if took && (loop.IsStale(err) || loop.Refused(err)) {
			c.zones.giveBack(node, now)
		}
		return 0, fmt.Errorf("taints and labels of node %s: %w", node.Name, err)
	}
	return wait, nil
}

// markPods sets the pods of a silent node to not ready. It does not override a kubelet that
// reports.
func (c *Lifecycle) markPods(ctx context.Context, node *corev1.Node) error {
	if c.config.PodsByNode == nil || !silent(node) {
		return nil
	}
	for pod := range c.config.PodsByNode.Get(node.Name) {
		condition := podstatus.ReadyCondition(pod)
		if condition == nil || condition.Status == corev1.ConditionFalse {
			continue
		}
		update, set := pod.DeepCopy(), *condition
		set.Status = corev1.ConditionFalse
		podstatus.SetCondition(&update.Status, set, metav1.Now())
		if _, err := c.config.PodWriter.UpdateStatus(ctx, update); apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return fmt.Errorf("status of pod %s: %w", localcache.KeyOf(pod), err)
		}
		c.config.Events.Event(pod, corev1.EventTypeWarning, "NodeNotReady", "Node is not ready")
	}
	return nil
}
