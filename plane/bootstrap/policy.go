package bootstrap

import (
	"context"
	"sync"

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
		contested, err := carryOut(ctx, api, plan)
		if err != nil || contested == nil {
			return err
		}
		if attempt == policyAttempts {
			return contested
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

// carryOut writes the objects of a plan, many at a time. It returns in contested the last error of a
// write that another writer was faster with. Such a write does not keep the others from being made:
// servers that start together would otherwise stop each other at every attempt.
func carryOut(ctx context.Context, api *client.Client, plan rbac.Plan) (contested, err error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	w := &writer{ctx: ctx, group: group}
	carryOutFor(w, typed.ClusterRoles(api), plan.Create.ClusterRoles, plan.Update.ClusterRoles, plan.Recreate.ClusterRoles)
	carryOutFor(w, typed.ClusterRoleBindings(api), plan.Create.ClusterRoleBindings, plan.Update.ClusterRoleBindings, plan.Recreate.ClusterRoleBindings)
	carryOutFor(w, typed.Roles(api), plan.Create.Roles, plan.Update.Roles, plan.Recreate.Roles)
	carryOutFor(w, typed.RoleBindings(api), plan.Create.RoleBindings, plan.Update.RoleBindings, plan.Recreate.RoleBindings)
	err = group.Wait()
	return w.contested, err
}

// writer makes writes concurrently.
type writer struct {
	ctx   context.Context
	group *errgroup.Group

	mu        sync.Mutex
	contested error // guarded by mu until the group has ended
}

func (w *writer) do(write func() error) {
	w.group.Go(func() error {
		err := write()
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.contested = err
		return nil
	})
}

func carryOutFor[T client.Object](w *writer, resource client.Resource[T], create, update, recreate []T) {
	for _, object := range create {
		w.do(func() error {
			_, err := resource.Create(w.ctx, object)
			return err
		})
	}
	for _, object := range update {
		w.do(func() error {
			_, err := resource.Update(w.ctx, object)
			return err
		})
	}
	for _, object := range recreate {
		w.do(func() error {
			err := resource.Delete(w.ctx, object.GetNamespace(), object.GetName(), metav1.DeleteOptions{})
			if err == nil || apierrors.IsNotFound(err) {
				_, err = resource.Create(w.ctx, object)
			}
			return err
		})
	}
}
