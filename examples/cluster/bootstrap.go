package main

import (
	"context"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/aggregate"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/authz/rbac"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/reconcile/controllers"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// seedWorkers is how many bootstrap objects are written at once: enough to
// share the disk's flushes among them.
const seedWorkers = 16

// seed creates what every cluster begins with, where it is not there yet. The
// resources are those of the API server.
func seed(ctx context.Context, api *client.Client, credentials *credentials, resources []apiserver.Resource) error {
	ca := credentials.authority.CertificatePEM
	writes, ctx := errgroup.WithContext(ctx)
	writes.SetLimit(seedWorkers)
	for _, namespace := range kube.Namespaces() {
		// What is in a namespace that is not there yet would be refused.
		writes.Go(func() error {
			if err := create(ctx, typed.Namespaces(api), namespace); err != nil {
				return err
			}
			account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "default"}}
			if err := create(ctx, typed.ServiceAccounts(api), account); err != nil {
				return err
			}
			if err := create(ctx, typed.ConfigMaps(api), controllers.RootCAConfigMap(namespace.Name, ca)); err != nil {
				return err
			}
			if namespace.Name != metav1.NamespaceSystem {
				return nil
			}
			return seedSystem(ctx, api, credentials)
		})
	}
	writes.Go(func() error { return seedAPIServices(ctx, api, resources) })
	roles, bindings := rbac.BootstrapPolicy()
	for _, role := range roles {
		writes.Go(func() error { return create(ctx, typed.ClusterRoles(api), role) })
	}
	for _, binding := range bindings {
		writes.Go(func() error { return create(ctx, typed.ClusterRoleBindings(api), binding) })
	}
	return writes.Wait()
}

// seedSystem creates what is in kube-system.
func seedSystem(ctx context.Context, api *client.Client, credentials *credentials) error {
	roles, bindings := rbac.BootstrapNamespacedPolicy()
	for _, role := range roles {
		if err := create(ctx, typed.Roles(api), role); err != nil {
			return err
		}
	}
	for _, binding := range bindings {
		if err := create(ctx, typed.RoleBindings(api), binding); err != nil {
			return err
		}
	}
	return aggregate.Publish(ctx, typed.ConfigMaps(api), credentials.authenticationConfigMap())
}

// create creates object unless it exists.
func create[T client.Object](ctx context.Context, resource client.Resource[T], object T) error {
	_, err := resource.Create(ctx, object)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
