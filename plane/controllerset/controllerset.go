// Package controllerset holds the table of the controllers that a control plane has
// built in, and runs those that are wanted.
//
//	set, err := controllerset.New(controllerset.Config{
//		ClientFor: clientFor, Caches: caches, RootCA: pem, SignToken: sign,
//	})
//	set.Start(stack)
//
// Controllers share the caches, which must be running, and write each as a user of
// its own, the service account that the bootstrap policy grants its rights to. A
// controller of the program's own is a [Controller] in Config.More: it gets the same
// [Env] as the built-in ones.
//
// With Config.Elect they run only while this process holds a lease, and are made
// again each time it gets it. A controller that fails is the failure of the set; how
// it is started again is described by package reconcile/controllers.
package controllerset

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/authn/serviceaccount"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/events"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane/caches"
	"github.com/planekit/planekit/plane/stack"
	"github.com/planekit/planekit/reconcile"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/account"
	"github.com/planekit/planekit/reconcile/controllers/autoscale"
	"github.com/planekit/planekit/reconcile/controllers/node"
	"github.com/planekit/planekit/reconcile/lease"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Config describes the controllers. ClientFor and Caches must be set.
type Config struct {
	// ClientFor returns a client that acts as u and calls itself agent.
	ClientFor func(u *user.Info, agent string) (*client.Client, error)
	Caches    *caches.Caches
	// RootCA is the PEM certificate that every namespace gets in a ConfigMap, and that
	// token secrets hold. If it is empty, the controllers of both do not run.
	RootCA []byte
	// SignToken signs the tokens that secrets hold. If it is nil, the controller of such
	// tokens does not run.
	SignToken account.TokenSigner
	// Authority signs certificates with AuthorityKey. If it is nil, the controller that signs requests
	// does not run.
	Authority    *x509.Certificate
	AuthorityKey crypto.Signer
	// KubeletAuthority signs the serving certificates of kubelets with KubeletAuthorityKey. Nil means
	// Authority. NodeNames refuses names and addresses that no node can have.
	KubeletAuthority    *x509.Certificate
	KubeletAuthorityKey crypto.Signer
	NodeNames           NodeNames
	// PodCIDR is the range from which each node gets a range of NodeBits bits. If it is not
	// valid, node-ipam-controller does not run. Zero NodeBits means 24.
	PodCIDR  netip.Prefix
	NodeBits int
	Options
	// Log is silent when zero.
	Log logr.Logger
}

// Options choose and tune the controllers.
type Options struct {
	// Choose lists the controllers to run, as kube-controller-manager's --controllers does. Nil
	// means all.
	Choose []string
	// More are further controllers, such as the program's own.
	More   []Controller
	Tuning Tuning
	// LoadBalancerPool are the ranges that service-lb-controller gives addresses of to Services of type LoadBalancer
	// without a class; they must not overlap. Nil means that such Services stay pending.
	LoadBalancerPool []netip.Prefix
	// Elect makes the controllers run only while this process leads; nil is always.
	Elect *Election
	// Metrics receives the measurements of the controllers and their queues. Nil means none.
	Metrics controllers.Metrics
}

// Tuning configures the concurrency and the times of controllers. Zero fields are the defaults of
// package reconcile/controllers.
type Tuning struct {
	// Workers has, by the name of a controller, how many objects it works on at a time.
	Workers map[string]int

	NodeGrace, NodeStartupGrace time.Duration
	Evictions                   node.EvictionLimits
	// EndedPods is the number of ended pods to keep; a negative number keeps all.
	EndedPods int
	// SliceEndpoints bounds the endpoints in a slice, MirroredEndpoints the addresses that are
	// mirrored of a subset of Endpoints.
	SliceEndpoints, MirroredEndpoints int
	// How long changes of Endpoints, EndpointSlices and mirrored slices wait for those
	// that follow.
	EndpointsBatch, SlicesBatch, MirrorsBatch time.Duration
	// CertificateDuration is the longest time for which the certificates of signing requests are
	// valid.
	CertificateDuration time.Duration
	// Autoscaling holds the times and the tolerance of the controller of autoscalers.
	Autoscaling autoscale.Tuning
	// VolumeResync is how often claims that wait for a volume are looked at again.
	VolumeResync time.Duration
}

// Election describes the lease of a leader. Zero fields are the defaults of
// kube-controller-manager and kube-scheduler; the bootstrap policy grants their names.
type Election struct {
	Namespace, Name                           string
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

// A Controller is a row of the table. Name and New are required.
type Controller struct {
	// Name is how Choose names the controller.
	Name string
	// Alias is another name for Choose. Empty means none.
	Alias string
	// Account is the controller's service account in kube-system. Empty means the user
	// system:kube-controller-manager.
	Account string
	// Component is the source of the controller's Event objects. Empty means Name.
	Component string
	// New makes the controller. It is called each time the controller starts.
	New func(*Env) (controllers.Runner, error)

	// lacks returns what a configuration lacks for the controller to run, or "". Nil means that it
	// needs nothing more.
	lacks func(*Config) string
}

// Env holds what a maker needs to create a controller.
type Env struct {
	Caches *caches.Caches
	// Client acts as the controller's own user, and Events records under its name.
	Client *client.Client
	Events *events.Recorder
	// Workers is the number of workers from Tuning. Zero means the controller's default.
	Workers int
	// Metrics receives the measurements of the controller. Nil means none.
	Metrics controllers.Metrics
	// Log is the set's.
	Log logr.Logger

	config *Config
}

// A Set is the controllers of one control plane.
type Set struct {
	run     func(context.Context) error
	events  []part
	skipped []Skipped
}

// Skipped is a chosen controller that does not run because the configuration lacks something that
// it needs.
type Skipped struct {
	// Name is the name of the controller.
	Name string
	// Reason names what the configuration lacks.
	Reason string
}

// Skipped returns the chosen controllers that do not run, in the order of the table.
func (s *Set) Skipped() []Skipped { return slices.Clone(s.skipped) }

type part struct {
	name string
	run  func(context.Context) error
}

// Names returns the names of the built-in controllers, in order.
func Names() []string {
	var names []string
	for _, c := range table() {
		names = append(names, c.Name)
	}
	return names
}

// Check returns an error if a choice of controllers is invalid. more are the names of controllers
// in addition to the built-in ones.
func Check(choose []string, more ...Controller) error {
	var registrations []controllers.Registration
	for _, c := range append(table(), more...) {
		registrations = append(registrations, controllers.Registration{Name: c.Name, Alias: c.Alias, Start: startIdle})
	}
	_, err := controllers.NewManager(controllers.ManagerConfig{Controllers: registrations, Choose: choose})
	return err
}

// New prepares the controllers. They are made when they start. New logs each chosen controller that
// the configuration lacks something for; [Set.Skipped] returns them.
func New(c Config) (*Set, error) {
	s := &Set{}
	var registrations []controllers.Registration
	reasons := map[string]string{}
	for _, row := range append(table(), c.More...) {
		if row.Name == "" || row.New == nil {
			return nil, fmt.Errorf("controllerset: controller %q has no Name or no New", row.Name)
		}
		if row.lacks != nil {
			if reason := row.lacks(&c); reason != "" {
				reasons[row.Name] = reason
				registrations = append(registrations, controllers.Registration{Name: row.Name, Alias: row.Alias, Start: startIdle})
				continue
			}
		}
		env, err := c.env(row)
		if err != nil {
			return nil, err
		}
		s.events = append(s.events, part{"events of " + row.Name, env.Events.Run})
		registrations = append(registrations, controllers.Registration{Name: row.Name, Alias: row.Alias, Start: func() (controllers.Runner, error) {
			return row.New(env)
		}})
	}
	all, err := controllers.NewManager(controllers.ManagerConfig{Controllers: registrations, Choose: c.Choose, Log: c.Log})
	if err != nil {
		return nil, err
	}
	for _, name := range all.Names() {
		if reason := reasons[name]; reason != "" {
			s.skipped = append(s.skipped, Skipped{name, reason})
			c.Log.Info("controller does not run", "controller", name, "reason", reason)
		}
	}
	s.run = all.Run
	if c.Elect != nil {
		elector, err := c.elector(all.Run)
		if err != nil {
			return nil, err
		}
		s.run = elector.Run
	}
	return s, nil
}

// Start starts the controllers, or the election, and the recorders of their events.
func (s *Set) Start(parts *stack.Stack) {
	for _, p := range s.events {
		parts.Start(p.name, p.run)
	}
	parts.Start("controllers", s.run)
}

// startIdle makes a controller that does nothing, in place of one that the configuration lacks
// something for.
func startIdle() (controllers.Runner, error) { return idle{}, nil }

// idle is a controller that does nothing.
type idle struct{}

func (idle) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// env returns what the controller of a row is made of.
func (c *Config) env(row Controller) (*Env, error) {
	u := &user.Info{Name: user.ControllerManager, Groups: []string{user.Authenticated}}
	if row.Account != "" {
		u = &user.Info{
			Name:   serviceaccount.Username(metav1.NamespaceSystem, row.Account),
			Groups: []string{user.ServiceAccounts, user.ServiceAccounts + ":" + metav1.NamespaceSystem, user.Authenticated},
		}
	}
	api, err := c.ClientFor(u, row.Name)
	if err != nil {
		return nil, err
	}
	component := row.Component
	if component == "" {
		component = row.Name
	}
	recorder, err := events.New(events.Config{Client: api, Component: component, Log: c.Log})
	return &Env{Caches: c.Caches, Client: api, Events: recorder, Workers: c.Tuning.Workers[row.Name], Metrics: c.Metrics, Log: c.Log, config: c}, err
}

// elector runs work while this process has the lease.
func (c *Config) elector(work func(context.Context) error) (*reconcile.Elector, error) {
	const name = "kube-controller-manager"
	api, err := c.ClientFor(&user.Info{Name: user.ControllerManager, Groups: []string{user.Authenticated}}, name)
	if err != nil {
		return nil, err
	}
	return c.Elect.Elector(api, name, work, c.Log)
}

// Elector returns an elector that runs work while this process holds the lease, which is called name unless e
// has a Name. The user of api must have rights to it.
func (e Election) Elector(api *client.Client, name string, work func(context.Context) error, log logr.Logger) (*reconcile.Elector, error) {
	if e.Namespace == "" {
		e.Namespace = metav1.NamespaceSystem
	}
	if e.Name == "" {
		e.Name = name
	}
	shared, err := lease.New(lease.Config{Leases: typed.Leases(api), Namespace: e.Namespace, Name: e.Name})
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	return reconcile.NewElector(reconcile.ElectorConfig{
		Identity: host + "_" + rand.Text(), Lease: shared, Work: work,
		LeaseDuration: e.LeaseDuration, RenewDeadline: e.RenewDeadline, RetryPeriod: e.RetryPeriod,
		Log: log,
	})
}

// nodeBits is the prefix length of a node's range.
func (c *Config) nodeBits() int {
	if c.NodeBits == 0 {
		return 24
	}
	return c.NodeBits
}
