// Package podnetwork holds back the pods of a node until their network is ready. It waits for the node's range
// of pod addresses, sets up the network with it, and then asks the runtime at intervals.
//
//	gate := podnetwork.New(podnetwork.Config{Runtime: runtime, Node: node, ...})
//	go gate.Run(ctx)
//	if !gate.IsOpen() { // gate.Reason() says why
package podnetwork

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/kubelet/internal/pause"
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

// Runtime is the part of a runtime that has the network.
type Runtime interface {
	Status(context.Context, *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error)
	UpdateRuntimeConfig(context.Context, *runtimeapi.UpdateRuntimeConfigRequest) (*runtimeapi.UpdateRuntimeConfigResponse, error)
}

// Config describes a Gate. All fields but Node, PodCIDR, SetUp and Log must be set.
type Config struct {
	Runtime Runtime
	// Node reads the Node, which has the range of pod addresses. Nil means that this is PodCIDR, which may be
	// empty: the runtime then has a network of its own.
	Node    func(ctx context.Context) (*corev1.Node, error)
	PodCIDR string
	// SetUp is called with the range until it succeeds. It may be nil.
	SetUp func(ctx context.Context, podCIDR string) error
	// Learn is called with each status of the runtime, and Changed when the runtime or its network has become
	// ready, or is no longer.
	Learn   func(*runtimeapi.StatusResponse)
	Changed func()
	Log     logr.Logger
}

// Gate holds back the pods that need a network until it is ready. Its methods are safe for concurrent use.
type Gate struct {
	config Config

	mu sync.Mutex
	// mu guards the fields below.
	runtime error // why the runtime is not ready; nil if it is ready
	network error // why its network is not ready; nil if it is ready
	known   bool  // the runtime has been asked
}

// New returns a gate, which is closed.
func New(c Config) *Gate { return &Gate{config: c} }

// IsOpen reports whether pods can have a network.
func (g *Gate) IsOpen() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.known && g.network == nil
}

// Reason returns why the network is not ready.
func (g *Gate) Reason() string {
	runtime, network := g.State()
	if runtime != nil {
		return runtime.Error()
	}
	if network != nil {
		return network.Error()
	}
	return "container runtime network not ready"
}

// State returns why the runtime and why its network is not ready; nil if it is.
func (g *Gate) State() (runtime, network error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.known {
		return fmt.Errorf("container runtime status check may not have completed yet"), nil
	}
	return g.runtime, g.network
}

// Run waits for the node's pod range, sets up the network with it, and then checks the runtime at intervals
// until ctx is done.
func (g *Gate) Run(ctx context.Context) {
	g.askRuntime(ctx)
	cidr, ok := g.podRange(ctx)
	if !ok {
		return
	}
	given := cidr == "" || g.setRange(ctx, cidr)
	for wait := firstCheck; given; wait = min(2*wait, networkCheck) {
		if g.askRuntime(ctx) {
			wait = runtimeCheck
		}
		given = pause.For(ctx, wait)
	}
}

// setRange sets up the network with a pod range. It returns false if ctx is done before.
func (g *Gate) setRange(ctx context.Context, cidr string) bool {
	if g.config.SetUp != nil && !pause.Retry(ctx, g.config.Log, "network is not set up", func() error { return g.config.SetUp(ctx, cidr) }) {
		return false
	}
	return pause.Retry(ctx, g.config.Log, "runtime does not take the pod range", func() error {
		_, err := g.config.Runtime.UpdateRuntimeConfig(ctx, &runtimeapi.UpdateRuntimeConfigRequest{
			RuntimeConfig: &runtimeapi.RuntimeConfig{NetworkConfig: &runtimeapi.NetworkConfig{PodCidr: cidr}},
		})
		return err
	})
}

// podRange reads the Node until it has a pod range. Two ranges are separated by a comma. Without an
// API server, it returns the configured range, which may be empty.
func (g *Gate) podRange(ctx context.Context) (string, bool) {
	if g.config.Node == nil {
		return g.config.PodCIDR, true
	}
	for wait := firstCheck; ; wait = min(2*wait, rangeCheck) {
		node, err := g.config.Node(ctx)
		if err == nil && node.Spec.PodCIDR != "" {
			cidr := node.Spec.PodCIDR
			if len(node.Spec.PodCIDRs) > 1 {
				cidr += "," + node.Spec.PodCIDRs[1]
			}
			return cidr, true
		}
		g.askRuntime(ctx)
		if !pause.For(ctx, wait) {
			return "", false
		}
	}
}

// askRuntime reads the runtime's status and reports whether it is ready.
func (g *Gate) askRuntime(ctx context.Context) bool {
	out, err := g.config.Runtime.Status(ctx, &runtimeapi.StatusRequest{})
	runtime, network := runtimeConditions(out, err)
	if ctx.Err() != nil {
		return false
	}
	if err == nil {
		g.config.Learn(out)
	}
	g.mu.Lock()
	changed := !g.known || message(g.runtime) != message(runtime) || message(g.network) != message(network)
	g.runtime, g.network, g.known = runtime, network, true
	g.mu.Unlock()
	if changed {
		g.config.Changed()
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
