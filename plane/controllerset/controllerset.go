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
// one is started again is for package reconcile/controllers to say.
package controllerset

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/netip"
	"os"
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
	"github.com/planekit/planekit/reconcile/lease"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Config describes the controllers. ClientFor and Caches must be set.
type Config struct {
	// ClientFor returns a client that acts as u and calls itself agent.
	ClientFor func(u *user.Info, agent string) (*client.Client, error)
	Caches    *caches.Caches
	// RootCA is the PEM certificate that every namespace gets in a ConfigMap, and that
	// token secrets hold. Without it the controllers of both are left out.
	RootCA []byte
	// SignToken signs the tokens that secrets hold. Without it the controller of such
	// tokens is left out.
	SignToken controllers.TokenSigner
	// PodCIDR is the range that nodes get theirs from, of NodeBits each. Without it
	// node-ipam-controller is left out. NodeBits zero is 24.
	PodCIDR  netip.Prefix
	NodeBits int
	Options
	// Log is silent when zero.
	Log logr.Logger
}

// Options choose and tune the controllers.
type Options struct {
	// Choose says which run, as kube-controller-manager's --controllers does. Nil is
	// all.
	Choose []string
	// More are further controllers, such as the program's own.
	More   []Controller
	Tuning Tuning
	// Elect makes the controllers run only while this process leads; nil is always.
	Elect *Election
	// Metrics graphs the controllers and their queues; nil is nothing.
	Metrics controllers.Metrics
}

// Tuning configures the concurrency and the times of controllers. Zero fields are the defaults of
// package reconcile/controllers.
type Tuning struct {
	// Workers has, by the name of a controller, how many objects it works on at a time.
	Workers map[string]int

	NodeGrace, NodeStartupGrace time.Duration
	Evictions                   controllers.EvictionLimits
	// EndedPods is the number of ended pods to keep; a negative number keeps all.
	EndedPods int
	// SliceEndpoints bounds the endpoints in a slice, MirroredEndpoints the addresses that are
	// mirrored of a subset of Endpoints.
	SliceEndpoints, MirroredEndpoints int
	// How long changes of Endpoints, EndpointSlices and mirrored slices wait for those
	// that follow.
	EndpointsBatch, SlicesBatch, MirrorsBatch time.Duration
}

// Election describes the lease of the leader. Zero fields are the defaults of
// kube-controller-manager; the bootstrap policy grants that name.
type Election struct {
	Namespace, Name                           string
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

// A Controller is a row of the table.
type Controller struct {
	// Name is how Choose names it, Alias another way to say it. Account is its service
	// account in kube-system; empty is the user system:kube-controller-manager.
	// Component is the source of its Event objects; empty is Name.
	controllers.Known
	// New makes the controller. It is called each time that the controller is to run.
	New func(*Env) (controllers.Runner, error)
}

// Env holds what a maker needs to create a controller.
type Env struct {
	Caches *caches.Caches
	// Client acts as the controller's own user, and Events records under its name.
	Client *client.Client
	Events *events.Recorder
	// Workers is the number of workers from Tuning; zero means the controller's default.
	Workers int
	// Log is the set's.
	Log logr.Logger

	config *Config
}

// A Set is the controllers of one control plane.
type Set struct {
	run    func(context.Context) error
	events []part
}

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

// Check reports what is wrong with a choice of controllers; more are those beside the
// built-in ones.
func Check(choose []string, more ...Controller) error {
	var entries []controllers.Entry
	for _, c := range append(table(), more...) {
		entries = append(entries, controllers.Entry{Name: c.Name, Alias: c.Alias, Start: func() (controllers.Runner, error) { return nil, nil }})
	}
	_, err := controllers.NewManager(controllers.ManagerConfig{Controllers: entries, Choose: choose})
	return err
}

// New prepares the controllers. They are made when they are to run.
func New(c Config) (*Set, error) {
	s := &Set{}
	var entries []controllers.Entry
	for _, row := range append(table(), c.More...) {
		if row.Name == "" || row.New == nil {
			return nil, fmt.Errorf("controllerset: controller %q has no name or no New", row.Name)
		}
		env, err := c.env(row)
		if err != nil {
			return nil, err
		}
		if missing := c.missing(row.Name); missing {
			row.New = func(*Env) (controllers.Runner, error) { return idle{}, nil }
		}
		s.events = append(s.events, part{"events of " + row.Name, env.Events.Run})
		entries = append(entries, controllers.Entry{Name: row.Name, Alias: row.Alias, Start: func() (controllers.Runner, error) {
			made, err := row.New(env)
			if err != nil {
				return nil, err
			}
			return made, c.observe(made)
		}})
	}
	all, err := controllers.NewManager(controllers.ManagerConfig{Controllers: entries, Choose: c.Choose, Log: c.Log})
	if err != nil {
		return nil, err
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

// missing reports whether the configuration lacks what a controller needs.
func (c *Config) missing(name string) bool {
	switch name {
	case rootCAPublisher:
		return c.RootCA == nil
	case tokenController:
		return c.RootCA == nil || c.SignToken == nil
	case nodeIPAMController:
		return !c.PodCIDR.IsValid()
	}
	return false
}

// idle is a controller that has nothing to do.
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
	return &Env{Caches: c.Caches, Client: api, Events: recorder, Workers: c.Tuning.Workers[row.Name], Log: c.Log, config: c}, err
}

// observe shows a controller that was just made with the metrics. One that is started
// again keeps its name there.
func (c *Config) observe(made controllers.Runner) error {
	observed, ok := made.(interface {
		Observe(controllers.Metrics) error
	})
	if !ok || c.Metrics == nil {
		return nil
	}
	return observed.Observe(c.Metrics)
}

// elector runs work while this process has the lease.
func (c *Config) elector(work func(context.Context) error) (*reconcile.Elector, error) {
	const name = "kube-controller-manager"
	e := *c.Elect
	if e.Namespace == "" {
		e.Namespace = metav1.NamespaceSystem
	}
	if e.Name == "" {
		e.Name = name
	}
	api, err := c.ClientFor(&user.Info{Name: user.ControllerManager, Groups: []string{user.Authenticated}}, name)
	if err != nil {
		return nil, err
	}
	shared, err := lease.New(lease.Config{Leases: typed.Leases(api), Namespace: e.Namespace, Name: e.Name})
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	return reconcile.NewElector(reconcile.LeadConfig{
		Identity: host + "_" + rand.Text(), Lease: shared, Work: work,
		LeaseDuration: e.LeaseDuration, RenewDeadline: e.RenewDeadline, RetryPeriod: e.RetryPeriod,
		Log: c.Log,
	})
}

// nodeBits is the prefix length of a node's range.
func (c *Config) nodeBits() int {
	if c.NodeBits == 0 {
		return 24
	}
	return c.NodeBits
}
