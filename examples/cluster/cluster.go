package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/aggregate"
	"github.com/planekit/planekit/apiserver/flowcontrol"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/apiserver/review"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/examples/cluster/machine"
	"github.com/planekit/planekit/informer"
	"github.com/planekit/planekit/localcache"
	workmetrics "github.com/planekit/planekit/reconcile/metrics"
	"github.com/planekit/planekit/storage"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// cluster joins the parts. Its methods are in one file a part.
type cluster struct {
	options options
	// runtime is the runtime that was chosen: containerd or fake.
	runtime string
	// notice, when not empty, is said once the cluster is ready.
	notice  string
	log     logr.Logger
	dir     *dataDir
	stack   *stack
	address net.Addr
	// podNetwork is the range of the pods' addresses; moved says that it was another
	// in the last run. registry has the claim to it; nil where none is needed.
	podNetwork netip.Prefix
	moved      bool
	registry   *machine.Registry
	// credentials are set before the server starts, authorizer with it.
	credentials *credentials
	authorizer  authz.Authorizer
	roles       authz.Authorizer // RBAC, also where it is not among the authorizers
	server      *apiserver.Server
	checks      []apiserver.Check // of its readiness
	copies      *copies
	endpoints   localcache.Index[string, *discoveryv1.EndpointSlice]
	limits      limits
	manager     *manager
	tokens      *accountTokens
	// advertising is closed once default/kubernetes is there.
	advertising <-chan struct{}
	// fairness is closed once the objects of flow control exist, nil where nothing makes them.
	fairness <-chan struct{}
	// controllerMetrics are shown with those of the server.
	controllerMetrics *workmetrics.Metrics
}

// run brings the cluster up, says so on stdout, and runs it until ctx is done.
func run(ctx context.Context, o options, stdout io.Writer, log logr.Logger) (err error) {
	begin := time.Now()
	c := &cluster{options: o, log: log, stack: newStack()}
	c.stack.now = o.stopNow
	if err := c.chooseRuntime(); err != nil {
		return err
	}
	if c.dir, err = openDataDir(o.dataDir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.dir.close()) }()
	defer func() { err = errors.Join(err, c.stop()) }()

	if err := c.start(ctx); err != nil {
		return err
	}
	c.announce(stdout, time.Since(begin))
	return c.stack.run(ctx)
}

// stop stops all parts. What could not be removed stays claimed, for the next
// run on the data directory.
func (c *cluster) stop() error {
	told := make(chan struct{})
	defer close(told)
	go c.stack.tell(c.log, told)
	if err := c.stack.stop(); err != nil {
		return err
	}
	return c.releasePodNetwork()
}

// start starts the parts from the bottom up.
func (c *cluster) start(ctx context.Context) error {
	// A port that is taken is found out before anything else has begun. The
	// server closes the listener, if it comes to that.
	listener, err := net.Listen("tcp", c.options.listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	c.stack.closing("listener", func() error { listener.Close(); return nil })
	c.address = listener.Addr()
	if err := c.choosePodNetwork(ctx); err != nil {
		return err
	}
	credentials, err := openCredentials(c.dir, c.address, c.serviceNames())
	if err != nil {
		return err
	}
	c.credentials = credentials
	store, err := c.openStore(ctx)
	if err != nil {
		return err
	}
	if err := c.startServer(ctx, store, listener, credentials); err != nil {
		return err
	}
	if err := credentials.writeKubeconfig(c.options.kubeconfig); err != nil {
		return err
	}
	if err := c.manager.start(c.stack); err != nil {
		return err
	}
	if err := c.startScheduler(); err != nil {
		return err
	}
	if err := c.startNodes(ctx); err != nil {
		return err
	}
	if err := c.awaitFairness(ctx); err != nil {
		return err
	}
	c.stack.start("giving memory back", newGiveBack().Run)
	return c.stack.await(ctx, c.advertising)
}

// startServer starts the API server and what its decisions need: the local
// copies that authorization and admission read, and the objects every cluster
// begins with.
func (c *cluster) startServer(ctx context.Context, store storage.Store, listener net.Listener, credentials *credentials) error {
	// The copies are read through the server that they are for; their transport
	// is not used before the server stands.
	components, err := c.clientFor(componentUser())
	if err != nil {
		return err
	}
	if c.copies, err = newCopies(components, c.log); err != nil {
		return err
	}
	// Indexes are added to a copy before it is started.
	c.endpoints = informer.NewIndex(c.copies.endpointSlices, aggregate.ByService)
	c.limits = newLimits(c.copies)
	c.manager = c.newManager(credentials.authority.CertificatePEM)
	tokens, err := c.newAccountTokens(components, credentials)
	if err != nil {
		return err
	}
	authenticator, err := c.authenticator(tokens.authenticator, components)
	if err != nil {
		return err
	}
	authorizer, err := c.newJudge()
	if err != nil {
		return err
	}
	c.tokens, c.authorizer, c.roles = tokens, authorizer.Authorizer, authorizer.roles
	resources, err := c.connectNodes(kube.ResourcesFor(kube.Config{ServiceCIDRs: c.options.services.prefixes}), typed.Nodes(components))
	if err != nil {
		return err
	}
	admission, err := c.newGate(components, authorizer)
	if err != nil {
		return err
	}
	aggregator, err := c.newAggregator(components)
	if err != nil {
		return err
	}
	config := apiserver.Config{
		Store:         store,
		Resources:     append(tokens.serve(resources), review.Resources(authenticator, authorizer.Authorizer, issuer)...),
		Handlers:      tokens.handlers,
		Authenticator: authenticator,
		Authorizer:    authorizer.Authorizer,
		Aggregator:    aggregator,
		Listener:      listener,
		TLS:           c.tls(),
		Checks:        c.checks,
		Log:           c.log.WithName("apiserver"),
	}
	admission.configure(&config)
	observed, err := c.observe(&config)
	if err != nil {
		return err
	}
	if err := c.controlFlow(&config, observed); err != nil {
		return err
	}
	if c.server, err = apiserver.New(config); err != nil {
		return err
	}
	observed.CountObjects(c.server.Stored)
	c.stack.start("API server", c.server.Run)
	if err := c.stack.await(ctx, c.server.Ready()); err != nil {
		return err
	}
	// Nothing is written before it is known which webhooks there are.
	if err := admission.start(ctx, c.stack); err != nil {
		return err
	}
	if err := c.seed(ctx, components, config.Resources); err != nil {
		return fmt.Errorf("bootstrap objects: %w", err)
	}
	if err := c.startAdvertiser(store, components); err != nil {
		return err
	}
	return c.startCopies(ctx, aggregator, authorizer, config.FlowControl)
}

// startCopies starts all local copies and what handles requests by them.
func (c *cluster) startCopies(ctx context.Context, aggregator *aggregate.Aggregator, authorizer *judge, flow *flowcontrol.Controller) error {
	if err := c.startFairness(flow); err != nil {
		return err
	}
	c.copies.start(c.stack)
	c.stack.start("aggregation", aggregator.Run)
	if err := c.stack.await(ctx, aggregator.Ready()); err != nil {
		return err
	}
	return authorizer.start(ctx, c.stack)
}

// componentUser is the user that the cluster itself acts as.
func componentUser() *user.Info {
	return &user.Info{Name: user.APIServer, Groups: []string{user.Masters, user.Authenticated}}
}

// clientFor returns a client for a component of this process. It acts as u: it
// skips the wire and the credentials, not authorization and admission.
func (c *cluster) clientFor(u *user.Info) (*client.Client, error) {
	return c.clientAs(u, "planekit-cluster")
}

// clientAs is one that is called agent in what it writes.
func (c *cluster) clientAs(u *user.Info, agent string) (*client.Client, error) {
	config := client.InProcess(client.TransportFunc(func(r *http.Request) (*http.Response, error) {
		return c.server.Transport(u).RoundTrip(r)
	}))
	config.UserAgent = agent
	return client.New(config)
}

// announce writes the line that says the cluster is serving, and how to use it.
func (c *cluster) announce(stdout io.Writer, took time.Duration) {
	fmt.Fprintf(stdout, "ready in %v: %s\n\n", took.Round(time.Millisecond), serverURL(c.address))
	if c.notice != "" {
		fmt.Fprintln(stdout, c.notice)
		fmt.Fprintln(stdout)
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
