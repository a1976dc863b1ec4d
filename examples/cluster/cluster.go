package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/admission/unsupported"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/examples/cluster/datadir"
	"github.com/planekit/planekit/examples/cluster/machine"
	"github.com/planekit/planekit/examples/cluster/nodeimages"
	"github.com/planekit/planekit/examples/cluster/objectstore"
	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/pki"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/credentials"
	"github.com/planekit/planekit/plane/customresources"
	"github.com/planekit/planekit/plane/join"
	"github.com/planekit/planekit/plane/metricsserver"
	"github.com/planekit/planekit/plane/nodes"
	"github.com/planekit/planekit/plane/observe"
	"github.com/planekit/planekit/plane/podnetwork"
	"github.com/planekit/planekit/plane/scavenge"
	"github.com/planekit/planekit/plane/stack"
	corev1 "k8s.io/api/core/v1"
)

// cluster is a control plane with what only this program has: etcd, files, machines.
// Its methods are in one file a part.
type cluster struct {
	options options
	// runtime is the runtime that was chosen: containerd or fake.
	runtime string
	// notice, when not empty, is said once the cluster is ready.
	notice string
	log    logr.Logger
	dir    *datadir.Dir
	// stack has what the control plane stands on, and the control plane.
	stack   *stack.Stack
	address net.Addr
	// podNetwork is the range of the pods' addresses; moved says that it was another
	// in the last run. registry has the claim to it; nil where none is needed.
	podNetwork netip.Prefix
	moved      bool
	registry   *machine.Registry
	// machineNetwork is the range of the addresses of machines, and gateway that of this one among them; not
	// valid without machines.
	machineNetwork netip.Prefix
	gateway        netip.Addr
	// leadsToServices reports whether addresses of services lead to machines from here; nil without machines.
	leadsToServices func() bool
	// mtu returns the MTU of pods' interfaces once packets get to nodes in other processes; nil where there are none.
	mtu func(context.Context) (int, error)
	// protect returns once the policies of a pod of this process's node hold; nil where there are none.
	protect func(ctx context.Context, pod *corev1.Pod, addresses []netip.Addr) error
	// startMachines starts the nodes as machines, which pull from mirror unless it is empty; nil where the nodes are in
	// this process.
	startMachines func(ctx context.Context, p *plane.Plane, s *stack.Stack, mirror string) error
	// invitation is for nodes in other processes; nil where none can join.
	invitation *join.Invitation
	shutdowns  nodes.Shutdowns // what ends pods before this machine shuts down
	records    nodeimages.Records
	// simulated has the nodes whose containers are simulated.
	simulated simulatedNodes
}

// run brings up what the role says, a control plane or one node, says so on stdout, and runs it until ctx is done.
func run(ctx context.Context, o options, stdout io.Writer, log logr.Logger) (err error) {
	begin := time.Now()
	c := &cluster{options: o, log: log, stack: stack.New()}
	c.stack.Now, c.stack.Leave = o.stopNow, o.leave
	if err := c.chooseRuntime(); err != nil {
		return err
	}
	if c.dir, err = datadir.Open(o.dataDir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.dir.Close()) }()
	defer func() { err = errors.Join(err, c.stop()) }()

	start := c.startPlane
	if o.role == roleNode {
		start = c.startNode
	}
	announce, err := start(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "ready in %v: ", time.Since(begin).Round(time.Millisecond))
	announce(stdout)
	scavenge.Settle()
	return c.stack.Run(ctx)
}

// stop stops all parts. What could not be removed stays claimed, for the next
// run on the data directory.
func (c *cluster) stop() error {
	told := make(chan struct{})
	defer close(told)
	go c.stack.Report(c.log, told)
	if err := c.stack.Stop(); err != nil || c.stack.Leaves() {
		return err
	}
	return c.releasePodNetwork()
}

// announcement says on stdout what is ready, and how to use it.
type announcement func(stdout io.Writer)

// startPlane starts what the control plane stands on, and then the control plane.
func (c *cluster) startPlane(ctx context.Context) (announcement, error) {
	// A port that is taken is found out before anything else has begun. The
	// server closes the listener, if it comes to that.
	listener, err := net.Listen("tcp", c.options.listen)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	first := listener
	c.stack.OnStop("listener", func() error { first.Close(); return nil })
	c.address = listener.Addr()
	if err := c.choosePodNetwork(ctx); err != nil {
		return nil, err
	}
	if listener, err = c.joinMachines(ctx, listener); err != nil {
		return nil, err
	}
	config, err := c.config(ctx, listener)
	if err != nil {
		return nil, err
	}
	p, err := plane.New(config)
	if err != nil {
		return nil, err
	}
	part := c.stack.Start("control plane", p.Run)
	part.Bounded, part.WaitingFor = true, p.WaitingFor
	return func(stdout io.Writer) { c.announce(stdout, p.URL()) }, c.stack.Await(ctx, p.Ready())
}

// config returns what the flags say of the control plane, whose store it opens.
func (c *cluster) config(ctx context.Context, listener net.Listener) (plane.Config, error) {
	o := &c.options
	keys, err := credentials.Open(c.dir.Join("pki"), servingHosts(c.address, append(c.serviceNames(), o.serving.Names()...))...)
	if err != nil {
		return plane.Config{}, err
	}
	serving, err := o.serving.Open()
	if err != nil {
		return plane.Config{}, err
	}
	if c.invitesToLoopback() { // such nodes trust the cluster's authority alone
		serving.Inside = append(serving.Inside, netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback())
	}
	tokens, err := c.dir.Tokens()
	if err != nil {
		return plane.Config{}, err
	}
	opened, err := objectstore.Open(ctx, objectstore.Config{Options: o.store, Dir: c.dir, Stack: c.stack, Log: c.log})
	if err != nil {
		return plane.Config{}, err
	}
	advertised := c.advertised()
	if !advertised.IsValid() {
		c.log.Info("the host has no address that pods could reach: default/kubernetes has no endpoints")
	}
	config := plane.Config{
		Store: opened.Store, Listener: listener, Credentials: keys, Serving: serving, Authenticators: []authn.Authenticator{tokens},
		PodCIDR: c.podNetwork, Advertise: advertised, MayDialNode: mayBeNode(machine.HostAddress(c.podNetwork)), SharedAddress: machine.HostAddress(c.podNetwork),
		SchedulerFile: o.scheduler,
		Configure: func(_ *plane.Plane, config *apiserver.Config) error {
			config.Checks = opened.Checks
			return nil
		},
		Parts:   []plane.Part{c.writeKubeconfig, c.publishNetwork, c.startMetricsServer, c.invite, c.startNodes, c.watchShutdown, startScavenger},
		StopNow: o.stopNow, Leave: o.leave,
		Log: c.log,
	}
	config.Admission.Unsupported = c.unsupported()
	customresources.Enable(&config)
	config.Controllers.LoadBalancerPool = o.balancerPool
	if err := observe.Add(&config, observe.Options{Profiles: o.profiling}); err != nil {
		return config, err
	}
	if c.gateway.IsValid() {
		if err := o.setDefault("enable-bootstrap-token-auth", "true"); err != nil {
			return config, err
		}
		if !c.invites() {
			return config, errors.New("--enable-bootstrap-token-auth=false with machines: their nodes join by a token; --machines=false runs the nodes on this one")
		}
	}
	return config, o.kube.Apply(&config, c.stack)
}

// balancerFields are the fields of services that need a load balancer, and givenFields those of them for which a pool of
// addresses is enough, without nodes that forward.
var (
	balancerFields = []string{"spec.type", "spec.loadBalancerIP", "spec.loadBalancerSourceRanges"}
	givenFields    = balancerFields[:2]
)

// unsupported returns the fields and kinds that nothing in this cluster acts on.
func (c *cluster) unsupported() []unsupported.Row {
	remote := c.options.role == roleServer || c.gateway.IsValid() // nodes are in processes of their own
	return slices.DeleteFunc(unsupported.Table(), func(r unsupported.Row) bool {
		switch {
		case strings.HasSuffix(r.Path, ".hostPort"):
			return c.runtime != "fake" || remote // the network's plugins forward
		case r.In == "services":
			pool := len(c.options.balancerPool) > 0
			if slices.Contains(balancerFields, r.Path) {
				return pool && (remote || slices.Contains(givenFields, r.Path))
			}
			return remote || c.options.nodes > 0 && slices.Contains(c.localFields(), r.Path)
		case r.In == "networkpolicies.networking.k8s.io", r.In == unsupported.Pods && r.Path == "subdomain":
			return remote // nodes have rules of policies, and DNS
		}
		return false
	})
}

// writeKubeconfig writes the administrator's file, and again when the certificate in it was renewed or the server's
// certificates have other authorities. It is a [plane.Part].
func (c *cluster) writeKubeconfig(_ context.Context, p *plane.Plane, s *stack.Stack) error {
	live := p.Credentials.Admin.Live()
	var pair *pki.Pair
	var bundle []byte
	write := func() error {
		now, authorities := live.Pair(), p.Credentials.Bundle()
		if now == pair && bytes.Equal(authorities, bundle) {
			return nil
		}
		err := p.Credentials.KubeconfigOf(p.URL(), now).MergeInto(c.options.kubeconfig)
		if err == nil {
			pair, bundle = now, authorities
		}
		return err
	}
	if err := write(); err != nil {
		return err
	}
	s.Start("kubeconfig", func(ctx context.Context) error {
		ticker := time.NewTicker(time.Minute)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
			}
			if err := write(); err != nil {
				c.log.Error(err, "the administrator's file has an old certificate", "until", pair.Certificate.NotAfter)
			}
		}
	})
	return nil
}

func (c *cluster) startMetricsServer(ctx context.Context, p *plane.Plane, s *stack.Stack) error {
	if !c.options.metricsServer {
		return nil
	}
	return metricsserver.Part(metricsserver.Config{Resolution: c.options.metricResolution, Log: c.log.WithName("metrics-server")})(ctx, p, s)
}

// publishNetwork writes the network for nodes in other processes, if there can be some, and keeps their DNS servers. It
// is a [plane.Part].
func (c *cluster) publishNetwork(ctx context.Context, p *plane.Plane, s *stack.Stack) error {
	if c.options.role != roleServer && !c.gateway.IsValid() {
		return nil
	}
	services := c.options.kube.ServiceCIDRs()
	address := podnetwork.DNSAddress(services)
	if address.IsValid() {
		s.Start("kube-dns", func(ctx context.Context) error {
			return podnetwork.KeepDNS(ctx, p.Client(), p.Caches.Nodes, address, c.log.WithName("kube-dns"))
		})
	}
	return podnetwork.Publish(ctx, p.Client(), podnetwork.Network{
		Pods: c.podNetwork, Backend: podnetwork.Backend{Type: c.options.overlay}, Services: services, DNS: address,
	})
}

// invites reports whether nodes in other processes can join.
func (c *cluster) invites() bool {
	tokens := c.options.flags.Lookup("enable-bootstrap-token-auth").Value.String()
	return (c.options.role == roleServer || c.gateway.IsValid()) && tokens == "true"
}

// invitesToLoopback reports whether nodes in other processes reach this server by the loopback interface alone.
func (c *cluster) invitesToLoopback() bool {
	listens, ok := c.address.(*net.TCPAddr)
	return c.invites() && !c.gateway.IsValid() && (!ok || listens.IP.IsLoopback())
}

// invite makes a token by which nodes join. It is a [plane.Part].
func (c *cluster) invite(ctx context.Context, p *plane.Plane, _ *stack.Stack) error {
	if !c.invites() {
		return nil
	}
	url := p.URL()
	if a := c.advertised(); a.IsValid() && !c.invitesToLoopback() {
		url = "https://" + a.String()
	}
	invitation, err := join.Invite(ctx, join.InviteConfig{
		Client: p.Client(), Server: url, CA: p.Credentials.Authority.CertificatePEM, Description: "made at the start of a server",
	})
	if err != nil {
		return err
	}
	c.invitation = invitation
	return nil
}

// joinArgs returns the flags with which a node joins.
func (c *cluster) joinArgs() []string {
	args := c.invitation.Args()
	if c.options.registryMirror != "" {
		args = append(args, "--registry-mirror", c.options.registryMirror)
	}
	return args
}

// watchShutdown ends the pods of all nodes when this machine shuts down, if --kubelet-config gives them time for
// that. It is a [plane.Part].
func (c *cluster) watchShutdown(_ context.Context, _ *plane.Plane, s *stack.Stack) error {
	var config kubelet.Config
	c.options.configureKubelet(&config)
	return c.shutdowns.Watch(s, config.Shutdown, c.log)
}

func startScavenger(_ context.Context, _ *plane.Plane, s *stack.Stack) error {
	s.Start("memory scavenger", scavenge.Run)
	return nil
}

// announce writes where the cluster is serving, and how to use it.
func (c *cluster) announce(stdout io.Writer, url string) {
	fmt.Fprintf(stdout, "%s\n\n", url)
	if c.notice != "" {
		fmt.Fprintln(stdout, c.notice)
		fmt.Fprintln(stdout)
	}
	if notice := c.networkNotice(); notice != "" {
		fmt.Fprintf(stdout, "%s\n\n", notice)
	}
	if c.invitation != nil {
		where := "on another machine, or on this one with a --data-dir of its own"
		if c.gateway.IsValid() { // which other machines do not reach
			where = "on this machine, with a --data-dir of its own"
		}
		fmt.Fprintf(stdout, "Within 24 hours, this adds a node %s:\n\n  %s --role %s %s\n\n",
			where, beside("cluster"), roleNode, strings.Join(c.joinArgs(), " "))
	}
	if c.gateway.IsValid() {
		fmt.Fprint(stdout, "From pods, Services answer at their names. From this machine, ")
		if c.leadsToServices() {
			fmt.Fprintf(stdout, "they answer at their cluster IPs (%s get services), and ", beside("planectl"))
		}
		fmt.Fprintf(stdout, "node ports answer at the addresses of nodes (%s get nodes -o wide).\n\n", beside("planectl"))
	}
	fmt.Fprintf(stdout, "  export KUBECONFIG=%s\n", c.options.kubeconfig)
	fmt.Fprintf(stdout, "  %s run nginx --image=nginx --replicas=3\n", beside("planectl"))
	fmt.Fprintf(stdout, "  %s get pods -o wide\n\n", beside("planectl"))
	fmt.Fprintln(stdout, "kubectl works too. Ctrl-C stops everything; a second one stops it at once.")
}

// beside is the path of another program of planekit's: in the directory of this
// one, or from PATH.
func beside(program string) string {
	if self, err := os.Executable(); err == nil {
		path := filepath.Join(filepath.Dir(self), program)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return program
}
