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
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/authz/rbac"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/informer"
	"github.com/planekit/planekit/reconcile/controllers"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// policy is what decides about requests: RBAC and admission, over local copies.
type policy struct {
	client     *client.Client
	authorizer authz.Authorizer
	admission  admission.Chain
	// parts run as long as the server does, from when it serves.
	parts []func(context.Context) error
	// synced is closed once RBAC decides.
	synced <-chan struct{}
}

// newPolicy prepares the policy of the server that server returns, which need
// not be there yet.
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

// authorize asks RBAC, after the one group that is above it.
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
	aggregator, err := controllers.NewClusterRole(controllers.ClusterRoleConfig{
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

// newCache returns the cache of what source has, which p runs.
func newCache[T client.Object](p *policy, source informer.Source[T], log logr.Logger) (*informer.Informer[T], error) {
	config := informer.ObjectConfig(source)
	config.Log = log
	made, err := informer.New(config)
	if err == nil {
		p.parts = append(p.parts, made.Run)
	}
	return made, err
}

// seed creates what every server begins with, where it is not there yet: the
// namespaces, the account of each, RBAC's roles, and the groups it has.
func seed(ctx context.Context, api *client.Client, front *frontProxy, resources []apiserver.Resource) error {
	writes, ctx := errgroup.WithContext(ctx)
	writes.SetLimit(16) // enough to share the disk's flushes
	for _, namespace := range kube.Namespaces() {
		writes.Go(func() error {
			if err := create(ctx, typed.Namespaces(api), namespace); err != nil {
				return err
			}
			err := create(ctx, typed.ServiceAccounts(api), &corev1.ServiceAccount{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "default"},
			})
			if err != nil || namespace.Name != metav1.NamespaceSystem {
				return err
			}
			return front.publish(ctx, api)
		})
	}
	writes.Go(func() error { return register(ctx, api, resources) })
	roles, bindings := rbac.BootstrapPolicy()
	for _, role := range roles {
		writes.Go(func() error { return create(ctx, typed.ClusterRoles(api), role) })
	}
	for _, binding := range bindings {
		writes.Go(func() error { return create(ctx, typed.ClusterRoleBindings(api), binding) })
	}
	return writes.Wait()
}

// create creates object unless it exists.
func create[T client.Object](ctx context.Context, resource client.Resource[T], object T) error {
	_, err := resource.Create(ctx, object)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
