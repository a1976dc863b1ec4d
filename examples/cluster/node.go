package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/examples/cluster/machine"
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
	// moved says that what runs has addresses of another range than it is to have.
	moved bool
	ready chan struct{}
	// kubelet is set once it was made, ended when the node has stopped. Both may be
	// read meanwhile.
	kubelet atomic.Pointer[kubelet.Kubelet]
	ended   atomic.Bool
}

// nodeRuntime is a container runtime in the making, with the network that its
// pods get.
type nodeRuntime interface {
	// start brings the runtime up on s and returns its CRI socket.
	start(ctx context.Context, s *stack) (socket string, err error)
	// network gives the pods of the node addresses in podCIDR.
	network(ctx context.Context, podCIDR string) error
	// forgetNetwork removes the network that an earlier run had set up.
	forgetNetwork(ctx context.Context) error
	// cleanup removes what is left when all pods are gone. It may be started again
	// after that.
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
			{Type: corev1.NodeInternalIP, Address: hostAddress(c.podNetwork)},
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
		StopNow:        c.options.stopNow,
		Log:            log,
	}
	server, err := c.newNodeServer(name, config.Addresses)
	if err != nil {
		return nil, err
	}
	return &node{name: name, api: api, runtime: runtime, config: config, server: server, log: log, moved: c.moved, ready: make(chan struct{})}, nil
}

func nodeName(index int) string { return fmt.Sprintf("node-%d", index+1) }

// cgroupRoot is the cgroup of one node's pods; the cluster's identity keeps two
// clusters on one machine apart.
func (c *cluster) cgroupRoot(node string) string {
	if c.runtime == "fake" {
		return ""
	}
	return machine.Cgroup(c.dir.id) + "/" + node
}

// run runs the node until ctx is done: the runtime first, the kubelet on top.
func (n *node) run(ctx context.Context) (err error) {
	s := newStack()
	s.now = n.config.StopNow
	defer func() {
		err = errors.Join(err, s.stop(), n.clean())
		n.ended.Store(true)
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
	pods, err := newCache(typed.Pods(n.api).Where("", "", mine), n.log)
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
	if n.moved {
		if err := errors.Join(k.StopPods(ctx), n.runtime.forgetNetwork(ctx)); err != nil {
			return err
		}
	}
	n.kubelet.Store(k)
	s.start("pod informer", pods.Run)
	s.start("kubelet", k.Run).bounded = true
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

// socketPath is dir/name, or a short path where that is too long for a socket
// (107 bytes, unix(7)).
func (c *cluster) socketPath(dir, name string) string {
	if path := filepath.Join(dir, name); len(path) <= 107 {
		return path
	}
	return filepath.Join(os.TempDir(), "planekit-"+c.dir.id+"-"+name)
}
