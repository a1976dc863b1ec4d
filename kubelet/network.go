package kubelet

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/planekit/planekit/kubelet/shutdown"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// firstCheck is the first interval at which the Node is read until it has a pod range, and at
	// which the runtime is asked until its network is ready: both usually take milliseconds. Each
	// interval is twice the one before, up to rangeCheck and networkCheck.
	firstCheck   = 5 * time.Millisecond
	rangeCheck   = time.Second
	networkCheck = 100 * time.Millisecond
	// runtimeCheck is the interval at which the runtime is asked once its network is ready.
	runtimeCheck = 5 * time.Second
)

// networkGate holds back the pods that need a network until it is ready.
type networkGate struct {
	mu sync.Mutex
	// mu guards the fields below.
	runtime error // why the runtime is not ready; nil if it is ready
	network error // why its network is not ready; nil if it is ready
	known   bool  // the runtime has been asked
}

func (g *networkGate) isOpen() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.known && g.network == nil
}

// reason returns why the network is not ready.
func (g *networkGate) reason() string {
	runtime, network := g.state()
	if runtime != nil {
		return runtime.Error()
	}
	if network != nil {
		return network.Error()
	}
	return "container runtime network not ready"
}

func (g *networkGate) state() (runtime, network error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.known {
		return fmt.Errorf("container runtime status check may not have completed yet"), nil
	}
	return g.runtime, g.network
}

// openNetwork waits for the node's pod range, sets up the network with it, and then checks the
// runtime at intervals. Pods and the Node are updated after each change.
func (k *Kubelet) openNetwork(ctx context.Context) {
	k.askRuntime(ctx)
	cidr, ok := k.podRange(ctx)
	if !ok {
		return
	}
	given := cidr == "" || k.setRange(ctx, cidr)
	for pause := firstCheck; given; pause = min(2*pause, networkCheck) {
		if k.askRuntime(ctx) {
			pause = runtimeCheck
		}
		given = sleep(ctx, pause)
	}
}

// setRange sets up the network with a pod range. It returns false if ctx is done before.
func (k *Kubelet) setRange(ctx context.Context, cidr string) bool {
	if k.config.Network != nil && !retry(ctx, k.log, "network is not set up", func() error { return k.config.Network(ctx, cidr) }) {
		return false
	}
	return retry(ctx, k.log, "runtime does not take the pod range", func() error {
		_, err := k.config.Runtime.UpdateRuntimeConfig(ctx, &runtimeapi.UpdateRuntimeConfigRequest{
			RuntimeConfig: &runtimeapi.RuntimeConfig{NetworkConfig: &runtimeapi.NetworkConfig{PodCidr: cidr}},
		})
		return err
	})
}

// podRange reads the Node until it has a pod range. Two ranges are separated by a comma. Without an
// API server, it returns the configured range, which may be empty.
func (k *Kubelet) podRange(ctx context.Context) (string, bool) {
	if k.config.standalone() {
		return k.config.PodCIDR, true
	}
	for pause := firstCheck; ; pause = min(2*pause, rangeCheck) {
		node, err := k.config.Nodes.Get(ctx, "", k.config.NodeName)
		if err == nil && node.Spec.PodCIDR != "" {
			cidr := node.Spec.PodCIDR
			if len(node.Spec.PodCIDRs) > 1 {
				cidr += "," + node.Spec.PodCIDRs[1]
			}
			return cidr, true
		}
		k.askRuntime(ctx)
		if !sleep(ctx, pause) {
			return "", false
		}
	}
}

// askRuntime reads the runtime's status and reports whether it is ready.
func (k *Kubelet) askRuntime(ctx context.Context) bool {
	out, err := k.config.Runtime.Status(ctx, &runtimeapi.StatusRequest{})
	runtime, network := runtimeConditions(out, err)
	if ctx.Err() != nil {
		return false
	}
	if err == nil {
		k.abilities.Learn(out)
	}
	g := &k.network
	g.mu.Lock()
	changed := !g.known || message(g.runtime) != message(runtime) || message(g.network) != message(network)
	g.runtime, g.network, g.known = runtime, network, true
	g.mu.Unlock()
	if changed {
		k.reportNow()
		k.wakeAll()
	}
	return runtime == nil && network == nil
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// runtimeConditions reads the runtime's two conditions, with the messages of the Kubernetes
// kubelet.
func runtimeConditions(out *runtimeapi.StatusResponse, err error) (runtime, network error) {
	if err != nil {
		return fmt.Errorf("container runtime is down: %w", err), nil
	}
	runtime = fmt.Errorf("container runtime status check may not have completed yet")
	network = fmt.Errorf("container runtime network not ready: NetworkReady=false")
	for _, c := range out.GetStatus().GetConditions() {
		said := fmt.Sprintf("%s=%t reason:%s message:%s", c.GetType(), c.GetStatus(), c.GetReason(), c.GetMessage())
		switch {
		case c.GetType() == runtimeapi.RuntimeReady && c.GetStatus():
			runtime = nil
		case c.GetType() == runtimeapi.RuntimeReady:
			runtime = fmt.Errorf("container runtime not ready: %s", said)
		case c.GetType() == runtimeapi.NetworkReady && c.GetStatus():
			network = nil
		case c.GetType() == runtimeapi.NetworkReady:
			network = fmt.Errorf("container runtime network not ready: %s", said)
		}
	}
	return runtime, network
}

// readyCondition returns the Node's Ready condition. Its message has every reason why the node is not
// ready.
func (k *Kubelet) readyCondition() corev1.NodeCondition {
	var reasons []string
	runtime, network := k.network.state()
	for _, err := range []error{runtime, k.relistHealth(), network} {
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
