package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/examples/cluster/machine"
	"github.com/planekit/planekit/examples/cluster/nodeimages"
	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/server/tlsfiles"
	"github.com/planekit/planekit/plane/join"
	"github.com/planekit/planekit/plane/nodes"
	"github.com/planekit/planekit/plane/podnetwork"
)

// startNode starts what a node stands on whose control plane is in another process, and then the node.
func (c *cluster) startNode(ctx context.Context) (announcement, error) {
	j := c.options.joining
	if err := c.claimNode(ctx); err != nil {
		return nil, err
	}
	address := j.ip
	if !address.IsValid() {
		address = machine.HostAddress(netip.Prefix{})
	}
	remote, err := c.controlPlane(ctx, address)
	if err != nil {
		return nil, err
	}
	network, err := podnetwork.Read(ctx, remote.Client, c.log)
	if err != nil {
		return nil, err
	}
	c.podNetwork = network.Pods
	if err := c.joinNetwork(remote.Client, network, address); err != nil {
		return nil, err
	}
	mirrors, err := c.mirrors(ctx, c.stack)
	if err != nil {
		return nil, err
	}
	if c.records, err = nodeimages.NewRecords(c.dir.Path()); err != nil {
		return nil, err
	}
	config, err := c.node(place{
		name: j.name, dir: c.dir.Join("nodes", j.name), bridge: machine.Bridge(c.dir.ID(), 1), cgroup: cmp.Or(j.cgroup, c.cgroupRoot(j.name)),
	}, mirrors)
	if err != nil {
		return nil, err
	}
	config.Port, config.ManifestPath, config.StaticPods = j.port, c.options.manifestPath, c.options.kubelet.StaticPods
	config.Address = address.String()
	configure := c.options.configureKubelet
	if c.runtime != "fake" && network.DNS.IsValid() {
		configure = c.withDNS(network.DNS)
	}
	config.Kubelet = func(k *kubelet.Config) {
		configure(k)
		k.Protect = c.protect
	}
	if err := nodes.StartRemote(ctx, c.stack, remote, config); err != nil {
		return nil, err
	}
	announce := func(stdout io.Writer) {
		fmt.Fprintf(stdout, "node %s\n", j.name)
		if c.notice != "" {
			fmt.Fprintf(stdout, "\n%s\n", c.notice)
		}
		if notice := c.networkNotice(); notice != "" {
			fmt.Fprintf(stdout, "\n%s\n", notice)
		}
	}
	return announce, c.watchShutdown(ctx, nil, c.stack)
}

// withDNS returns what configures a kubelet whose pods ask the cluster's DNS, unless --kubelet-config says other
// servers.
func (c *cluster) withDNS(address netip.Addr) func(*kubelet.Config) {
	return func(k *kubelet.Config) {
		c.options.configureKubelet(k)
		if len(k.ClusterDNS) == 0 {
			k.ClusterDNS, k.ClusterDomain = []string{address.String()}, cmp.Or(k.ClusterDomain, podnetwork.Domain)
		}
	}
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
	if err := registry.Claim(c.dir.ID(), machine.Record{DataDir: c.dir.Path()}); err != nil {
		return err
	}
	c.registry = registry
	return nil
}

// controlPlane returns how the node, which has that address, reaches its control plane.
func (c *cluster) controlPlane(ctx context.Context, address netip.Addr) (nodes.Remote, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert}
	c.options.kubelet.TLS(config)
	file := c.options.kubeconfig
	if c.options.joining.server != "" {
		joiner, err := c.join(ctx, address)
		if err != nil {
			return nodes.Remote{}, err
		}
		file, config.GetCertificate = joiner.Kubeconfig(), joiner.ServingCertificate
	} else {
		cert, key := c.options.serving.Files()
		files, err := tlsfiles.New(tlsfiles.Config{CertFile: cert, KeyFile: key, TLS: config, Log: c.log})
		if err != nil {
			return nodes.Remote{}, fmt.Errorf("--tls-cert-file, --tls-private-key-file: %w", err)
		}
		c.stack.Start("serving certificate", files.Run)
		config = files.TLS()
	}
	api, roots, err := c.connect(file)
	return nodes.Remote{Client: api, TLS: config, ClientCAs: func() *x509.CertPool { return roots }}, err
}

// join gets the node's certificates, and renews them as long as the node runs.
func (c *cluster) join(ctx context.Context, address netip.Addr) (*join.Joiner, error) {
	o := c.options.joining
	if o.tokenFile != "" {
		text, err := os.ReadFile(o.tokenFile)
		if err != nil {
			return nil, fmt.Errorf("--token-file: %w", err)
		}
		o.token = strings.TrimSpace(string(text))
	}
	joiner, err := join.New(join.Config{
		Server: o.server, Token: o.token, CAHashes: o.caHashes, Node: o.name, Dir: c.dir.Join("credentials"),
		Addresses: func() ([]netip.Addr, []string) { return []netip.Addr{address}, []string{o.name} },
		Log:       c.log.WithName("join"),
	})
	if err != nil {
		return nil, err
	}
	if err := joiner.JoinWhenReachable(ctx); err != nil {
		return nil, err
	}
	c.stack.Start("certificates", joiner.Run)
	return joiner, nil
}

// connect returns a client with the credentials in a file, and the authorities of the cluster.
func (c *cluster) connect(path string) (*client.Client, *x509.CertPool, error) {
	file, err := kubeconfig.Load(path)
	if err != nil {
		return nil, nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	config, _, err := file.Client("")
	if err != nil {
		return nil, nil, fmt.Errorf("--kubeconfig %s: %w", path, err)
	}
	if config.TLS == nil || config.TLS.RootCAs == nil {
		return nil, nil, fmt.Errorf("--kubeconfig %s: the cluster has no certificate-authority: a node speaks TLS only", path)
	}
	config.UserAgent = "kubelet"
	api, err := client.New(config)
	if err != nil {
		return nil, nil, err
	}
	c.stack.OnStop("connections to the API server", func() error { api.Close(); return nil })
	return api, config.TLS.RootCAs, nil
}
