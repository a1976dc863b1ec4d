// Package nodes runs the nodes of a control plane in its process, or a node of one in another
// process: for each a kubelet, its server, and the container runtime below it.
//
//	config := plane.Config{Parts: []plane.Part{nodes.InMemory(dir, 3)}}
//
// [InMemory] has nodes whose containers are entries in a table. [Start] runs nodes on
// any [Runtime]: what it starts, stops and cleans up belongs to the node. [StartRemote]
// runs one whose control plane is reached over TLS.
//
// A kubelet acts as the node's own user, within the process; its server believes
// client certificates of the control plane's authority and asks its authorizers. All
// nodes start at once and stop at once. A node that fails takes the others down, and
// the control plane with them. On the way out a kubelet stops its pods, which takes
// their grace period unless StopNow ends it. Where the stack leaves what outlives the process, the
// pods keep running, with their network and runtime.
package nodes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/cri"
	"github.com/planekit/planekit/kubelet/eviction"
	"github.com/planekit/planekit/kubelet/hook"
	"github.com/planekit/planekit/kubelet/metrics"
	"github.com/planekit/planekit/kubelet/probe"
	probemetrics "github.com/planekit/planekit/kubelet/probe/metrics"
	"github.com/planekit/planekit/kubelet/server"
	"github.com/planekit/planekit/kubelet/staticpods"
	"github.com/planekit/planekit/kubelet/trustbundle"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/stack"
	corev1 "k8s.io/api/core/v1"
)

// Config describes a node. Name, Dir, Address and Runtime must be set.
type Config struct {
	Name string
	// Dir is for the kubelet's state and the logs of containers.
	Dir string
	// Address is where the kubelet's server listens, on Port. Zero means a free port.
	Address string
	Port    int32
	// CgroupRoot is the cgroup of the node's pods; empty means none.
	CgroupRoot string
	Runtime    Runtime
	// ManifestPath is a directory with the manifests of the node's static pods, or one manifest. Empty
	// means that there are none. See package kubelet/staticpods.
	ManifestPath string
	// Moved is set if pods of an earlier run have addresses of another range. They and their
	// network are removed first.
	Moved bool
	// StopNow, when closed, ends the grace periods of pods that are being stopped.
	StopNow <-chan struct{}
	// Kubelet, when set, changes the configuration of the kubelet after all other fields but Runtime,
	// Images, Pods and Port are set. It can add labels, taints, capacity and volume plugins.
	Kubelet func(*kubelet.Config)
	// StaticPods, when set, changes where the node's static pods come from after ManifestPath is set. It can
	// add a URL.
	StaticPods func(*staticpods.Config)
	// Server, when set, changes the configuration of the kubelet's server after NodeName, TLS,
	// Authenticate and Authorize are set. It can change the versions and cipher suites of TLS.
	Server func(*server.Config)
	// Started, when set, is called with the kubelet once the node is ready.
	Started func(*kubelet.Kubelet)
	// Log is silent when zero.
	Log logr.Logger
}

// A Runtime is the container runtime of one node, with the network that its pods get. If it is a
// [probe.Prober] or a [hook.Caller], it makes the probes and calls the hooks of the node's pods.
type Runtime interface {
	// Start brings the runtime up on s and returns its CRI socket. If the runtime is a
	// [Connector], the socket need not be in the file system.
	Start(ctx context.Context, s *stack.Stack) (socket string, err error)
	// Network gives the pods of the node addresses in podCIDR.
	Network(ctx context.Context, podCIDR string) error
	// ForgetNetwork removes the network that an earlier run has set up.
	ForgetNetwork(ctx context.Context) error
	// Cleanup removes the runtime's remains when no pods are left. The runtime may be started again
	// afterwards. It is not called where the stack leaves them.
	Cleanup(ctx context.Context) error
}

// A Connector is a Runtime that connects to its socket itself.
type Connector interface {
	Connect(ctx context.Context, socket string) (net.Conn, error)
}

// A StreamDialer is a Runtime that connects to the URLs of its streams itself.
type StreamDialer interface {
	DialStream(ctx context.Context, network, address string) (net.Conn, error)
}

// node is one kubelet and what it stands on: a container runtime, the pod network, a
// cache of its pods.
type node struct {
	name        string
	api         *client.Client
	startCaches func(context.Context, *stack.Stack) error // of controlPlane
	runtime     Runtime
	config      kubelet.Config
	server      nodeServer
	metrics     *metrics.Metrics
	log         logr.Logger
	moved       bool
	// static says where static pods come from; without a path and a URL there are none.
	static  staticpods.Config
	started func(*kubelet.Kubelet) // Config.Started
	ready   chan struct{}
	// kubelet is set once it was made, ended when the node has stopped. Both may be
	// read meanwhile.
	kubelet atomic.Pointer[kubelet.Kubelet]
	ended   atomic.Bool
}

// cleanupTimeout bounds the cleanup of each node on the way out.
const cleanupTimeout = 20 * time.Second

// Start starts nodes on s and waits until each is ready for pods. It is for a
// [plane.Part].
func Start(ctx context.Context, p *plane.Plane, s *stack.Stack, configs ...Config) error {
	if most := ranges(p.PodCIDR()); len(configs) > most {
		return fmt.Errorf("nodes: %d nodes, but PodCIDR %s has ranges for %d", len(configs), p.PodCIDR(), most)
	}
	var nodes []*node
	for _, c := range configs {
		cp, err := inProcess(p, c)
		if err != nil {
			return err
		}
		n, err := newNode(cp, c)
		if err != nil {
			return err
		}
		nodes = append(nodes, n)
	}
	return startAll(ctx, s, nodes)
}

// startAll starts nodes on s and waits until each is ready for pods.
func startAll(ctx context.Context, s *stack.Stack, nodes []*node) error {
	for _, n := range nodes {
		n.config.Leave = s.Leave
	}
	part := s.Start("nodes", runNodes(nodes))
	part.Bounded, part.WaitingFor = true, func() string { return waitingFor(nodes) }
	for _, n := range nodes {
		if err := s.Await(ctx, n.ready); err != nil {
			return err
		}
	}
	return nil
}

// ranges returns how many nodes get a range of pod addresses, of the size that plane.Config has. Any other
// one would wait for its range for ever.
func ranges(all netip.Prefix) int {
	bits := 24
	if all.Addr().Is6() {
		bits = 64
	}
	const plenty = 30 // so that the number is an int everywhere
	return 1 << min(max(bits-all.Bits(), 0), plenty)
}

func newNode(cp controlPlane, c Config) (*node, error) {
	log := c.Log.WithValues("node", c.Name)
	config := kubelet.Config{
		NodeName:   c.Name,
		Root:       filepath.Join(c.Dir, "kubelet"),
		LogRoot:    filepath.Join(c.Dir, "logs"),
		CgroupRoot: c.CgroupRoot,
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: c.Address},
			{Type: corev1.NodeHostName, Address: c.Name},
		},
		Services: cp.services,
		Network:  c.Runtime.Network,
		// The machine belongs to others too: by default, pods are evicted only for their own
		// limits, and images stay.
		Eviction:       kubelet.Eviction{Thresholds: []eviction.Threshold{}},
		ImageGC:        kubelet.ImageGC{High: 100},
		StopPodsOnExit: true,
		StopNow:        c.StopNow,
		Log:            log,
	}
	Connect(&config, cp.api)
	probes := probemetrics.New()
	config.ProbeObserver = probes
	config.RuntimeClasses = cp.runtimeClasses
	var err error
	if config.TrustBundles, err = trustbundle.New(cp.trustBundles); err != nil {
		return nil, err
	}
	config.Prober, _ = c.Runtime.(probe.Prober)
	config.Hooks, _ = c.Runtime.(hook.Caller)
	work := metrics.New(c.Name)
	config.Meters = kubelet.Meters{
		WorkerStarted: work.WorkerStarted, Synced: work.Synced, PodRunning: work.PodRunning, PodStarted: work.PodStarted,
		ContainerStarting: work.ContainerStarting, ContainerFailed: work.ContainerFailed,
		Relisted: work.Relisted, Evicted: work.Evicted, Resized: work.Resized,
		ResizeRequested: work.ResizeRequested, ResizeInfeasible: work.ResizeInfeasible, ResizeAccepted: work.ResizeAccepted,
	}
	if c.Kubelet != nil {
		c.Kubelet(&config)
	}
	serve := newNodeServer(cp, c)
	certificate := serve.config.TLS
	work.ServingCertificate(func() time.Time { return expiry(certificate) })
	serve.config.Metrics, serve.config.ProbeMetrics = work, probes
	return &node{
		name: c.Name, api: cp.api, startCaches: cp.startCaches, runtime: c.Runtime, config: config, server: serve, metrics: work, log: log,
		moved: c.Moved, static: staticPods(c, log), started: c.Started, ready: make(chan struct{}),
	}, nil
}

// run runs the node until ctx is done: the runtime first, the kubelet on top.
func (n *node) run(ctx context.Context) (err error) {
	s := stack.New()
	s.Now, s.Leave = n.config.StopNow, n.config.Leave
	defer func() {
		err = errors.Join(err, s.Stop())
		if !s.Leaves() {
			err = errors.Join(err, n.clean())
		}
		n.ended.Store(true)
	}()
	socket, err := n.runtime.Start(ctx, s)
	if err != nil {
		return err
	}
	options := cri.Options{Observe: n.metrics.Observe}
	if c, ok := n.runtime.(Connector); ok {
		options.Connect = c.Connect
	}
	containers, err := cri.Dial(ctx, socket, options)
	if err != nil {
		return err
	}
	defer containers.Close()
	n.metrics.Count(containers)

	pods, err := PodsOf(n.name, n.api, n.log)
	if err != nil {
		return err
	}
	n.config.Runtime, n.config.Images, n.config.Pods = containers, containers, pods
	if err := n.startStatic(s); err != nil {
		return err
	}
	running := runningPods{n, pods}
	n.server.config.MirrorUID, n.server.config.VolumeStats = running.mirrorUID, running.volumeStats
	if d, ok := n.runtime.(StreamDialer); ok {
		n.server.config.DialStream = d.DialStream
	}
	if n.config.Port, err = n.server.start(s, n.config, running, n.static, containers); err != nil {
		return err
	}
	k, err := kubelet.New(n.config)
	if err != nil {
		return err
	}
	if n.moved {
		if err := errors.Join(k.StopPods(ctx), n.runtime.ForgetNetwork(ctx)); err != nil {
			return err
		}
	}
	if n.startCaches != nil {
		if err := n.startCaches(ctx, s); err != nil {
			return err
		}
	}
	n.kubelet.Store(k)
	n.metrics.CountResizes(k.Resizes)
	n.metrics.CountVolumes(k.ClaimStats)
	s.Start("pod informer", pods.Run)
	s.Start("kubelet", k.Run).Bounded = true
	if err := s.Await(ctx, k.Ready()); err != nil {
		return err
	}
	if n.started != nil {
		n.started(k)
	}
	close(n.ready)
	// The connection outlives the kubelet, which stops its pods on the way out.
	err = s.Run(ctx)
	return errors.Join(err, s.Stop())
}

// clean runs when the stack is down, even if the context has ended.
func (n *node) clean() error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
	defer cancel()
	return n.runtime.Cleanup(ctx)
}

// maxNamed bounds the pods that are named while they are waited for.
const maxNamed = 5

// waitingFor names the nodes that have not stopped yet, and their pods.
func waitingFor(nodes []*node) string {
	var all []string
	for _, n := range nodes {
		if n.ended.Load() {
			continue
		}
		text := n.name
		if k := n.kubelet.Load(); k != nil {
			if pods := k.Stopping(); len(pods) > maxNamed {
				text += fmt.Sprintf(": %s and %d more pods", strings.Join(pods[:maxNamed], ", "), len(pods)-maxNamed)
			} else if len(pods) > 0 {
				text += ": " + strings.Join(pods, ", ")
			}
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

// runNodes runs all nodes at once, so that they also stop at once.
func runNodes(nodes []*node) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var running sync.WaitGroup
		failures := make([]error, len(nodes))
		for i, n := range nodes {
			running.Go(func() {
				// A node that fails takes the others down, and the cluster with them.
				defer cancel()
				if err := n.run(ctx); err != nil && !errors.Is(err, context.Canceled) {
					failures[i] = fmt.Errorf("%s: %w", n.name, err)
				}
			})
		}
		<-ctx.Done() // also where there are no nodes
		running.Wait()
		return errors.Join(failures...)
	}
}
