// Package plane joins the rooms into one control plane: API server, caches,
// authentication, authorization, admission, controllers and a scheduler.
//
//	p, err := plane.New(plane.Config{})
//	go p.Run(ctx)
//	<-p.Ready()
//	pods := typed.Pods(p.Client())
//
// The zero Config is a control plane in memory that Kubernetes' clients can use: TLS
// with certificates made on the spot, on a free port of the loopback address; RBAC
// with Kubernetes' policy, the node authorizer, the admission plugins that
// kube-apiserver runs by default and NodeRestriction; every controller, with garbage
// collection; the scheduler; no nodes. [Plane.Kubeconfig] is its administrator's.
// Config.Dir and Config.OpenStore keep its objects and certificates, see package plane/embeddedetcd.
// Each part can be replaced or left out by a field of Config, and Config.Configure
// has the last word on the API server. Package plane/planetest starts one in a test.
//
// # Model
//
// New makes all parts and starts none, so that parts may refer to each other. Run
// starts them in order: what the store stands on, the server, what admission must know, the objects that every
// cluster begins with, the caches, authorization, controllers, the scheduler, then
// Config.Parts. It stops them in reverse. Components are in the process: their
// clients skip the wire and the credentials, never authorization and admission, and
// each acts as the user that Kubernetes gives it.
//
// Before Ready is closed the server may answer, and refuses most requests.
//
// # Failure
//
// New reports what is wrong with the Config. When a part fails, Run stops all others
// and returns the first failure; nothing is restarted. When its context ends, Run
// returns nil, or what went wrong in stopping.
//
// # Left out
//
// Nodes, which are parts (package plane/nodes has some in memory), etcd, metrics,
// audit and reading of flags and files: examples/cluster has all of these. A program
// that wants fewer parts linked uses the packages below this one: each links only
// what its name says.
package plane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/aggregate"
	"github.com/planekit/planekit/apiserver/flowcontrol/objects"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/pki/servingcert"
	"github.com/planekit/planekit/plane/authorizers"
	"github.com/planekit/planekit/plane/caches"
	"github.com/planekit/planekit/plane/controllerset"
	"github.com/planekit/planekit/plane/credentials"
	"github.com/planekit/planekit/plane/pluginset"
	"github.com/planekit/planekit/plane/stack"
	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/policy"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/memstore"
)

// Config describes a control plane. Every field may be zero.
type Config struct {
	// Store keeps the objects. If neither it nor OpenStore is set, they are in memory.
	Store storage.Store
	// OpenStore opens the store in Dir when Run begins. Run closes it when all that uses it has stopped.
	// Package plane/embeddedetcd has one. Store must be nil then.
	OpenStore StoreOpener
	// Dir is a directory that keeps what must outlast the process: the objects, by OpenStore, and the
	// certificates and keys in its folder pki, unless Credentials has them. It is made if it is missing.
	// A reader of it can control the cluster. Empty means that certificates and keys are in memory.
	Dir string
	// Listener accepts the API server's connections; nil means a free port of 127.0.0.1.
	// The server closes it.
	Listener net.Listener
	// Network connects the API server and the nodes of package plane/nodes; nil means the network
	// of the machine. It is not used for Listener, if that is set.
	Network Network
	// Credentials are the certificates and keys; nil means those in Dir, or new ones in memory.
	// They must name the address of Listener.
	Credentials *credentials.Credentials
	// Serving has certificates of an operator's for the API server, for clients outside the cluster. Those
	// inside, which come to Advertise, get that of Credentials, because they trust its authority alone.
	// Without any, those that Credentials has of an operator's are served.
	Serving servingcert.Set
	// Names are further names and addresses in the certificate of the API server. Credentials that are
	// given must have them already.
	Names []string

	// ServiceCIDRs holds the ranges of service addresses, at most one for IPv4 and one for
	// IPv6; nil means 10.96.0.0/12. Nodes get /24 ranges of PodCIDR; zero means 10.244.0.0/16.
	ServiceCIDRs []netip.Prefix
	PodCIDR      netip.Prefix
	// Advertise is the address that the Service default/kubernetes leads to; without
	// one it has no endpoints.
	Advertise netip.AddrPort

	// Resources are served in addition to the built-in ones. Their objects are garbage collected
	// and counted by quota like those.
	Resources []apiserver.Resource

	// Authenticators are asked after front proxies, client certificates and service
	// account tokens, and before the request counts as anonymous.
	Authenticators []authn.Authenticator
	// BootstrapTokens accepts the tokens with which nodes join, as --enable-bootstrap-token-auth does.
	BootstrapTokens bool
	// NewAuthenticator, when set, replaces all of these.
	NewAuthenticator func(*Plane) (authn.Authenticator, error)
	// NoAnonymous refuses requests without credentials. They are otherwise those of
	// system:anonymous, to whom RBAC grants health and version.
	NoAnonymous bool
	// Issuer is the name in which service account tokens are signed, an https URL, and the audience of
	// those that name none; empty means DefaultIssuer.
	Issuer string
	// ExtendTokens, when not zero, is the lifetime of the tokens that admission mounts into
	// every pod, for programs that read their token only once. MaxTokenExpiration limits the
	// lifetime of all other tokens; zero means no limit.
	ExtendTokens, MaxTokenExpiration time.Duration

	// Modes are the authorizers to ask, in order; nil is Node and RBAC. Authorizers
	// are further ones by the name of their mode.
	Modes       []string
	Authorizers map[string]authz.Authorizer

	// Admission chooses plugins, and has room for the program's own.
	Admission pluginset.Options

	// Controllers chooses controllers, and has room for the program's own.
	Controllers   controllerset.Options
	NoControllers bool
	// BareNamespaces leaves out of the namespaces that a cluster begins with what controllers make in each
	// namespace: the default ServiceAccount and the ConfigMap with the authority.
	BareNamespaces bool

	// SchedulerFile has the profiles of the scheduler; nil means default-scheduler with the defaults of
	// Kubernetes. Its extenders are asked.
	SchedulerFile *policy.File
	// Scheduler, when set, changes the configuration of the scheduler.
	Scheduler   func(*schedule.Config)
	NoScheduler bool
	// ElectScheduler makes the scheduler run only while this process leads, by a lease that is called
	// kube-scheduler by default; nil is always. It is made again each time.
	ElectScheduler *controllerset.Election

	// FlowControl bounds the requests that are handled at once.
	FlowControl FlowControl
	// MayDialNode refuses addresses that no node has, for logs and exec. Nil is that of
	// package apiserver/nodeproxy.
	MayDialNode func(netip.Addr) error
	// SharedAddress is an address of this machine that nodes may have too, because they run on it: their
	// serving certificates can name it. No node gets a certificate for another address of the API server,
	// nor for those of services. It may be invalid.
	SharedAddress netip.Addr
	// OmitClientCAs hides from clients which authorities are believed, for authenticators
	// that believe more than Credentials.
	OmitClientCAs bool

	// Configure, when set, changes the configuration of the API server when all else
	// is made: metrics, audit, further handlers.
	Configure func(*Plane, *apiserver.Config) error
	// Extensions are started after the API server and before everything else: what they make the
	// server serve is there when controllers ask for it.
	Extensions []Part
	// Parts are started last and stopped first.
	Parts []Part
	// StopNow, when closed, ends parts that take long to stop. See [stack.Stack].
	StopNow <-chan struct{}
	// Leave, when closed, makes parts leave what outlives the process. See [stack.Stack].
	Leave <-chan struct{}
	// Log is silent when zero.
	Log logr.Logger
}

// A Part starts something on s that stands on the whole control plane, such as nodes.
// It returns when that is ready, or with the error of s.Await.
type Part func(ctx context.Context, p *Plane, s *stack.Stack) error

// A Network carries connections between the parts of a control plane.
type Network interface {
	// Listen listens on a TCP address; port 0 is a free one.
	Listen(address string) (net.Listener, error)
	// Dial connects to an address that Listen was called with.
	Dial(ctx context.Context, address string) (net.Conn, error)
}

// FlowControl bounds the requests that are handled at once.
type FlowControl struct {
	// InFlight rejects what is beyond the two bounds at once, without priority and
	// fairness.
	InFlight bool
	// Reading bounds the concurrent requests that only read, Changing all other requests.
	// With priority and fairness their sum is shared by the priority levels. If both are
	// zero they are 400 and 200, or unbounded with InFlight and Unbounded.
	Reading, Changing int
	Unbounded         bool
}

// A Plane is a control plane. Its fields are set by New, for reading.
type Plane struct {
	// Server is the API server, an http.Handler.
	Server      *apiserver.Server
	Credentials *credentials.Credentials
	Caches      *caches.Caches
	// Authorizers decide for the API server, and RBAC alone where that is wanted.
	Authorizers *authorizers.Set
	// Accounts verifies service account tokens.
	Accounts authn.Authenticator
	// Aggregator proxies to the API servers of APIServices.
	Aggregator *aggregate.Aggregator

	config      Config
	opened      *openedStore // is config.Store; nil without Config.OpenStore
	listener    net.Listener
	client      *client.Client
	resources   []apiserver.Resource // of the server
	tokens      *tokens
	plugins     *pluginset.Set
	controllers *controllerset.Set          // nil without
	schedule    func(context.Context) error // runs the scheduler; nil without
	fairness    *objects.Keeper             // nil without
	closers     []closer
	stack       *stack.Stack
	ready       chan struct{}
}

type closer struct {
	name  string
	close func() error
}

// New makes a control plane. Run must be called for it to do anything, and to close
// the listener.
func New(c Config) (*Plane, error) {
	owned := c.Listener == nil
	if owned {
		var err error
		if c.Listener, err = c.listen("127.0.0.1:0"); err != nil {
			return nil, err
		}
	}
	p, err := newPlane(c)
	if err != nil && owned {
		err = errors.Join(err, c.Listener.Close())
	}
	return p, err
}

func newPlane(c Config) (*Plane, error) {
	var opened *openedStore
	switch {
	case c.OpenStore != nil && c.Store != nil:
		return nil, errors.New("plane: Store and OpenStore exclude each other")
	case c.OpenStore != nil:
		opened = &openedStore{}
		c.Store = opened
	case c.Store == nil && c.Dir != "":
		return nil, errors.New("plane: Dir without Store and OpenStore: the objects would be in memory only")
	case c.Store == nil:
		c.Store = memstore.New()
	}
	if c.ServiceCIDRs == nil {
		c.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}
	}
	if !c.PodCIDR.IsValid() {
		c.PodCIDR = netip.MustParsePrefix("10.244.0.0/16")
	}
	p := &Plane{config: c, opened: opened, listener: c.Listener, Credentials: c.Credentials, stack: stack.New(), ready: make(chan struct{})}
	p.stack.Now, p.stack.Leave = c.StopNow, c.Leave
	for _, step := range []func() error{
		p.makeCredentials, p.makeCaches, p.makeAuthorizers, p.makePlugins, p.makeServer, p.makeControllers, p.makeScheduler,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (c *Config) listen(address string) (net.Listener, error) {
	if c.Network != nil {
		return c.Network.Listen(address)
	}
	return net.Listen("tcp", address)
}

// Listen listens on a TCP address of the control plane's network.
func (p *Plane) Listen(address string) (net.Listener, error) { return p.config.listen(address) }

func (p *Plane) makeCredentials() (err error) {
	if p.Credentials == nil {
		host, _, splitErr := net.SplitHostPort(p.listener.Addr().String())
		if splitErr != nil {
			return fmt.Errorf("plane: a listener at %s needs Credentials: %w", p.listener.Addr(), splitErr)
		}
		p.Credentials, err = p.config.newCredentials(append([]string{host}, p.config.Names...))
		if err != nil {
			return err
		}
	}
	if p.Credentials, err = p.Credentials.With(p.serving()); err != nil {
		return fmt.Errorf("plane: Serving: %w", err)
	}
	log := p.config.Log.WithName("certificates")
	p.Credentials.ReportTo(func(name string, until time.Time, err error) {
		if err != nil {
			log.Error(err, "a certificate in use is neither renewed nor read from its files; it stays in use", "certificate", name, "until", until)
			return
		}
		log.Info("new connections use another certificate", "certificate", name, "until", until)
	})
	return nil
}

// newCredentials opens the credentials in Dir, or makes some in memory.
func (c *Config) newCredentials(hosts []string) (*credentials.Credentials, error) {
	if c.Dir == "" {
		return credentials.New(hosts...)
	}
	return credentials.Open(filepath.Join(c.Dir, "pki"), hosts...)
}

// serving returns the certificates of the Config, or else of its Credentials. If pods and nodes come to Advertise, they may come to
// every address that the API server's own certificate has, except for those of the loopback interface.
func (p *Plane) serving() servingcert.Set {
	set := p.config.Serving
	if set.Default == nil && len(set.Named) == 0 {
		set = p.Credentials.More
	}
	if !p.config.Advertise.IsValid() {
		return set
	}
	set.Inside = append(slices.Clip(set.Inside), p.config.Advertise.Addr().Unmap())
	for _, ip := range p.Credentials.Serving.Certificate.IPAddresses {
		if address, ok := netip.AddrFromSlice(ip); ok && !ip.IsLoopback() {
			set.Inside = append(set.Inside, address.Unmap())
		}
	}
	return set
}

// makeCaches makes the plane's own client and the caches that read by it. Nothing is
// read before the server runs.
func (p *Plane) makeCaches() (err error) {
	if p.client, err = p.ClientFor(p.User(), "planekit"); err != nil {
		return err
	}
	if p.Caches, err = caches.New(p.client, p.config.Log, p.config.Resources...); err != nil {
		return err
	}
	p.tokens, err = p.newTokens(p.client)
	if err != nil {
		return err
	}
	p.Accounts = p.tokens.authenticator
	return nil
}

func (p *Plane) makeAuthorizers() (err error) {
	p.Authorizers, err = authorizers.New(authorizers.Config{
		Caches: p.Caches, Modes: p.config.Modes, More: p.config.Authorizers, Log: p.config.Log,
	})
	return err
}

func (p *Plane) makePlugins() (err error) {
	p.plugins, err = pluginset.New(pluginset.Config{
		Client: p.client, Caches: p.Caches, Authorizers: p.Authorizers, Options: p.config.Admission, Log: p.config.Log,
	})
	return err
}

func (p *Plane) makeControllers() (err error) {
	if p.config.NoControllers {
		return nil
	}
	p.controllers, err = controllerset.New(controllerset.Config{
		ClientFor: p.ClientFor, Caches: p.Caches, RootCA: p.Credentials.Authority.CertificatePEM,
		Authority: p.Credentials.Authority.Certificate, AuthorityKey: p.Credentials.Authority.Key,
		KubeletAuthority: p.Credentials.Kubelets.Certificate, KubeletAuthorityKey: p.Credentials.Kubelets.Key,
		NodeNames: p.nodeNames(),
		SignToken: p.tokens.sign, PodCIDR: p.config.PodCIDR, Options: p.config.Controllers,
		Log: p.config.Log.WithName("controllers"),
	})
	return err
}

// User returns the user that the control plane itself acts as.
func (p *Plane) User() *user.Info {
	return &user.Info{Name: user.APIServer, Groups: []string{user.Masters, user.Authenticated}}
}

// Client returns the client of the control plane itself, which may do everything.
func (p *Plane) Client() *client.Client { return p.client }

// ClientFor returns a client in the process that acts as u and names itself agent in its writes.
// Its requests pass authorization and admission like any others.
func (p *Plane) ClientFor(u *user.Info, agent string) (*client.Client, error) {
	config := client.InProcess(client.TransportFunc(func(r *http.Request) (*http.Response, error) {
		return p.Server.Transport(u).RoundTrip(r)
	}))
	config.UserAgent = agent
	return client.New(config)
}

// Addr returns the address that the API server listens on.
func (p *Plane) Addr() net.Addr { return p.listener.Addr() }

// URL returns the URL by which clients on this machine reach the API server.
func (p *Plane) URL() string {
	host, port, err := net.SplitHostPort(p.listener.Addr().String())
	if err != nil {
		return "https://" + p.listener.Addr().String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "https://" + net.JoinHostPort(host, port)
}

// advertisedURL returns the URL at which other machines reach the API server, as far as it is known.
func (p *Plane) advertisedURL() string {
	if !p.config.Advertise.IsValid() {
		return p.URL()
	}
	return "https://" + p.config.Advertise.String()
}

// Kubeconfig returns the administrator's configuration.
func (p *Plane) Kubeconfig() *kubeconfig.Config { return p.Credentials.Kubeconfig(p.URL()) }

// PodCIDR returns the range that nodes get theirs from.
func (p *Plane) PodCIDR() netip.Prefix { return p.config.PodCIDR }

// Ready is closed once all parts run and every object that a cluster begins with
// exists.
func (p *Plane) Ready() <-chan struct{} { return p.ready }

// WaitingFor describes what Run waits for while it stops; it is empty before.
func (p *Plane) WaitingFor() string { return p.stack.WaitingFor() }

// nodesByMode reports whether the node authorizer decides for nodes.
func (c *Config) nodesByMode() bool {
	return c.Modes == nil || slices.Contains(c.Modes, authorizers.Node)
}
