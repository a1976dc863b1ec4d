package main

import (
	"context"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/lifecycle"
	"github.com/planekit/planekit/admission/serviceaccount"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/authz/rbac"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	corev1 "k8s.io/api/core/v1"
)

// newAuthorizer asks RBAC, after the one group that is above it.
func (c *cluster) newAuthorizer() (authz.Authorizer, *rbac.Authorizer, error) {
	roles, err := rbac.New(rbac.Config{
		Roles:               c.copies.roles,
		RoleBindings:        c.copies.roleBindings,
		ClusterRoles:        c.copies.clusterRoles,
		ClusterRoleBindings: c.copies.clusterRoleBindings,
		Log:                 c.log.WithName("rbac"),
	})
	if err != nil {
		return nil, nil, err
	}
	return authz.Chain{authz.Superusers(user.Masters), roles}, roles, nil
}

// admission completes and checks what is about to be stored. The plugins read
// local copies, and the store itself where a copy does not know something.
func (c *cluster) admission(api *client.Client) (admission.Chain, error) {
	namespaces, accounts := typed.Namespaces(api), typed.ServiceAccounts(api)
	life, err := lifecycle.New(lifecycle.Config{
		Namespaces: c.copies.namespaces,
		Lookup: func(ctx context.Context, name string) (*corev1.Namespace, error) {
			return namespaces.Get(ctx, "", name)
		},
	})
	if err != nil {
		return admission.Chain{}, err
	}
	account, err := serviceaccount.New(serviceaccount.Config{Accounts: c.copies.serviceAccounts, Lookup: accounts.Get})
	if err != nil {
		return admission.Chain{}, err
	}
	return admission.Chain{
		Mutators:   []admission.Mutator{life, account},
		Validators: []admission.Validator{account},
	}, nil
}
