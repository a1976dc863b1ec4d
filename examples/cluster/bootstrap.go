package main

import (
	"context"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/aggregate"
	"github.com/planekit/planekit/apiserver/kube"
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

// seed creates what every cluster begins with, where it is not there yet, and sees
// to it that what Kubernetes' components may do is granted. The resources are
// those of the API server.
func (c *cluster) seed(ctx context.Context, api *client.Client, resources []apiserver.Resource) error {
	ca := c.credentials.authority.CertificatePEM
	writes, first := errgroup.WithContext(ctx)
	writes.SetLimit(seedWorkers)
	for _, namespace := range kube.Namespaces() {
		// What is in a namespace that is not there yet would be refused.
		writes.Go(func() error {
			if err := create(first, typed.Namespaces(api), namespace); err != nil {
				return err
			}
			account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "default"}}
			if err := create(first, typed.ServiceAccounts(api), account); err != nil {
				return err
			}
			if err := create(first, typed.ConfigMaps(api), controllers.RootCAConfigMap(namespace.Name, ca)); err != nil {
				return err
			}
			if namespace.Name != metav1.NamespaceSystem {
				return nil
			}
			return aggregate.Publish(first, typed.ConfigMaps(api), c.credentials.authenticationConfigMap())
		})
	}
	writes.Go(func() error { return seedAPIServices(first, api, resources) })
	for _, class := range kube.PriorityClasses() {
		writes.Go(func() error { return create(first, typed.PriorityClasses(api), class) })
	}
	if err := writes.Wait(); err != nil {
		return err
	}
	return seedPolicy(ctx, api, c.options.access.bootstrapPolicy())
}

// create creates object unless it exists.
func create[T client.Object](ctx context.Context, resource client.Resource[T], object T) error {
	_, err := resource.Create(ctx, object)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
