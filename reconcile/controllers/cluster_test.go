package controllers_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/planekit/planekit/reconcile/controllers"
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
			return []controllers.Runner{must[*controllers.ServiceAccount](t)(controllers.NewServiceAccount(controllers.ServiceAccountConfig{
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

func TestNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		left := 3
		var broken atomic.Bool
		broken.Store(true)
		pods := func(_ context.Context, namespace string) (int, error) {
			if namespace != "doomed" {
				t.Errorf("emptied %s", namespace)
			}
			left = max(0, left-1)
			return left, nil
		}
		secrets := func(context.Context, string) (int, error) {
			if broken.Load() {
				return 0, errors.New("no route to host")
			}
			return 0, nil
		}
		p := launch(t, func(ctx context.Context) []controllers.Runner {
			return []controllers.Runner{must[*controllers.Namespace](t)(controllers.NewNamespace(controllers.NamespaceConfig{
				Namespaces: follow(ctx, c.namespaces, lag{most: time.Second}),
				Contents:   []controllers.Emptier{secrets, pods}, Writer: finalizer{c.namespaces},
			}))}
		})
		for _, name := range []string{"doomed", "other"} {
			must[*corev1.Namespace](t)(c.namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"example.com/mine", corev1.FinalizerKubernetes}}}))
		}
		now := metav1.Now()
		c.namespaces.alter(t, "doomed", func(n *corev1.Namespace) {
			n.DeletionTimestamp, n.Finalizers = &now, []string{"stay"}
		})
		settle()
		if left != 0 {
			t.Error("one resource that cannot be emptied kept another")
		}
		if got := c.namespaces.list()[0].Spec.Finalizers; len(got) != 2 {
			t.Errorf("finalized while not all was known to be gone: %v", got)
		}
		broken.Store(false)
		settle()
		if got := c.namespaces.list()[0].Spec.Finalizers; !slices.Equal(got, []corev1.FinalizerName{"example.com/mine"}) {
			t.Errorf("finalizers %v", got)
		}
		if got := c.namespaces.list()[1].Spec.Finalizers; len(got) != 2 {
			t.Errorf("a namespace that stays lost finalizers: %v", got)
		}
		p.stop(t)
	})
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
			return []controllers.Runner{must[*controllers.NodeIPAM](t)(controllers.NewNodeIPAM(controllers.NodeIPAMConfig{
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

// TestNodeLifecycle has a kubelet that falls silent and comes back. Its clock
// is an hour off.
func TestNodeLifecycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		wrong := func() metav1.Time { return metav1.NewTime(time.Now().Add(-time.Hour)) }
		report := func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: wrong()}}
		}
		c.addNode(t, "n")
		c.nodes.alter(t, "n", report)
		must[*coordinationv1.Lease](t)(c.leases.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-node-lease", Name: "n"}}))
		p := launch(t, func(ctx context.Context) []controllers.Runner {
			return []controllers.Runner{must[*controllers.NodeLifecycle](t)(controllers.NewNodeLifecycle(controllers.NodeLifecycleConfig{
				Nodes: follow(ctx, c.nodes, lag{}), Leases: follow(ctx, c.leases, lag{}), Writer: c.nodes, Events: c.api,
			}))}
		})
		for range 30 {
			time.Sleep(10 * time.Second)
			c.leases.alter(t, "kube-node-lease/n", func(l *coordinationv1.Lease) {
				l.Spec.RenewTime = &metav1.MicroTime{Time: wrong().Time}
			})
		}
		time.Sleep(45 * time.Second)
		if n := c.nodes.list()[0]; len(n.Spec.Taints) != 0 {
			t.Errorf("tainted within the grace: %v", n.Spec.Taints)
		}
		time.Sleep(10 * time.Second)
		n := c.nodes.list()[0]
		if got := n.Status.Conditions[0]; got.Status != corev1.ConditionUnknown || got.Reason != "NodeStatusUnknown" {
			t.Errorf("condition %+v", got)
		}
		if got := taints(n); !slices.Equal(got, []string{"node.kubernetes.io/unreachable:NoExecute", "node.kubernetes.io/unreachable:NoSchedule"}) {
			t.Errorf("taints %v", got)
		}
		c.nodes.alter(t, "n", report)
		synctest.Wait()
		if got := taints(c.nodes.list()[0]); len(got) != 0 {
			t.Errorf("taints after recovery: %v", got)
		}
		c.nodes.alter(t, "n", func(n *corev1.Node) {
			report(n)
			n.Status.Conditions[0].Status = corev1.ConditionFalse
		})
		synctest.Wait()
		if got := taints(c.nodes.list()[0]); len(got) != 2 || got[0] != "node.kubernetes.io/not-ready:NoExecute" {
			t.Errorf("taints when not ready: %v", got)
		}
		p.stop(t)
	})
}

func taints(n *corev1.Node) (list []string) {
	for _, taint := range n.Spec.Taints {
		list = append(list, taint.Key+":"+string(taint.Effect))
	}
	slices.Sort(list)
	return list
}

func TestPodGarbage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.addNode(t, "here")
		c.addNode(t, "gone")
		p := launch(t, func(ctx context.Context) []controllers.Runner {
			pods := follow(ctx, c.pods, lag{})
			// Nodes become known late: their absence from the copy proves nothing.
			nodes := follow(ctx, c.nodes, lag{most: time.Minute})
			return []controllers.Runner{must[*controllers.PodGarbage](t)(controllers.NewPodGarbage(controllers.PodGarbageConfig{
				Pods: pods, Nodes: nodes, NodeReader: c.nodes, Writer: c.pods,
			}))}
		})
		c.addNode(t, "new")
		for _, node := range []string{"here", "gone", "new", ""} {
			must[*corev1.Pod](t)(c.pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "on-" + node},
				Spec: corev1.PodSpec{NodeName: node}}))
		}
		settle()
		if got := len(c.pods.list()); got != 4 {
			t.Errorf("%d pods, want 4", got)
		}
		if err := c.nodes.Delete(t.Context(), "", "gone", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		settle()
		var left []string
		for _, pod := range c.pods.list() {
			left = append(left, pod.Name)
		}
		if !slices.Equal(left, []string{"on-", "on-here", "on-new"}) {
			t.Errorf("left are %v", left)
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
