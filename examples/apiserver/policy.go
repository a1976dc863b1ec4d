package main

import (
	"context"
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
	"github.com/planekit/planekit/reconcile/controllers/clusterrole"
	corev1 "k8s.io/api/core/v1"
)

// policy holds RBAC and admission, and the caches that they read.
type policy struct {
	client     *client.Client
	authorizer authz.Authorizer
	admission  admission.Chain
	// parts run as long as the server does, from when it serves.
	parts []func(context.Context) error
	// synced is closed once RBAC decides.
	synced <-chan struct{}
}

// newPolicy makes the policy of the server that server returns. server is first called when the
// parts run.
func newPolicy(server func() *apiserver.Server, log logr.Logger) (*policy, error) {
	self := &user.Info{Name: user.APIServer, Groups: []string{user.Masters, user.Authenticated}}
	api, err := client.New(client.InProcess(client.TransportFunc(func(r *http.Request) (*http.Response, error) {
		return server().Transport(self).RoundTrip(r)
	})))
	if err != nil {
		return nil, err
	}
	p := &policy{client: api}
	if err := p.authorize(log); err != nil {
		return nil, err
	}
	namespaces, err := newCache(p, typed.Namespaces(api), log)
	if err != nil {
		return nil, err
	}
	accounts, err := newCache(p, typed.ServiceAccounts(api), log)
	if err != nil {
		return nil, err
	}
	life, err := lifecycle.New(lifecycle.Config{
		Namespaces: namespaces,
		Lookup: func(ctx context.Context, name string) (*corev1.Namespace, error) {
			return typed.Namespaces(api).Get(ctx, "", name)
		},
	})
	if err != nil {
		return nil, err
	}
	account, err := serviceaccount.New(serviceaccount.Config{
		Accounts: accounts, Lookup: typed.ServiceAccounts(api).Get, NoTokenVolume: true,
	})
	if err != nil {
		return nil, err
	}
	p.admission = admission.Chain{Mutators: []admission.Mutator{life, account}, Validators: []admission.Validator{account}}
	return p, nil
}

// authorize makes the authorizer: RBAC, which is not asked about the superusers.
func (p *policy) authorize(log logr.Logger) error {
	roles, err1 := newCache(p, typed.Roles(p.client), log)
	bindings, err2 := newCache(p, typed.RoleBindings(p.client), log)
	clusterRoles, err3 := newCache(p, typed.ClusterRoles(p.client), log)
	clusterBindings, err4 := newCache(p, typed.ClusterRoleBindings(p.client), log)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	authorizer, err := rbac.New(rbac.Config{
		Roles: roles, RoleBindings: bindings, ClusterRoles: clusterRoles, ClusterRoleBindings: clusterBindings,
		Log: log.WithName("rbac"),
	})
	if err != nil {
		return err
	}
	aggregator, err := clusterrole.New(clusterrole.Config{
		ClusterRoles: clusterRoles, Writer: typed.ClusterRoles(p.client), Log: log.WithName("clusterroles"),
	})
	if err != nil {
		return err
	}
	p.parts = append(p.parts, authorizer.Run, aggregator.Run)
	p.synced = authorizer.Synced()
	p.authorizer = authz.Chain{authz.Superusers(user.Masters), authorizer}
	return nil
}

// newCache returns the cache of what source has, and adds it to the parts.
func newCache[T client.Object](p *policy, source informer.Source[T], log logr.Logger) (*informer.Informer[T], error) {
	made, err := caches.Of(source, log)
	if err == nil {
		p.parts = append(p.parts, made.Run)
	}
	return made, err
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
