package controllers

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/reconcile"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeLifecycleConfig joins a NodeLifecycle controller to its surroundings.
// The first three fields must be set.
type NodeLifecycleConfig struct {
	Nodes Cache[*corev1.Node]
	// Leases of nodes are those in the namespace kube-node-lease.
	Leases Cache[*coordinationv1.Lease]
	Writer interface {
		Updater[*corev1.Node]
		StatusUpdater[*corev1.Node]
	}
	// Grace is how long a node may be silent. Zero is 50 s.
	Grace time.Duration
	// Events may be nil.
	Events Events
	// Workers is how many nodes are looked at at a time. Zero is 5.
	Workers int
	Log     logr.Logger
}

// NodeLifecycle marks and taints nodes that are not heard of.
//
// A node is heard of when this process sees its lease or its status change,
// by this process's clock. What the clock of the node says does not matter,
// and after a restart every node is given the whole grace again.
type NodeLifecycle struct {
	*loop
	config NodeLifecycleConfig

	// mu guards heard: when each node was last heard of.
	mu    sync.Mutex
	heard map[string]time.Time
}

// defaultGrace is the node monitor grace period of Kubernetes since 1.32.
const defaultGrace = 50 * time.Second

// NewNodeLifecycle checks config. It starts nothing.
func NewNodeLifecycle(config NodeLifecycleConfig) (*NodeLifecycle, error) {
	err := required("NodeLifecycleConfig", "Nodes", config.Nodes, "Leases", config.Leases, "Writer", config.Writer)
	if err != nil {
		return nil, err
	}
	if config.Grace < 0 {
		return nil, fmt.Errorf("controllers: NodeLifecycleConfig: negative Grace")
	}
	if config.Grace == 0 {
		config.Grace = defaultGrace
	}
	if config.Events == nil {
		config.Events = noEvents{}
	}
	c := &NodeLifecycle{config: config, heard: make(map[string]time.Time)}
	if c.loop, err = newLoop("nodelifecycle", config.Workers, config.Log, reconcile.Backoff{}, c.reconcile); err != nil {
		return nil, err
	}
	watch(c.loop, config.Nodes, c.nodeChanged)
	watch(c.loop, config.Leases, func(_, new *coordinationv1.Lease) {
		if new != nil && new.Namespace == corev1.NamespaceNodeLease {
			c.hear(new.Name)
		}
	})
	return c, nil
}

func (c *NodeLifecycle) nodeChanged(old, new *corev1.Node) {
	switch {
	case new == nil:
		c.mu.Lock()
		delete(c.heard, old.Name)
		c.mu.Unlock()
	case old == nil || !heartbeat(old).Equal(heartbeat(new)):
		c.hear(new.Name)
	}
	if new != nil {
		c.Enqueue(new.Name)
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
	silent := time.Since(heard)
	again := max(c.config.Grace-silent, 0)
	plan := planNode(node, silent >= c.config.Grace, metav1.Now())
	if !equality.Semantic.DeepEqual(plan.Status, node.Status) {
		updated, err := c.config.Writer.UpdateStatus(ctx, plan)
		if err != nil {
			return reconcile.Result{}, fmt.Errorf("status of node %s: %w", name, err)
		}
		c.config.Events.Event(node, corev1.EventTypeNormal, "NodeNotReady", fmt.Sprintf("Node %s status is now: NodeNotReady", name))
		updated = updated.DeepCopy()
		updated.Spec.Taints = plan.Spec.Taints
		plan = updated
	}
	if !equality.Semantic.DeepEqual(plan.Spec.Taints, node.Spec.Taints) {
		if _, err := c.config.Writer.Update(ctx, plan); err != nil {
			return reconcile.Result{}, fmt.Errorf("taints of node %s: %w", name, err)
		}
	}
	return reconcile.Result{After: again}, nil
}

// planNode returns node with the conditions and taints that it should have.
func planNode(node *corev1.Node, silent bool, now metav1.Time) *corev1.Node {
	plan := node.DeepCopy()
	if silent {
		markUnknown(plan, now)
	}
	c := nodeReady(plan)
	if c == nil {
		return plan // new, and has not spoken yet
	}
	setTaint(plan, corev1.TaintNodeUnreachable, c.Status == corev1.ConditionUnknown, now)
	setTaint(plan, corev1.TaintNodeNotReady, c.Status == corev1.ConditionFalse, now)
	return plan
}

// markUnknown says of every condition that the kubelet maintains that nobody
// knows any more.
func markUnknown(node *corev1.Node, now metav1.Time) {
	for _, kind := range []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		i := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == kind })
		if i < 0 {
			node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
				Type: kind, Status: corev1.ConditionUnknown, LastTransitionTime: now,
				Reason: "NodeStatusNeverUpdated", Message: "Kubelet never posted node status.",
			})
		} else if c := &node.Status.Conditions[i]; c.Status != corev1.ConditionUnknown {
			c.Status, c.LastTransitionTime = corev1.ConditionUnknown, now
			c.Reason, c.Message = "NodeStatusUnknown", "Kubelet stopped posting node status."
		}
	}
}

// setTaint gives or takes the taint of key in both of its effects: no new
// pods, and no old ones that do not tolerate it.
func setTaint(node *corev1.Node, key string, tainted bool, now metav1.Time) {
	for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute} {
		same := func(t corev1.Taint) bool { return t.Key == key && t.Effect == effect }
		switch has := slices.ContainsFunc(node.Spec.Taints, same); {
		case tainted && !has:
			taint := corev1.Taint{Key: key, Effect: effect}
			if effect == corev1.TaintEffectNoExecute {
				taint.TimeAdded = &now // from when tolerationSeconds count
			}
			node.Spec.Taints = append(node.Spec.Taints, taint)
		case !tainted && has:
			node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, same)
		}
	}
}
