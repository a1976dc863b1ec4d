package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/examples/cluster/machine"
	"github.com/planekit/planekit/kubelet/server/tlsfiles"
	"github.com/planekit/planekit/plane/nodes"
	"github.com/planekit/planekit/plane/stack"
)

// runNode brings one node up, says so on stdout, and runs it until ctx is done. Its control plane is in another
// process.
func runNode(ctx context.Context, o options, stdout io.Writer, log logr.Logger) (err error) {
	begin := time.Now()
	c := &cluster{options: o, log: log, stack: stack.New()}
	c.stack.Now = o.stopNow
	if err := c.chooseRuntime(); err != nil {
		return err
	}
	if c.dir, err = openDataDir(o.dataDir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.dir.close()) }()
	defer func() { err = errors.Join(err, c.stop()) }()
	if err := c.startNode(ctx); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "ready in %v: node %s\n", time.Since(begin).Round(time.Millisecond), o.joining.name)
	if c.notice != "" {
		fmt.Fprintf(stdout, "\n%s\n", c.notice)
	}
	return c.stack.Run(ctx)
}

// startNode starts what the node stands on, and then the node.
func (c *cluster) startNode(ctx context.Context) error {
	j := c.options.joining
	if err := c.claimNode(ctx); err != nil {
		return err
	}
	remote, err := c.controlPlane()
	if err != nil {
		return err
	}
	network, err := c.readNetwork(ctx, remote.Client)
	if err != nil {
		return err
	}
	c.podNetwork = network.Network
	var mirrors map[string]string
	if c.runtime == "containerd" {
		if mirrors, err = c.mirrors(ctx, c.stack); err != nil {
			return err
		}
	}
	config, err := c.node(place{
		name: j.name, dir: c.dir.join("nodes", j.name), bridge: machine.Bridge(c.dir.id, 1), cgroup: cmp.Or(j.cgroup, c.cgroupRoot(j.name)),
	}, mirrors)
	if err != nil {
		return err
	}
	config.Port, config.ManifestPath, config.StaticPods = j.port, c.options.manifestPath, c.options.configureStatic
	if j.ip.IsValid() {
		config.Address = j.ip.String()
	}
	if err := nodes.StartRemote(ctx, c.stack, remote, config); err != nil {
		return err
	}
	return c.watchShutdown(ctx, nil, c.stack)
}

// claimNode records that the node is this process's, so that no cluster on this machine removes what it has.
func (c *cluster) claimNode(ctx context.Context) error {
	if c.runtime == "fake" {
		return nil
	}
	registry, err := machine.Open(machine.Dir)
	if err != nil {
		return err
	}
	unlock, err := registry.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := registry.Claim(c.dir.id, machine.Record{DataDir: c.dir.path}); err != nil {
		return err
	}
	c.registry = registry
	return nil
}

// controlPlane returns how the node reaches its control plane, by the files that the options name.
func (c *cluster) controlPlane() (nodes.Remote, error) {
	file, err := kubeconfig.Load(c.options.kubeconfig)
	if err != nil {
		return nodes.Remote{}, fmt.Errorf("--kubeconfig: %w", err)
	}
	config, _, err := file.Client("")
	if err != nil {
		return nodes.Remote{}, fmt.Errorf("--kubeconfig %s: %w", c.options.kubeconfig, err)
	}
	if config.TLS == nil || config.TLS.RootCAs == nil {
		return nodes.Remote{}, fmt.Errorf("--kubeconfig %s: the cluster has no certificate-authority: a node speaks TLS only", c.options.kubeconfig)
	}
	config.UserAgent = "kubelet"
	api, err := client.New(config)
	if err != nil {
		return nodes.Remote{}, err
	}
	c.stack.OnStop("connections to the API server", func() error { api.Close(); return nil })
	base := &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert}
	if c.options.kubelet != nil {
		c.options.program.ApplyTLS(base)
	}
	files, err := tlsfiles.New(tlsfiles.Config{
		CertFile: c.options.joining.certFile, KeyFile: c.options.joining.keyFile, TLS: base, Log: c.log,
	})
	if err != nil {
		return nodes.Remote{}, fmt.Errorf("--tls-cert-file, --tls-private-key-file: %w", err)
	}
	c.stack.Start("serving certificate", files.Run)
	roots := config.TLS.RootCAs
	return nodes.Remote{Client: api, TLS: files.TLS(), ClientCAs: func() *x509.CertPool { return roots }}, nil
}
