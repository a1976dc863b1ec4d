package controllers_test

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/account"
	"github.com/planekit/planekit/reconcile/controllers/node"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func otherScenarios() []scenario {
	return []scenario{
		{name: "service accounts", set: accounts},
		{name: "root CA", set: authorities},
		{name: "cluster roles", set: aggregates},
		{name: "resource quota", set: counts},
		{name: "node addresses", set: addresses},
		{name: "node lifecycle", set: silences},
		{name: "namespaces", set: empties},
		{name: "pod garbage", set: sweeps},
		{name: "endpoints and their slices", set: points},
		{name: "endpoint slices", set: slicesAlone},
		{name: "mirrored endpoints", set: mirrors},
		{name: "endpoints", set: endpointsAlone},
		{name: "service account tokens", set: signs},
		{name: "TTL after finished", set: expires},
		{name: "taint eviction", set: evicts},
		{name: "node lifecycle over zones", set: darkens},
		{name: "disruption budgets", set: disrupts},
		{name: "autoscalers", set: autoscales},
		{name: "types of policies", set: typeChecks},
	}
}

// single makes a stage of one controller.
func single[R controllers.Runner](t *testing.T, a *api, make func(ctx context.Context, l lag) (R, error)) stage {
	return stage{api: a, run: func(l lag) *process {
		return launch(t, func(ctx context.Context) []controllers.Runner {
			return []controllers.Runner{must[R](t)(make(ctx, l))}
		})
	}}
}

// removeOutside deletes an object as a user does, if it is there.
func removeOutside[T thing[T]](t *testing.T, c *collection[T], namespace, name string) {
	t.Helper()
	if _, err := c.Get(t.Context(), namespace, name); err != nil {
		return // not made yet
	}
	if err := c.Delete(outside(), namespace, name, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

func accounts(t *testing.T, _ context.Context, _ *rand.Rand) stage {
	c := newCluster()
	for _, name := range []string{"a", "b"} {
		must[*corev1.Namespace](t)(c.namespaces.Create(outside(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	st := single(t, c.api, func(ctx context.Context, l lag) (*account.ServiceAccount, error) {
		return account.NewServiceAccount(account.ServiceAccountConfig{
			Namespaces: follow(ctx, c.namespaces, l), ServiceAccounts: follow(ctx, c.accounts, l), Writer: c.accounts,
		})
	})
	c.accounts.check = func(_, _ *corev1.ServiceAccount) {
		for key := range c.accounts.objects {
			if key != "a/default" && key != "b/default" {
				t.Errorf("made %s", key)
			}
		}
	}
	st.steps = []func(){
		func() { removeOutside(t, c.accounts, "a", "default") },
		func() { removeOutside(t, c.accounts, "b", "default") },
	}
	st.wanted = func() {
		if got := len(c.accounts.list()); got != 2 {
			t.Errorf("%d accounts, want 2", got)
		}
	}
	return st
}

func authorities(t *testing.T, _ context.Context, _ *rand.Rand) stage {
	c := newCluster()
	maps := newCollection(c.api, "ConfigMap", func() *corev1.ConfigMap { return &corev1.ConfigMap{} })
	for _, name := range []string{"a", "b"} {
		must[*corev1.Namespace](t)(c.namespaces.Create(outside(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	must[*corev1.ConfigMap](t)(maps.Create(outside(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "kube-root-ca.crt"}, Data: map[string]string{"ca.crt": "old"}}))
	return stage{
		api:   c.api,
		run:   func(l lag) *process { return launchRootCA(t, c, maps, l) },
		steps: []func(){func() { removeOutside(t, maps, "a", "kube-root-ca.crt") }},
		wanted: func() {
			all := maps.list()
			if len(all) != 2 || all[0].Data["ca.crt"] != authority || all[1].Data["ca.crt"] != authority {
				t.Errorf("config maps %v", all)
			}
		},
	}
}

func aggregates(t *testing.T, _ context.Context, _ *rand.Rand) stage {
	c := newCluster()
	roles := newRoles(t, c.api)
	roles.check = func(_, _ *rbacv1.ClusterRole) {
		if len(roles.objects) > 3 {
			t.Error("a role was made")
		}
	}
	return stage{
		api: c.api,
		run: func(l lag) *process { return launchClusterRole(t, roles, l) },
		steps: []func(){
			func() {
				roles.alter(t, "top", func(r *rbacv1.ClusterRole) { r.Rules = newRole("", "", "", "delete").Rules })
			},
			func() {
				roles.alter(t, "bottom", func(r *rbacv1.ClusterRole) { r.Rules = newRole("", "", "", "get", "watch").Rules })
			},
		},
		wanted: func() {
			wantVerbs(t, "in the end", roles, "bottom: get watch", "middle: get watch", "top: get watch")
		},
	}
}

// counts has pods come and go. What is charged is never less than there is.
func counts(t *testing.T, _ context.Context, _ *rand.Rand) stage {
	w := newQuotaWorld()
	must[*corev1.ResourceQuota](t)(w.quotas.Create(outside(), newQuota("pods", "9", "cpu", "9")))
	w.guard(t, 9)
	charged := func(name string) func() {
		return func() {
			if w.charge(t, 1, "1") {
				must[*corev1.Pod](t)(w.pods.Create(outside(), quotaPod(name, "1")))
			}
		}
	}
	// Nothing is admitted before the quota has been counted for the first time.
	first := func() {
		for w.quotas.list()[0].Status.Hard == nil {
			time.Sleep(time.Second)
		}
	}
	return stage{
		api: w.api,
		run: func(l lag) *process { return w.launch(t, l, l) },
		steps: []func(){first, charged("a"), charged("b"),
			func() { w.pods.alter(t, "default/a", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }) },
			charged("c")},
		wanted: func() { w.wantExact(t) },
	}
}

// addresses has more nodes than there are ranges, and one of them go.
func addresses(t *testing.T, _ context.Context, _ *rand.Rand) stage {
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
	add := func(names ...string) func() {
		return func() {
			for _, name := range names {
				must[*corev1.Node](t)(c.nodes.Create(outside(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
			}
		}
	}
	add("a", "b", "c")()
	st := single(t, c.api, func(ctx context.Context, l lag) (*node.IPAM, error) {
		return node.NewIPAM(node.IPAMConfig{
			Nodes: follow(ctx, c.nodes, l), Writer: c.nodes, Cluster: netip.MustParsePrefix("10.1.0.0/22"), Events: c.api,
		})
	})
	st.steps = []func(){add("d", "e"), func() { removeOutside(t, c.nodes, "", "a") }}
	st.wanted = func() {
		var have []string
		for _, n := range c.nodes.list() {
			have = append(have, n.Spec.PodCIDR)
		}
		slices.Sort(have)
		if want := []string{"10.1.0.0/24", "10.1.1.0/24", "10.1.2.0/24", "10.1.3.0/24"}; !slices.Equal(have, want) {
			t.Errorf("ranges %v, want %v", have, want)
		}
	}
	return st
}

// silences has one node fall silent and another go on.
func silences(t *testing.T, ctx context.Context, _ *rand.Rand) stage {
	c := newCluster()
	for _, name := range []string{"alive", "silent"} {
		must[*corev1.Node](t)(c.nodes.Create(outside(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}))
		must[*coordinationv1.Lease](t)(c.leases.Create(outside(), &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-node-lease", Name: name}}))
	}
	renew := func(name string) {
		c.leases.alter(t, "kube-node-lease/"+name, func(l *coordinationv1.Lease) { l.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()} })
	}
	go func() {
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-time.After(10 * time.Second):
				renew("alive")
				if n < 5 {
					renew("silent")
				}
			}
		}
	}()
	c.nodes.check = func(_, n *corev1.Node) {
		if n.Name == "alive" && len(n.Spec.Taints) > 0 {
			t.Errorf("a node that is alive has the taints %v", taints(n))
		}
	}
	st := single(t, c.api, func(ctx context.Context, l lag) (*node.Lifecycle, error) {
		return node.NewLifecycle(node.LifecycleConfig{
			Nodes: follow(ctx, c.nodes, l), Leases: follow(ctx, c.leases, l), Writer: c.nodes, Events: c.api,
		})
	})
	st.wanted = func() {
		silent := c.nodes.list()[1]
		want := []string{"node.kubernetes.io/unreachable:NoExecute", "node.kubernetes.io/unreachable:NoSchedule"}
		if got := taints(silent); !slices.Equal(got, want) || silent.Status.Conditions[0].Status != corev1.ConditionUnknown {
			t.Errorf("taints %v, conditions %v", got, silent.Status.Conditions)
		}
	}
	return st
}

// empties deletes one namespace of two.
func empties(t *testing.T, _ context.Context, _ *rand.Rand) stage {
	c := newCluster()
	r := &rooms{pods: map[string]int{"doomed": 2, "stays": 2}, secrets: map[string]int{"doomed": 1, "stays": 1}}
	for _, name := range []string{"doomed", "stays"} {
		c.addNamespace(t, name)
	}
	c.namespaces.check = func(_, new *corev1.Namespace) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if new != nil && len(new.Spec.Finalizers) == 0 && r.pods[new.Name]+r.secrets[new.Name] > 0 {
			t.Errorf("%s was let go with %d pods and %d secrets", new.Name, r.pods[new.Name], r.secrets[new.Name])
		}
	}
	return stage{
		api:   c.api,
		run:   func(l lag) *process { return c.runNamespaces(t, r, l) },
		steps: []func(){func() { c.terminate(t, "doomed") }},
		wanted: func() {
			if c.namespace("doomed") != nil && len(c.namespace("doomed").Spec.Finalizers) > 0 {
				t.Error("the namespace was not let go")
			}
			if len(c.namespace("stays").Spec.Finalizers) == 0 || r.pods["stays"] != 2 || r.secrets["stays"] != 1 {
				t.Errorf("a namespace that stays has %d pods and %d secrets", r.pods["stays"], r.secrets["stays"])
			}
		},
	}
}

// sweeps has a node go with the pods on it.
func sweeps(t *testing.T, _ context.Context, _ *rand.Rand) stage {
	c := newCluster()
	for _, node := range []string{"here", "gone"} {
		c.addNode(t, node)
		must[*corev1.Pod](t)(c.pods.Create(outside(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "on-" + node}, Spec: corev1.PodSpec{NodeName: node}}))
	}
	c.pods.check = func(_, _ *corev1.Pod) {
		if pod := c.pods.objects["default/on-here"]; pod == nil || pod.DeletionTimestamp != nil {
			t.Error("a pod was removed from a node that is there")
		}
	}
	st := single(t, c.api, func(ctx context.Context, l lag) (*node.PodGarbage, error) {
		return node.NewPodGarbage(node.PodGarbageConfig{
			Pods: follow(ctx, c.pods, l), Nodes: follow(ctx, c.nodes, l), NodeReader: c.nodes, Writer: c.pods,
		})
	})
	st.steps = []func(){func() { removeOutside(t, c.nodes, "", "gone") }}
	st.wanted = func() {
		if got := c.pods.list(); len(got) != 1 || got[0].Name != "on-here" {
			t.Errorf("%d pods are left", len(got))
		}
	}
	return st
}

// points has more endpoints than fit into a slice, some of which leave.
func points(t *testing.T, ctx context.Context, r *rand.Rand) stage {
	_, st := pointed(t, ctx, r)
	return st
}

func pointed(t *testing.T, _ context.Context, _ *rand.Rand) (*endpointWorld, stage) {
	w := newEndpointWorld(t)
	put(w.services, newService("one", "a"))
	for number := range 5 {
		put(w.pods, newEndpointPod(number+1, "a", 80))
	}
	return w, stage{
		api: w.api,
		run: func(l lag) *process { return w.launch(t, l) },
		steps: []func(){
			func() { put(w.services, newService("two", "b")) },
			func() {
				w.pods.alter(t, "default/p02", func(p *corev1.Pod) { p.Labels = map[string]string{"app": "b"} })
			},
			func() { w.pods.alter(t, "default/p03", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }) },
		},
		wanted: func() { w.converged(t) },
	}
}
