package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/cri"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// node is one kubelet and what it stands on: a container runtime, the pod
// network, a local copy of its pods.
type node struct {
	name    string
	api     *client.Client
	runtime nodeRuntime
	config  kubelet.Config
	server  nodeServer
	log     logr.Logger
	ready   chan struct{}
}

// nodeRuntime is a container runtime in the making, with the network that its
// pods get.
type nodeRuntime interface {
	// start brings the runtime up on s and returns its CRI socket.
	start(ctx context.Context, s *stack) (socket string, err error)
	// network gives the pods of the node addresses in podCIDR.
	network(ctx context.Context, podCIDR string) error
	// cleanup removes what is left when all pods are gone.
	cleanup(ctx context.Context) error
}

// cleanupTimeout bounds each node's cleaning up on the way out.
const cleanupTimeout = 20 * time.Second

func (c *cluster) newNode(index int, runtime nodeRuntime) (*node, error) {
	name := nodeName(index)
	log := c.log.WithValues("node", name)
	api, err := c.clientFor(&user.Info{Name: user.NodePrefix + name, Groups: []string{user.Nodes, user.Authenticated}})
	if err != nil {
		return nil, err
	}
	config := kubelet.Config{
		NodeName:   name,
		Root:       c.dir.join("nodes", name, "kubelet"),
		LogRoot:    c.dir.join("nodes", name, "logs"),
		CgroupRoot: c.cgroupRoot(name),
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: hostAddress(c.options.podNetwork)},
			{Type: corev1.NodeHostName, Address: name},
		},
		PodStatus:      typed.Pods(api),
		Nodes:          typed.Nodes(api),
		Leases:         typed.Leases(api),
		Events:         typed.Events(api),
		Secrets:        typed.Secrets(api).Get,
		ConfigMaps:     typed.ConfigMaps(api).Get,
		Tokens:         requestTokens(api),
		Network:        runtime.network,
		StopPodsOnExit: true,
		Log:            log,
	}
	server, err := c.newNodeServer(name, config.Addresses)
	if err != nil {
		return nil, err
	}
	return &node{name: name, api: api, runtime: runtime, config: config, server: server, log: log, ready: make(chan struct{})}, nil
}

func nodeName(index int) string { return fmt.Sprintf("node-%d", index+1) }

// run runs the node until ctx is done: the runtime first, the kubelet on top.
func (n *node) run(ctx context.Context) (err error) {
	s := newStack()
	defer func() {
		err = errors.Join(err, s.stop(), n.clean())
	}()
	socket, err := n.runtime.start(ctx, s)
	if err != nil {
		return err
	}
	containers, err := cri.Dial(ctx, socket, cri.Options{})
	if err != nil {
		return err
	}
	defer containers.Close()

	mine := fields.OneTermEqualSelector("spec.nodeName", n.name).String()
	pods, err := copyOf(typed.Pods(n.api).Where("", "", mine), n.log)
	if err != nil {
		return err
	}
	n.config.Runtime, n.config.Images, n.config.Pods = containers, containers, pods
	if n.config.Port, err = n.server.start(s, n.config, pods, containers); err != nil {
		return err
	}
	k, err := kubelet.New(n.config)
	if err != nil {
		return err
	}
	s.start("pod informer", pods.Run)
	s.start("kubelet", k.Run)
	if err := s.await(ctx, k.Ready()); err != nil {
		return err
	}
	close(n.ready)
	// The connection outlives the kubelet, which stops its pods on the way out.
	err = s.run(ctx)
	return errors.Join(err, s.stop())
}

// clean runs when the stack is down, whatever became of the context.
func (n *node) clean() error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
	defer cancel()
	return n.runtime.cleanup(ctx)
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

// hostAddress is the address of the machine that others would reach it by, or
// the loopback address where it has none. Bridges of an earlier run, with an
// address of the pods', do not count.
func hostAddress(pods netip.Prefix) string {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return "127.0.0.1"
	}
	for _, address := range addresses {
		network, ok := address.(*net.IPNet)
		if !ok {
			continue
		}
		ip, ok := netip.AddrFromSlice(network.IP.To4())
		if ok && ip.IsGlobalUnicast() && !pods.Contains(ip) {
			return ip.String()
		}
	}
	return "127.0.0.1"
}

// socketPath is dir/name, or a short path where that is too long for a socket
// (107 bytes, unix(7)).
func (c *cluster) socketPath(dir, name string) string {
	if path := filepath.Join(dir, name); len(path) <= 107 {
		return path
	}
	return filepath.Join(os.TempDir(), "planekit-"+c.dir.id+"-"+name)
}
