package controllers_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/account"
	"github.com/planekit/planekit/reconcile/controllers/node"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// cluster is an API with what is not a workload.
type cluster struct {
	*api
	namespaces *collection[*corev1.Namespace]
	accounts   *collection[*corev1.ServiceAccount]
	nodes      *collection[*corev1.Node]
	leases     *collection[*coordinationv1.Lease]
	pods       *collection[*corev1.Pod]
}

func newCluster() *cluster {
	a := &api{}
	return &cluster{
		api:        a,
		namespaces: newCollection(a, "Namespace", func() *corev1.Namespace { return &corev1.Namespace{} }),
		accounts:   newCollection(a, "ServiceAccount", func() *corev1.ServiceAccount { return &corev1.ServiceAccount{} }),
		nodes:      newCollection(a, "Node", func() *corev1.Node { return &corev1.Node{} }),
		leases:     newCollection(a, "Lease", func() *coordinationv1.Lease { return &coordinationv1.Lease{} }),
		pods:       newPods(a),
	}
}

func TestServiceAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		p := launch(t, func(ctx context.Context) []controllers.Runner {
			l := lag{most: time.Second}
			return []controllers.Runner{must[*account.ServiceAccount](t)(account.NewServiceAccount(account.ServiceAccountConfig{
				Namespaces: follow(ctx, c.namespaces, l), ServiceAccounts: follow(ctx, c.accounts, l), Writer: c.accounts,
			}))}
		})
		for _, name := range []string{"a", "b"} {
			must[*corev1.Namespace](t)(c.namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
		}
		settle()
		if err := c.accounts.Delete(t.Context(), "a", "default", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		settle()
		if got := c.accounts.list(); len(got) != 2 || keyOf(got[0]) != "a/default" || keyOf(got[1]) != "b/default" {
			t.Errorf("accounts %v", got)
		}
		c.namespaces.alter(t, "b", func(n *corev1.Namespace) { n.Status.Phase = corev1.NamespaceTerminating })
		settle()
		if err := c.accounts.Delete(t.Context(), "b", "default", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		settle()
		if got := len(c.accounts.list()); got != 1 {
			t.Errorf("%d accounts: made again in a namespace that goes", got)
		}
		p.stop(t)
	})
}

// finalizer finalizes as the API does.
type finalizer struct {
	*collection[*corev1.Namespace]
}

func (f finalizer) Finalize(ctx context.Context, n *corev1.Namespace) error {
	_, err := f.edit(ctx, "finalize", n.Name, n.ResourceVersion, n.UID, func(o *corev1.Namespace) error {
		o.Spec.Finalizers = n.Spec.Finalizers
		return nil
	})
	return err
}

func (c *cluster) addNode(t *testing.T, name string) {
	t.Helper()
	must[*corev1.Node](t)(c.nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
}

// TestNodeIPAM has nodes come and go, copies that lag, writes that fail, and
// restarts. No two nodes ever have the same range.
func TestNodeIPAM(t *testing.T) {
	for range 20 {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { perturbNodeIPAM(t, seed) })
		})
	}
}

func perturbNodeIPAM(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0))
	c := newCluster()
	c.nodes.check = func(_, _ *corev1.Node) {
		owner := map[string]string{}
		for _, n := range c.nodes.objects {
			if other, ok := owner[n.Spec.PodCIDR]; ok && n.Spec.PodCIDR != "" {
				t.Errorf("%s and %s have %s", other, n.Name, n.Spec.PodCIDR)
			}
			owner[n.Spec.PodCIDR] = n.Name
		}
	}
	run := func() *process {
		return launch(t, func(ctx context.Context) []controllers.Runner {
			return []controllers.Runner{must[*node.IPAM](t)(node.NewIPAM(node.IPAMConfig{
				Nodes: follow(ctx, c.nodes, lag{random: r, most: 5 * time.Second, relist: 10}), Writer: c.nodes,
				Cluster: netip.MustParsePrefix("10.1.0.0/22"), Events: c.api,
			}))}
		})
	}
	w := &world{api: c.api}
	names := []string{"a", "b", "c", "d", "e", "f"} // two more than there are ranges
	for _, name := range names {
		c.addNode(t, name)
	}
	noFaults := w.faults(r, 30)
	p := run()
	for range 40 {
		time.Sleep(time.Duration(r.IntN(10)) * time.Second)
		switch name := names[r.IntN(len(names))]; r.IntN(4) {
		case 0:
			p.stop(t)
			p = run()
		case 1:
			_ = c.nodes.Delete(t.Context(), "", name, metav1.DeleteOptions{}) // may be gone, may fail
		default:
			_, _ = c.nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
	}
	noFaults()
	for _, name := range names {
		_, _ = c.nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	settle()
	have := 0
	for _, n := range c.nodes.list() {
		if n.Spec.PodCIDR != "" {
			have++
			if !slices.Equal(n.Spec.PodCIDRs, []string{n.Spec.PodCIDR}) {
				t.Errorf("podCIDRs %v, podCIDR %s", n.Spec.PodCIDRs, n.Spec.PodCIDR)
			}
		}
	}
	if have != 4 {
		t.Errorf("%d nodes have a range, want all 4 given out", have)
	}
	p.stop(t)
}

// TestNodeIPAMTells of a node that cannot be given a range, since there is none left
// or since it cannot be written.
func TestNodeIPAMTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		failures := []error{errors.New("connection refused"), apierrors.NewConflict(corev1.Resource("nodes"), "a", errors.New("changed"))}
		c.fault = func(verb, _ string) (bool, error) {
			if verb != "patch" || len(failures) == 0 {
				return true, nil
			}
			err := failures[0]
			failures = failures[1:]
			return false, err
		}
		c.addNode(t, "a")
		c.addNode(t, "b")
		p := launch(t, func(ctx context.Context) []controllers.Runner {
			return []controllers.Runner{must[*node.IPAM](t)(node.NewIPAM(node.IPAMConfig{
				Nodes: follow(ctx, c.nodes, lag{}), Writer: c.nodes, Cluster: netip.MustParsePrefix("10.1.0.0/24"), Events: c.api,
			}))}
		})
		settle()
		told := map[string]int{}
		for _, event := range c.events {
			told[event]++
		}
		if told["Normal CIDRAssignmentFailed: Node a status is now: CIDRAssignmentFailed"] != 1 || told["Normal CIDRNotAvailable: Node b status is now: CIDRNotAvailable"] == 0 || len(told) != 2 {
			t.Errorf("events %v", told)
		}
		p.stop(t)
	})
}

func TestRunStopsAllOnFailure(t *testing.T) {
	broken := errors.New("broken")
	stopped := false
	err := controllers.Run(t.Context(),
		runner(func(context.Context) error { return broken }),
		runner(func(ctx context.Context) error { <-ctx.Done(); stopped = true; return nil }))
	if !errors.Is(err, broken) || !stopped {
		t.Errorf("%v, stopped %t", err, stopped)
	}
}

type runner func(context.Context) error

func (r runner) Run(ctx context.Context) error { return r(ctx) }
