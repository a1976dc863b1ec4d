package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/planekit/planekit/bench/peer"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/examples/cluster/containerd"
	"github.com/planekit/planekit/examples/cluster/machine"
)

// The kinds of nodes, which are also their names, and the runtime without a kubelet.
const (
	planekit    = "planekit"
	stock       = "stock"
	bareRuntime = "bare"
)

// node is a kubelet on a containerd.
type node struct {
	kind    string
	dir     string
	cgroup  string
	daemon  *containerd.Daemon
	kubelet *peer.Process
}

// network is read by the runtime to see that there is one. No pod uses it.
const network = `{"cniVersion":"1.0.0","name":"unused","plugins":[{"type":"bridge","ipam":{"type":"host-local","subnet":"10.9.0.0/24"}}]}`

// startNode starts a node and waits until it is ready. A node that is returned must be stopped, also
// with an error.
func startNode(ctx context.Context, kind, dir string, p *plane) (*node, error) {
	n := &node{kind: kind, dir: dir, cgroup: "/" + filepath.Base(filepath.Dir(dir)) + "-" + kind}
	conf := filepath.Join(dir, "net.d")
	if err := os.MkdirAll(conf, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(conf, "10-unused.conflist"), []byte(network), 0o644); err != nil {
		return nil, err
	}
	var err error
	n.daemon, err = containerd.New(containerd.Config{
		Root: filepath.Join(dir, "containerd"), CNIConf: conf, CNIBin: "/usr/lib/cni",
		Mirrors: map[string]string{"docker.io": p.registry, "registry.k8s.io": p.registry},
	})
	if err != nil {
		return nil, err
	}
	if err := n.daemon.Start(ctx); err != nil {
		return n, err
	}
	if err := makeCgroups(n.cgroup); err != nil {
		return n, err
	}
	program, arguments, err := n.command(dir, p)
	if err != nil {
		return n, err
	}
	if n.kubelet, err = peer.Launch(filepath.Join(dir, "kubelet.log"), program, arguments...); err != nil {
		return n, err
	}
	return n, n.awaitReady(ctx, p)
}

// makeCgroups makes a cgroup in every hierarchy, which the stock kubelet requires.
func makeCgroups(name string) error {
	all, err := filepath.Glob("/sys/fs/cgroup/*/cgroup.procs")
	if len(all) == 0 {
		all = []string{"/sys/fs/cgroup/cgroup.procs"} // version 2
	}
	for _, procs := range all {
		err = errors.Join(err, os.MkdirAll(filepath.Join(filepath.Dir(procs), name), 0o755))
	}
	return err
}

const configuration = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix://%s
failCgroupV1: false
failSwapOn: false
cgroupDriver: cgroupfs
cgroupRoot: %s
enforceNodeAllocatable: []
makeIPTablesUtilChains: false
address: 127.0.0.1
port: %s
healthzPort: 0
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
evictionHard: {}
imageGCHighThresholdPercent: 100
podLogsDir: %s
# As many as the pods need: neither the registry nor the API server is measured.
serializeImagePulls: false
registryPullQPS: 0
kubeAPIQPS: 1000
kubeAPIBurst: 2000
eventRecordQPS: 0
`

// command returns the command line of the node's kubelet.
func (n *node) command(dir string, p *plane) (program string, arguments []string, err error) {
	if n.kind == planekit {
		return p.program("ours"), []string{"--kubeconfig", p.stock.Config, "--node", n.kind, "--dir", dir,
			"--socket", n.daemon.Socket(), "--cgroup", n.cgroup}, nil
	}
	port, err := peer.FreePort()
	if err != nil {
		return "", nil, err
	}
	config := filepath.Join(dir, "kubelet.yaml")
	text := fmt.Sprintf(configuration, n.daemon.Socket(), n.cgroup, port, filepath.Join(dir, "logs"))
	return p.program("kubelet"), []string{"--config", config, "--kubeconfig", p.stock.Config,
			"--hostname-override", n.kind, "--root-dir", filepath.Join(dir, "kubelet"), "--cert-dir", filepath.Join(dir, "certs")},
		os.WriteFile(config, []byte(text), 0o600)
}

func (n *node) awaitReady(ctx context.Context, p *plane) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := peer.Poll(ctx, func() (bool, error) {
		object, err := typed.Nodes(p.api).Get(ctx, "", n.kind)
		if err != nil {
			return false, nil // not registered yet
		}
		for _, c := range object.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("node is not ready: %w", err)
	}
	return nil
}

// stop ends the kubelet and all pods.
func (n *node) stop() (err error) {
	if n.kubelet != nil {
		err = n.kubelet.Stop()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	err = errors.Join(err, n.daemon.Stop(ctx), machine.RemoveCgroups(ctx, n.cgroup))
	// The stock kubelet leaves its directory mounted on itself.
	if n.kind == stock {
		err = errors.Join(err, syscall.Unmount(filepath.Join(n.dir, "kubelet"), syscall.MNT_DETACH))
	}
	return err
}
