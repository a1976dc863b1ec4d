package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/lifecycle"
	"github.com/planekit/planekit/admission/serviceaccount"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/aggregate"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/authz/rbac"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/informer"
	"github.com/planekit/planekit/plane/bootstrap"
	"github.com/planekit/planekit/plane/caches"
	"github.com/planekit/planekit/plane/credentials"
	"github.com/planekit/planekit/plane/stack"
	"github.com/planekit/planekit/reconcile/controllers/clusterrole"
	corev1 "k8s.io/api/core/v1"
)

// policy holds RBAC, admission and aggregation, and the caches that they read. They are few: the
// tables of plane/caches, plane/authorizers and plane/pluginset link all that a control plane can have.
type policy struct {
	client     *client.Client
	caches     caches.Group
	log        logr.Logger
	rbac       *rbac.Authorizer
	roles      *clusterrole.Controller
	authorizer authz.Authorizer
	admission  admission.Chain
	aggregator *aggregate.Aggregator
}

// newPolicy makes the policy of the server that server returns. server is first called when the
// policy is started.
func newPolicy(server func() *apiserver.Server, c *credentials.Credentials, log logr.Logger) (*policy, error) {
	self := &user.Info{Name: user.APIServer, Groups: []string{user.Masters, user.Authenticated}}
	api, err := client.New(client.InProcess(client.TransportFunc(func(r *http.Request) (*http.Response, error) {
		return server().Transport(self).RoundTrip(r)
	})))
	if err != nil {
		return nil, err
	}
	p := &policy{client: api, log: log}
	return p, errors.Join(p.authorize(), p.admit(), p.aggregate(c))
}

// authorize makes the authorizer: RBAC, which is not asked about the superusers.
func (p *policy) authorize() error {
	roles, err1 := caches.Add(&p.caches, "roles", typed.Roles(p.client), p.log)
	bindings, err2 := caches.Add(&p.caches, "rolebindings", typed.RoleBindings(p.client), p.log)
	clusterRoles, err3 := caches.Add(&p.caches, "clusterroles", typed.ClusterRoles(p.client), p.log)
	clusterBindings, err4 := caches.Add(&p.caches, "clusterrolebindings", typed.ClusterRoleBindings(p.client), p.log)
	err := errors.Join(err1, err2, err3, err4)
	if err != nil {
		return err
	}
	p.rbac, err = rbac.New(rbac.Config{
		Roles: roles, RoleBindings: bindings, ClusterRoles: clusterRoles, ClusterRoleBindings: clusterBindings,
		Log: p.log.WithName("rbac"),
	})
	if err != nil {
		return err
	}
	p.authorizer = authz.Chain{authz.Superusers(user.Masters), p.rbac}
	p.roles, err = clusterrole.New(clusterrole.Config{
		ClusterRoles: clusterRoles, Writer: typed.ClusterRoles(p.client), Log: p.log.WithName("clusterroles"),
	})
	return err
}

// admit makes the admission plugins: namespaces must exist, and pods get a service account.
func (p *policy) admit() error {
	namespaces, err1 := caches.Add(&p.caches, "namespaces", typed.Namespaces(p.client), p.log)
	accounts, err2 := caches.Add(&p.caches, "serviceaccounts", typed.ServiceAccounts(p.client), p.log)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	life, err := lifecycle.New(lifecycle.Config{
		Namespaces: namespaces,
		Lookup: func(ctx context.Context, name string) (*corev1.Namespace, error) {
			return typed.Namespaces(p.client).Get(ctx, "", name)
		},
	})
	if err != nil {
		return err
	}
	account, err := serviceaccount.New(serviceaccount.Config{
		Accounts: accounts, Lookup: typed.ServiceAccounts(p.client).Get, NoTokenVolume: true,
	})
	p.admission = admission.Chain{Mutators: []admission.Mutator{life, account}, Validators: []admission.Validator{account}}
	return err
}

// aggregate makes the aggregator, which passes groups on to other API servers.
func (p *policy) aggregate(c *credentials.Credentials) error {
	objects, err1 := caches.Add(&p.caches, "apiservices", typed.APIServices(p.client), p.log)
	services, err2 := caches.Add(&p.caches, "services", typed.Services(p.client), p.log)
	slices, err3 := caches.Add(&p.caches, "endpointslices", typed.EndpointSlices(p.client), p.log)
	err := errors.Join(err1, err2, err3)
	if err != nil {
		return err
	}
	certificate := c.FrontClient.Live()
	p.aggregator, err = aggregate.New(aggregate.Config{
		APIServices: objects, Services: services,
		EndpointSlices: slices, Endpoints: informer.NewIndex(slices, aggregate.ByService),
		Status:      typed.APIServices(p.client),
		Certificate: func() (*tls.Certificate, error) { return certificate.Certificate(nil) },
		Log:         p.log.WithName("aggregation"),
	})
	return err
}

// start starts the parts of the policy on s, and returns once they decide.
func (p *policy) start(ctx context.Context, s *stack.Stack) error {
	p.caches.Start(s)
	s.Start("aggregation", p.aggregator.Run)
	s.Start("RBAC", p.rbac.Run)
	s.Start("aggregated roles", p.roles.Run)
	if err := s.Await(ctx, p.aggregator.Ready()); err != nil {
		return err
	}
	return s.Await(ctx, p.rbac.Synced())
}

// seed creates the objects that every server begins with.
func seed(ctx context.Context, api *client.Client, c *credentials.Credentials, resources []apiserver.Resource) error {
	err := bootstrap.Seed(ctx, bootstrap.Config{
		Client: api, Resources: resources,
		Authentication: aggregate.AuthenticationConfigMap(c.Authority.CertificatePEM, c.FrontProxy.CertificatePEM, credentials.FrontProxy),
	})
	if err != nil {
		return err
	}
	return bootstrap.Grant(ctx, api, rbac.Bootstrap{NodesByRole: true, ControllersAsOne: true}.Policy())
}
