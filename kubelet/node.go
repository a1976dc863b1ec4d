package kubelet

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/planekit/planekit/kubelet/admission"
	"github.com/planekit/planekit/kubelet/eviction"
	"github.com/planekit/planekit/kubelet/internal/hostinfo"
	"github.com/planekit/planekit/kubelet/internal/lease"
	"github.com/planekit/planekit/kubelet/internal/lifecycle"
	"github.com/planekit/planekit/kubelet/internal/nodestatus"
	"github.com/planekit/planekit/kubelet/internal/pause"
	"github.com/planekit/planekit/kubelet/internal/podnetwork"
	"github.com/planekit/planekit/kubelet/shutdown"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// version is the Kubernetes version with the same behaviour, and the name of this implementation.
const version = "v1.36.3+planekit"

// register creates the Node or updates its labels. It returns false if ctx is done before.
func (k *Kubelet) register(ctx context.Context) bool {
	return pause.Retry(ctx, k.log, "node is not registered", func() error {
		node, err := k.config.Nodes.Get(ctx, "", k.config.NodeName)
		if apierrors.IsNotFound(err) {
			if node, err = k.config.Nodes.Create(ctx, k.newNode()); err == nil {
				k.remember(node)
			}
			return err
		}
		if err != nil {
			return err
		}
		k.remember(node)
		next := node.DeepCopy()
		if next.Labels == nil {
			next.Labels = map[string]string{}
		}
		maps.Copy(next.Labels, k.config.Labels)
		if maps.Equal(next.Labels, node.Labels) {
			return nil
		}
		if node, err = k.config.Nodes.Update(ctx, next); err == nil {
			k.remember(node)
		}
		return err
	})
}

// newNode returns the Node to create, including its status, so that clients never see it without a
// status.
func (k *Kubelet) newNode() *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: k.config.NodeName, Labels: maps.Clone(k.config.Labels)},
		Spec:       corev1.NodeSpec{Taints: k.config.Taints, ProviderID: k.config.ProviderID},
	}
	if k.config.PodCIDR != "" {
		node.Spec.PodCIDRs = strings.Split(k.config.PodCIDR, ",")
		node.Spec.PodCIDR = node.Spec.PodCIDRs[0]
	}
	k.setNodeStatus(&node.Status, time.Now())
	return node
}

// newLease returns what renews the node's Lease.
func (k *Kubelet) newLease() *lease.Keeper {
	return lease.New(lease.Config{
		Leases: k.config.Leases, Node: k.readNode, NodeName: k.config.NodeName, Seconds: k.config.Heartbeat.LeaseSeconds, Log: k.log,
	})
}

// readNode reads the Node from the API.
func (k *Kubelet) readNode(ctx context.Context) (*corev1.Node, error) {
	return k.config.Nodes.Get(ctx, "", k.config.NodeName)
}

// newNetwork returns the gate of the pods' network. Pods and the Node are updated after each change.
func (k *Kubelet) newNetwork() *podnetwork.Gate {
	c := podnetwork.Config{
		Runtime: k.config.Runtime, Node: k.readNode, SetUp: k.config.Network, Learn: k.abilities.Learn, Log: k.log,
		Changed: func() {
			k.reportNow()
			k.wakeAll()
		},
	}
	if k.config.standalone() {
		c.Node, c.PodCIDR = nil, k.config.PodCIDR
	}
	return podnetwork.New(c)
}

// newImageList returns the list of images in the Node.
func (k *Kubelet) newImageList() *nodestatus.ImageList {
	var lister nodestatus.ImageLister
	if service, ok := k.config.Images.(ImageRemover); ok {
		lister = service
	}
	most := nodestatus.DefaultImages
	if n := k.config.NodeImages; n != nil {
		most = *n
	}
	return nodestatus.NewImageList(lister, most, k.log)
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
	tick := time.NewTicker(k.config.Heartbeat.StatusPeriod)
	defer tick.Stop()
	var written time.Time
	for {
		k.images.Update(ctx)
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
	if pause.For(ctx, retrySync) {
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
		return now, k.readyCondition().Status == corev1.ConditionTrue, nil
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
	ready = k.readyCondition().Status == corev1.ConditionTrue
	k.node.Store(next)
	if now.Sub(written) < k.config.Heartbeat.ReportPeriod && sameStatus(&node.Status, &next.Status) {
		return written, ready, nil
	}
	if _, err = k.config.Nodes.UpdateStatus(ctx, next); err == nil {
		k.recordReboot(node.Status.NodeInfo.BootID, next.Status.NodeInfo.BootID)
		k.recordTransitions(node.Status.Conditions, next.Status.Conditions)
	}
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

// allocatable returns what of a capacity is for pods.
func (k *Kubelet) allocatable(capacity corev1.ResourceList) corev1.ResourceList {
	return hostinfo.WithoutHugePages(nodestatus.Allocatable(capacity, k.config.SystemReserved, k.config.KubeReserved,
		eviction.Reserved(k.config.Eviction.Thresholds, k.host.Capacity)))
}

// featureWebSockets is the feature of kubelets that translate WebSockets for their runtime, which kube-apiserver then
// leaves to them.
const featureWebSockets = "ExtendWebSocketsToKubelet"

// setNodeStatus updates a Node's status. It keeps conditions of other writers.
func (k *Kubelet) setNodeStatus(status *corev1.NodeStatus, now time.Time) {
	status.Addresses = k.config.Addresses
	status.DaemonEndpoints.KubeletEndpoint.Port = k.config.Port
	status.Capacity = nodestatus.Capacity(k.host.Capacity, status.Capacity)
	status.Allocatable = k.allocatable(status.Capacity)
	status.Images = k.images.Current()
	status.NodeInfo = k.host.System
	status.NodeInfo.ContainerRuntimeVersion = k.runtimeName + "://" + k.runtimeVersion
	status.DeclaredFeatures = []string{admission.FeatureRestartAll}
	if k.config.Port != 0 {
		status.DeclaredFeatures = []string{featureWebSockets, admission.FeatureRestartAll} // sorted
	}
	k.abilities.Report(status)
	for _, c := range []corev1.NodeCondition{
		k.evictor.condition(corev1.NodeMemoryPressure),
		k.evictor.condition(corev1.NodeDiskPressure),
		k.evictor.condition(corev1.NodePIDPressure),
		k.readyCondition(),
	} {
		setNodeCondition(status, c, now)
	}
}

// recordReboot records an event if the machine was started again since the status was written.
func (k *Kubelet) recordReboot(old, now string) {
	if old != "" && old != now {
		k.events.Node(corev1.EventTypeWarning, "Rebooted", "Node "+k.config.NodeName+" has been rebooted, boot id: "+now)
	}
}

// recordTransitions records an event for each condition whose status has changed, such as NodeReady
// for the reason KubeletReady.
func (k *Kubelet) recordTransitions(old, now []corev1.NodeCondition) {
	for _, c := range now {
		name, ours := strings.CutPrefix(c.Reason, "Kubelet")
		same := slices.ContainsFunc(old, func(o corev1.NodeCondition) bool { return o.Type == c.Type && o.Status == c.Status })
		if ours && !same {
			k.events.Node(corev1.EventTypeNormal, "Node"+name, "Node "+k.config.NodeName+" status is now: Node"+name)
		}
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

// readyCondition returns the Node's Ready condition. Its message has every reason why the node is not
// ready.
func (k *Kubelet) readyCondition() corev1.NodeCondition {
	var reasons []string
	runtime, network := k.network.State()
	for _, err := range []error{runtime, k.lister.Health(), network} {
		if err != nil {
			reasons = append(reasons, err.Error())
		}
	}
	if k.shuttingDown.Load() {
		reasons = append(reasons, shutdown.NodeMessage)
	}
	switch len(reasons) {
	case 0:
		return nodeCondition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status")
	case 1:
		return nodeCondition(corev1.NodeReady, corev1.ConditionFalse, "KubeletNotReady", reasons[0])
	}
	return nodeCondition(corev1.NodeReady, corev1.ConditionFalse, "KubeletNotReady", "["+strings.Join(reasons, ", ")+"]")
}
