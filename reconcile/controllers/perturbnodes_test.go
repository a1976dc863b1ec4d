package controllers_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile/controllers/node"
	corev1 "k8s.io/api/core/v1"
)

// evicts taints two nodes, and one of them not for long.
func evicts(t *testing.T, _ context.Context, _ *rand.Rand) stage {
	c := newCluster()
	for _, node := range []string{"bad", "better", "good"} {
		c.addNode(t, node)
	}
	bad := corev1.Taint{Key: "bad", Effect: corev1.TaintEffectNoExecute}
	for name, pod := range map[string]struct {
		node      string
		tolerates bool
		seconds   *int64
	}{
		"goes": {node: "bad"}, "waits": {"bad", true, new(int64(30))}, "stays": {"bad", true, nil},
		"lucky": {"better", true, new(int64(300))}, "elsewhere": {node: "good"},
	} {
		c.addPod(t, name, pod.node, func(p *corev1.Pod) {
			if pod.tolerates {
				p.Spec.Tolerations = []corev1.Toleration{{Key: "bad", Operator: corev1.TolerationOpExists, TolerationSeconds: pod.seconds}}
			}
		})
	}
	var tainted time.Time
	c.pods.check = func(old, new *corev1.Pod) {
		if old == nil || new == nil {
			t.Error("a pod was made, or removed at once")
			return
		}
		if old.DeletionTimestamp != nil || new.DeletionTimestamp == nil {
			return
		}
		least, may := map[string]time.Duration{"goes": 0, "waits": 30 * time.Second}[old.Name]
		if !may || tainted.IsZero() || time.Since(tainted) < least {
			t.Errorf("%s is evicted %s after the taint", old.Name, time.Since(tainted))
		}
	}
	st := single(t, c.api, func(ctx context.Context, l lag) (*node.TaintEviction, error) {
		pods := follow(ctx, c.pods, l)
		return node.NewTaintEviction(node.TaintEvictionConfig{
			Pods: pods, Nodes: follow(ctx, c.nodes, l), PodsByNode: localcache.Scan(pods, node.ByNode), Writer: c.pods, Events: c.api,
		})
	})
	taint := func(node string, taints ...corev1.Taint) {
		c.nodes.alter(t, node, func(n *corev1.Node) { n.Spec.Taints = taints })
	}
	st.steps = []func(){
		func() {
			c.mu.Lock()
			tainted = time.Now()
			c.mu.Unlock()
			taint("bad", bad)
			taint("better", bad)
		},
		func() { taint("better") },
	}
	st.wanted = func() {
		var left []string
		for _, pod := range c.pods.list() {
			if pod.DeletionTimestamp == nil {
				left = append(left, pod.Name)
			}
		}
		if want := []string{"elsewhere", "lucky", "stays"}; !slices.Equal(left, want) {
			t.Errorf("left are %v, want %v", left, want)
		}
	}
	return st
}

// darkens has one node of a zone fall silent, most of another, and all of a
// third; the one comes back.
func darkens(t *testing.T, ctx context.Context, _ *rand.Rand) stage {
	c := newCluster()
	silent := []string{"a-02", "c-01", "c-02", "c-03"} // guarded by the lock of the api
	isSilent := func(node string) bool {
		return slices.ContainsFunc(silent, func(prefix string) bool { return strings.HasPrefix(node, prefix) })
	}
	c.kubelets(t, ctx, isSilent, zoneNodes(map[string]int{"a": 3, "b": 2, "c": 4}))
	prompt := false // copies are never old: the rates hold to the letter
	c.nodes.check = func(old, new *corev1.Node) {
		if len(taints(old)) == 0 && len(taints(new)) > 0 && !isSilent(new.Name) {
			t.Errorf("%s is alive and has the taints %v", new.Name, taints(new))
		}
		driven := 0
		for name, n := range c.nodes.objects {
			if strings.HasPrefix(name, "c-") && slices.Contains(taints(n), unreachable[0]) {
				driven++
			}
		}
		if prompt && driven > 2 {
			t.Errorf("%d nodes are emptied of a zone most of which is silent", driven)
		}
	}
	st := single(t, c.api, func(ctx context.Context, l lag) (*node.Lifecycle, error) {
		c.set(&prompt, l.most == 0)
		return node.NewLifecycle(node.LifecycleConfig{
			Nodes: follow(ctx, c.nodes, l), Leases: follow(ctx, c.leases, l), Writer: c.nodes, Events: c.api,
		})
	})
	fall := func(names ...string) func() {
		return func() {
			time.Sleep(2 * time.Minute) // until those before are noticed
			c.mu.Lock()
			defer c.mu.Unlock()
			silent = names
		}
	}
	st.steps = []func(){
		fall("a-02", "b-", "c-01", "c-02", "c-03"),
		fall("b-", "c-01", "c-02", "c-03"),
	}
	st.wanted = func() {
		for _, n := range c.nodes.list() {
			got, status := taints(n), n.Status.Conditions[0].Status
			switch {
			case !isSilent(n.Name) && (len(got) > 0 || status != corev1.ConditionTrue),
				isSilent(n.Name) && (!slices.Contains(got, unreachable[1]) || status != corev1.ConditionUnknown),
				strings.HasPrefix(n.Name, "b-") && !slices.Equal(got, unreachable):
				t.Errorf("%s is %s and has the taints %v; silent are %v", n.Name, status, got, silent)
			}
		}
	}
	return st
}
