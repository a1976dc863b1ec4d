// Package bootstrap creates the objects that every cluster begins with: the system
// namespaces with their default service account, the RBAC policy, priority classes,
// the APIServices of the server's own groups, and the ConfigMaps by which programs
// verify the server and servers behind it verify users.
//
//	err := bootstrap.Seed(ctx, bootstrap.Config{Client: api, Resources: kube.Resources()})
//	err = bootstrap.Grant(ctx, api, rbac.Bootstrap{}.Policy())
//
// Both may run at every start, and at several servers at once. Seed leaves objects
// that exist alone. Grant adds what the policy grants less than it should, unless an
// annotation says otherwise ([rbac.Reconcile]).
package bootstrap

import (
	"context"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/aggregate"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/reconcile/controllers/account"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// workers bounds the concurrent writes: enough of them share each flush of the disk.
const workers = 16

// Config describes the objects. Client must be set, and may do everything.
type Config struct {
	Client *client.Client
	// Resources holds the resources of the API server. Their groups get APIServices.
	Resources []apiserver.Resource
	// PriorityClasses may be those of [kube.PriorityClasses].
	PriorityClasses []*schedulingv1.PriorityClass
	// RootCA is the PEM certificate of the server's authority, which every namespace
	// has in a ConfigMap. Empty is no ConfigMap.
	RootCA []byte
	// NoAccounts leaves the default ServiceAccount of each namespace to a controller.
	NoAccounts bool
	// Authentication is the config map from which extension API servers learn which authorities to
	// trust. [aggregate.AuthenticationConfigMap] makes it; nil means none.
	Authentication *corev1.ConfigMap
}

// Seed creates what does not exist. It returns the first error.
func Seed(ctx context.Context, c Config) error {
	writes, ctx := errgroup.WithContext(ctx)
	writes.SetLimit(workers)
	for _, namespace := range kube.Namespaces() {
		// The server refuses objects in a namespace that does not exist yet.
		writes.Go(func() error { return c.seedNamespace(ctx, namespace) })
	}
	writes.Go(func() error { return c.seedAPIServices(ctx) })
	for _, class := range c.PriorityClasses {
		writes.Go(func() error { return create(ctx, typed.PriorityClasses(c.Client), class) })
	}
	return writes.Wait()
}

func (c *Config) seedNamespace(ctx context.Context, namespace *corev1.Namespace) error {
	if err := create(ctx, typed.Namespaces(c.Client), namespace); err != nil {
		return err
	}
	if !c.NoAccounts {
		defaultAccount := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "default"}}
		if err := create(ctx, typed.ServiceAccounts(c.Client), defaultAccount); err != nil {
			return err
		}
	}
	if c.RootCA != nil {
		if err := create(ctx, typed.ConfigMaps(c.Client), account.RootCAConfigMap(namespace.Name, c.RootCA)); err != nil {
			return err
		}
	}
	if c.Authentication == nil || namespace.Name != c.Authentication.Namespace {
		return nil
	}
	return aggregate.Publish(ctx, typed.ConfigMaps(c.Client), c.Authentication)
}

// seedAPIServices says which groups the server has itself.
func (c *Config) seedAPIServices(ctx context.Context) error {
	var versions []schema.GroupVersion
	for _, r := range c.Resources {
		versions = append(versions, schema.GroupVersion{Group: r.Group, Version: r.Version})
	}
	return aggregate.Register(ctx, typed.APIServices(c.Client), aggregate.Local(versions...))
}

// create creates object unless it exists.
func create[T client.Object](ctx context.Context, resource client.Resource[T], object T) error {
	_, err := resource.Create(ctx, object)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
