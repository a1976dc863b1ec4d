package bootstrap

import (
	"context"

	"github.com/planekit/planekit/authz/rbac"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// policyAttempts is how often the policy is compared again when another writer
// changes it at the same time.
const policyAttempts = 5

// Grant changes the RBAC policy so that it grants at least want.
func Grant(ctx context.Context, api *client.Client, want rbac.Policy) error {
	for attempt := 1; ; attempt++ {
		have, err := readPolicy(ctx, api)
		if err != nil {
			return err
		}
		plan := rbac.Reconcile(want, have)
		if plan.Empty() {
			return nil
		}
		err = carryOut(ctx, api, plan)
		if err == nil || attempt == policyAttempts || !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
}

func readPolicy(ctx context.Context, api *client.Client) (rbac.Policy, error) {
	var p rbac.Policy
	reads, ctx := errgroup.WithContext(ctx)
	read(ctx, reads, typed.ClusterRoles(api), &p.ClusterRoles)
	read(ctx, reads, typed.ClusterRoleBindings(api), &p.ClusterRoleBindings)
	read(ctx, reads, typed.Roles(api), &p.Roles)
	read(ctx, reads, typed.RoleBindings(api), &p.RoleBindings)
	return p, reads.Wait()
}

func read[T client.Object](ctx context.Context, reads *errgroup.Group, resource client.Resource[T], to *[]T) {
	reads.Go(func() (err error) {
		*to, _, err = resource.List(ctx, "", metav1.ListOptions{})
		return err
	})
}

// carryOut writes the objects of a plan, many at a time.
func carryOut(ctx context.Context, api *client.Client, plan rbac.Plan) error {
	writes, ctx := errgroup.WithContext(ctx)
	writes.SetLimit(workers)
	carryOutFor(ctx, writes, typed.ClusterRoles(api), plan.Create.ClusterRoles, plan.Update.ClusterRoles, plan.Recreate.ClusterRoles)
	carryOutFor(ctx, writes, typed.ClusterRoleBindings(api), plan.Create.ClusterRoleBindings, plan.Update.ClusterRoleBindings, plan.Recreate.ClusterRoleBindings)
	carryOutFor(ctx, writes, typed.Roles(api), plan.Create.Roles, plan.Update.Roles, plan.Recreate.Roles)
	carryOutFor(ctx, writes, typed.RoleBindings(api), plan.Create.RoleBindings, plan.Update.RoleBindings, plan.Recreate.RoleBindings)
	return writes.Wait()
}

func carryOutFor[T client.Object](ctx context.Context, writes *errgroup.Group, resource client.Resource[T], create, update, recreate []T) {
	for _, object := range create {
		writes.Go(func() error {
			_, err := resource.Create(ctx, object)
			return err
		})
	}
	for _, object := range update {
		writes.Go(func() error {
			_, err := resource.Update(ctx, object)
			return err
		})
	}
	for _, object := range recreate {
		writes.Go(func() error {
			err := resource.Delete(ctx, object.GetNamespace(), object.GetName(), metav1.DeleteOptions{})
			if err == nil || apierrors.IsNotFound(err) {
				_, err = resource.Create(ctx, object)
			}
			return err
		})
	}
}
