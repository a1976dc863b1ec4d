package kubelet

import (
	"context"
	"maps"
	"strings"
	"time"

	"github.com/planekit/planekit/kubelet/internal/lifecycle"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// version is the Kubernetes version with the same behaviour, and the name of this
	// implementation.
	version = "v1.36.3+planekit"

	// nodePeriod is the interval at which the Node's status is checked, and nodeReportPeriod the
	// interval at which it is written without changes.
	nodePeriod       = 10 * time.Second
	nodeReportPeriod = 5 * time.Minute
)

// register creates the Node or updates its labels. It returns false if ctx is done before.
func (k *Kubelet) register(ctx context.Context) bool {
	return retry(ctx, k.log, "node is not registered", func() error {
		node, err := k.config.Nodes.Get(ctx, "", k.config.NodeName)
		if apierrors.IsNotFound(err) {
			_, err = k.config.Nodes.Create(ctx, k.newNode())
			return err
		}
		if err != nil {
			return err
		}
		next := node.DeepCopy()
		if next.Labels == nil {
			next.Labels = map[string]string{}
		}
		maps.Copy(next.Labels, k.config.Labels)
		if maps.Equal(next.Labels, node.Labels) {
			return nil
		}
		_, err = k.config.Nodes.Update(ctx, next)
		return err
	})
}

// newNode returns the Node to create, including its status, so that clients never see it without a
// status.
func (k *Kubelet) newNode() *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: k.config.NodeName, Labels: maps.Clone(k.config.Labels)},
		Spec:       corev1.NodeSpec{Taints: k.config.Taints},
	}
	if k.config.PodCIDR != "" {
		node.Spec.PodCIDRs = strings.Split(k.config.PodCIDR, ",")
		node.Spec.PodCIDR = node.Spec.PodCIDRs[0]
	}
	k.setNodeStatus(&node.Status, time.Now())
	return node
}

// reportNow requests a check of the Node's status now.
func (k *Kubelet) reportNow() {
	select {
	case k.report <- struct{}{}:
	default:
	}
}

// reportNode keeps the Node's status current until ctx is done.
func (k *Kubelet) reportNode(ctx context.Context) {
	tick := time.NewTicker(nodePeriod)
	defer tick.Stop()
	var written time.Time
	for {
		at, ready, err := k.writeNode(ctx, written)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			k.log.Error(err, "report node", "node", k.config.NodeName)
			k.retryReport(ctx)
		default:
			written = at
		}
		if err == nil && ready {
			select {
			case <-k.ready:
			default:
				k.events.Node(corev1.EventTypeNormal, "NodeReady", "Node "+k.config.NodeName+" status is now: NodeReady")
				close(k.ready)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-k.report:
		case <-tick.C:
		}
	}
}

// retryReport waits shortly before a report is retried.
func (k *Kubelet) retryReport(ctx context.Context) {
	if sleep(ctx, retrySync) {
		k.reportNow()
	}
}

// writeAttempts is the number of attempts to write the Node's status against other writers, as in
// Kubernetes.
const writeAttempts = 5

// writeNode writes the Node's status if it has changed or the last write is too old. It registers a
// deleted Node again.
func (k *Kubelet) writeNode(ctx context.Context, written time.Time) (at time.Time, ready bool, err error) {
	for range writeAttempts {
		at, ready, err = k.tryWriteNode(ctx, written)
		if !apierrors.IsConflict(err) {
			break
		}
	}
	return at, ready, err
}

func (k *Kubelet) tryWriteNode(ctx context.Context, written time.Time) (at time.Time, ready bool, err error) {
	now := time.Now()
	if k.config.standalone() {
		return now, k.network.readyCondition().Status == corev1.ConditionTrue, nil
	}
	node, err := k.config.Nodes.Get(ctx, "", k.config.NodeName)
	if apierrors.IsNotFound(err) {
		node, err = k.config.Nodes.Create(ctx, k.newNode())
	}
	if err != nil {
		return written, false, err
	}
	now = time.Now()
	next := node.DeepCopy()
	k.setNodeStatus(&next.Status, now)
	ready = k.network.readyCondition().Status == corev1.ConditionTrue
	if now.Sub(written) < nodeReportPeriod && sameStatus(&node.Status, &next.Status) {
		return written, ready, nil
	}
	_, err = k.config.Nodes.UpdateStatus(ctx, next)
	return now, ready, err
}

// sameStatus compares statuses without heartbeats.
func sameStatus(a, b *corev1.NodeStatus) bool {
	a, b = a.DeepCopy(), b.DeepCopy()
	for _, s := range []*corev1.NodeStatus{a, b} {
		for i := range s.Conditions {
			s.Conditions[i].LastHeartbeatTime = metav1.Time{}
		}
	}
	return equality.Semantic.DeepEqual(a, b)
}

// setNodeStatus updates a Node's status. It keeps conditions of other writers.
func (k *Kubelet) setNodeStatus(status *corev1.NodeStatus, now time.Time) {
	status.Addresses = k.config.Addresses
	status.DaemonEndpoints.KubeletEndpoint.Port = k.config.Port
	status.Capacity = k.host.capacity
	status.Allocatable = k.host.capacity
	status.NodeInfo = k.host.info
	status.NodeInfo.ContainerRuntimeVersion = k.runtimeName + "://" + k.runtimeVersion
	for _, c := range []corev1.NodeCondition{
		k.evictor.condition(corev1.NodeMemoryPressure),
		k.evictor.condition(corev1.NodeDiskPressure),
		k.evictor.condition(corev1.NodePIDPressure),
		k.network.readyCondition(),
	} {
		setNodeCondition(status, c, now)
	}
}

func nodeCondition(kind corev1.NodeConditionType, is corev1.ConditionStatus, reason, message string) corev1.NodeCondition {
	return corev1.NodeCondition{Type: kind, Status: is, Reason: reason, Message: message}
}

func setNodeCondition(status *corev1.NodeStatus, c corev1.NodeCondition, now time.Time) {
	c.LastHeartbeatTime = lifecycle.Seconds(now)
	c.LastTransitionTime = lifecycle.Seconds(now)
	for i := range status.Conditions {
		if old := &status.Conditions[i]; old.Type == c.Type {
			if old.Status == c.Status {
				c.LastTransitionTime = old.LastTransitionTime
			}
			*old = c
			return
		}
	}
	status.Conditions = append(status.Conditions, c)
}
