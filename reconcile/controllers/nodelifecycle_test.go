package controllers_test

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/node"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// runNodes runs both controllers that see to nodes which fall silent.
func (c *cluster) runNodes(t *testing.T, l lag) *process {
	t.Helper()
	return launch(t, func(ctx context.Context) []controllers.Runner {
		pods, nodes := follow(ctx, c.pods, l), follow(ctx, c.nodes, l)
		return []controllers.Runner{
			must[*node.Lifecycle](t)(node.NewLifecycle(node.LifecycleConfig{
				Nodes: nodes, Leases: follow(ctx, c.leases, l), Writer: c.nodes, Events: c.api, PodsByNode: localcache.Scan(pods, node.ByNode), PodWriter: c.pods, Pods: pods,
				Limits: node.EvictionLimits{Large: 8},
			})),
			must[*node.TaintEviction](t)(node.NewTaintEviction(node.TaintEvictionConfig{
				Pods: pods, Nodes: nodes, PodsByNode: localcache.Scan(pods, node.ByNode), Writer: c.pods, Events: c.api,
			})),
		}
	})
}

// set changes what the kubelets look at.
func (a *api) set(to *bool, value bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	*to = value
}

// wrong is the time by the clocks of the nodes.
func wrong() metav1.Time { return metav1.NewTime(time.Now().Add(-time.Hour)) }

func report(status corev1.ConditionStatus) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastHeartbeatTime: wrong()}}
	}
}

// kubelets has nodes, which renew their leases every 10 s as long as silent
// says nothing else.
func (c *cluster) kubelets(t *testing.T, ctx context.Context, silent func(node string) bool, zones map[string]string) {
	t.Helper()
	for name, zone := range zones {
		must[*corev1.Node](t)(c.nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: zone}}}))
		c.nodes.alter(t, name, report(corev1.ConditionTrue))
		must[*coordinationv1.Lease](t)(c.leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-node-lease", Name: name}}))
	}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(10 * time.Second):
			}
			c.mu.Lock()
			for _, key := range sortedKeys(c.leases.objects) {
				node := c.nodes.objects[strings.TrimPrefix(key, "kube-node-lease/")]
				if node == nil || silent(node.Name) {
					continue
				}
				c.leases.alterLocked(key, c.leases.objects[key], func(l *coordinationv1.Lease) { l.Spec.RenewTime = &metav1.MicroTime{Time: wrong().Time} })
				if node.Status.Conditions[0].Status == corev1.ConditionUnknown {
					c.nodes.alterLocked(node.Name, node, report(corev1.ConditionTrue))
				}
			}
			c.mu.Unlock()
		}
	}()
}

func taints(n *corev1.Node) (list []string) {
	for _, taint := range n.Spec.Taints {
		list = append(list, taint.Key+":"+string(taint.Effect))
	}
	slices.Sort(list)
	return list
}

// driven are the nodes with a taint that drives pods away.
func (c *cluster) driven() (names []string) {
	for _, n := range c.nodes.list() {
		if slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectNoExecute }) {
			names = append(names, n.Name)
		}
	}
	return names
}

var unreachable = []string{"node.kubernetes.io/unreachable:NoExecute", "node.kubernetes.io/unreachable:NoSchedule"}

// TestNodeIsHeardByItsTime has a node stop reporting while another client writes to its lease, and
// renews a lease of its name in another namespace. Only the renew time of its own lease counts.
func TestNodeIsHeardByItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := newCluster()
		c.kubelets(t, ctx, func(node string) bool { return node == "n" }, map[string]string{"n": "", "other": ""})
		must[*coordinationv1.Lease](t)(c.leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "n"}}))
		p := c.runNodes(t, lag{})
		for range 6 {
			time.Sleep(10 * time.Second)
			c.leases.alter(t, "kube-node-lease/n", func(l *coordinationv1.Lease) { l.Annotations = map[string]string{"at": time.Now().String()} })
			c.leases.alter(t, "default/n", func(l *coordinationv1.Lease) { l.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()} })
		}
		if got := taints(c.nodes.list()[0]); !slices.Equal(got, unreachable) {
			t.Errorf("taints %v, want %v", got, unreachable)
		}
		p.stop(t)
	})
}

// TestNodeCutOff has a node fall silent and come back. Its clock is an hour off.
// Its pods are evicted when they tolerate it no longer, and those that do
// tolerate it stay.
func TestNodeCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := newCluster()
		off := false
		c.kubelets(t, ctx, func(node string) bool { return off && node == "n" }, map[string]string{"n": "", "other": ""})
		tolerate := func(seconds *int64) func(*corev1.Pod) {
			return func(p *corev1.Pod) {
				makeReady(p)
				p.Spec.NodeName = "n"
				p.Spec.Tolerations = []corev1.Toleration{{Key: "node.kubernetes.io/unreachable", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: seconds}}
			}
		}
		c.addPod(t, "goes", "n", tolerate(new(int64(300))))
		c.addPod(t, "lucky", "n", tolerate(new(int64(3000))))
		c.addPod(t, "stays", "n", tolerate(nil))
		p := c.runNodes(t, lag{})
		time.Sleep(301 * time.Second)
		c.set(&off, true)
		start := time.Now()
		time.Sleep(45 * time.Second)
		if n := c.nodes.list()[0]; len(n.Spec.Taints) != 0 {
			t.Errorf("tainted within the grace: %v", n.Spec.Taints)
		}
		time.Sleep(10 * time.Second)
		n := c.nodes.list()[0]
		if got := n.Status.Conditions[0]; got.Status != corev1.ConditionUnknown || got.Reason != "NodeStatusUnknown" || got.Message != "Kubelet stopped posting node status." {
			t.Errorf("condition %+v", got)
		}
		if got := taints(n); !slices.Equal(got, unreachable) {
			t.Errorf("taints %v", got)
		}
		for _, pod := range c.pods.list() {
			if podReady(pod) {
				t.Errorf("%s is ready", pod.Name)
			}
		}
		time.Sleep(time.Until(start.Add(340 * time.Second)))
		if got := active(c.pods.list()); got != 3 {
			t.Errorf("%d pods before the end of the toleration", got)
		}
		time.Sleep(20 * time.Second)
		goes := c.pods.list()[0]
		i := slices.IndexFunc(goes.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.DisruptionTarget })
		if goes.DeletionTimestamp == nil || i < 0 || goes.Status.Conditions[i].Reason != "DeletionByTaintManager" ||
			goes.Status.Conditions[i].Message != "Taint manager: deleting due to NoExecute taint" {
			t.Errorf("pod %+v", goes)
		}
		c.set(&off, false)
		time.Sleep(20 * time.Second)
		if got := c.nodes.list()[0]; len(got.Spec.Taints) != 0 {
			t.Errorf("taints after recovery: %v", got.Spec.Taints)
		}
		settle()
		if got := active(c.pods.list()); got != 2 {
			t.Errorf("%d pods are left", got)
		}
		for _, event := range []string{"Normal NodeNotReady: Node n status is now: NodeNotReady", "Warning NodeNotReady: Node is not ready",
			"Normal TaintManagerEviction: Marking for deletion Pod default/goes", "Normal TaintManagerEviction: Cancelling deletion of Pod default/lucky",
			"Normal RegisteredNode: Node n event: Registered Node n in Controller"} {
			if !slices.Contains(c.events, event) {
				t.Errorf("no event %q in %v", event, c.events)
			}
		}
		told := 0
		for _, event := range c.events {
			if event == "Warning NodeNotReady: Node is not ready" {
				told++
			}
		}
		if told != 3 {
			t.Errorf("%d times told of three pods that are not ready", told)
		}
		p.stop(t)
	})
}

// TestNodeConditionTaints has every condition that keeps pods away, beside a foreign taint.
func TestNodeConditionTaints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.addNode(t, "other")
		c.nodes.alter(t, "other", report(corev1.ConditionTrue))
		c.addNode(t, "n")
		c.nodes.alter(t, "n", func(n *corev1.Node) {
			n.Spec.Unschedulable = true
			n.Spec.Taints = []corev1.Taint{{Key: "mine", Effect: corev1.TaintEffectNoExecute}, {Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}
			report(corev1.ConditionFalse)(n)
			for _, kind := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeNetworkUnavailable} {
				n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: kind, Status: corev1.ConditionTrue})
			}
		})
		p := c.runNodes(t, lag{})
		synctest.Wait()
		want := []string{"mine:NoExecute", "node.kubernetes.io/disk-pressure:NoSchedule", "node.kubernetes.io/memory-pressure:NoSchedule",
			"node.kubernetes.io/network-unavailable:NoSchedule", "node.kubernetes.io/not-ready:NoExecute", "node.kubernetes.io/not-ready:NoSchedule",
			"node.kubernetes.io/pid-pressure:NoSchedule", "node.kubernetes.io/unschedulable:NoSchedule"}
		if got := taints(c.nodes.list()[0]); !slices.Equal(got, want) {
			t.Errorf("taints %v", got)
		}
		c.nodes.alter(t, "n", func(n *corev1.Node) {
			n.Spec.Unschedulable = false
			report(corev1.ConditionTrue)(n)
		})
		synctest.Wait()
		if got := taints(c.nodes.list()[0]); !slices.Equal(got, want[:1]) {
			t.Errorf("taints %v", got)
		}
		c.nodes.alter(t, "n", func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelOSStable: "linux"} })
		synctest.Wait()
		if got := c.nodes.list()[0].Labels["beta.kubernetes.io/os"]; got != "linux" {
			t.Errorf("labels %v", c.nodes.list()[0].Labels)
		}
		removeOutside(t, c.nodes, "", "n")
		synctest.Wait()
		if event := "Normal RemovingNode: Node n event: Removing Node n from Controller"; !slices.Contains(c.events, event) {
			t.Errorf("no event %q in %v", event, c.events)
		}
		p.stop(t)
	})
}

func zoneNodes(sizes map[string]int) map[string]string {
	nodes := map[string]string{}
	for zone, size := range sizes {
		for i := range size {
			nodes[fmt.Sprintf("%s-%02d", zone, i)] = zone
		}
	}
	return nodes
}

// TestNodeZones has nodes of zones fall silent, and drives pods away at the rate
// that becomes how many there are.
func TestNodeZones(t *testing.T) {
	for name, test := range map[string]struct {
		sizes map[string]int
		off   string // prefixes of names, as a list
		// after holds the number of tainted nodes by seconds of silence.
		after map[int]int
		// race is set where one node more is tainted if it comes before the others are known to be silent.
		race bool
	}{
		"three of ten, one by one":    {map[string]int{"a": 10}, "a-00 a-01 a-02", map[int]int{55: 1, 65: 2, 75: 3, 500: 3}, false},
		"most of a small zone":        {map[string]int{"a": 4, "b": 3}, "a-00 a-01 a-02 b-00", map[int]int{500: 1}, true},
		"most of a large zone":        {map[string]int{"a": 10}, "a-00 a-01 a-02 a-03 a-04 a-05 a-06", map[int]int{55: 1, 200: 2, 300: 3}, false},
		"a whole zone, and not other": {map[string]int{"a": 3, "b": 1}, "a", map[int]int{55: 1, 65: 2, 75: 3}, false},
		"all":                         {map[string]int{"a": 3, "b": 2}, "a b", map[int]int{500: 0}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				c := newCluster()
				off := false
				c.kubelets(t, ctx, func(node string) bool {
					return off && slices.ContainsFunc(strings.Fields(test.off), func(p string) bool { return strings.HasPrefix(node, p) })
				}, zoneNodes(test.sizes))
				p := c.runNodes(t, lag{})
				time.Sleep(100*time.Second + time.Second)
				c.set(&off, true)
				start := time.Now().Add(-time.Second) // of the silence
				for _, s := range slices.Sorted(mapKeys(test.after)) {
					time.Sleep(time.Until(start.Add(time.Duration(s) * time.Second)))
					want := test.after[s]
					if got := c.driven(); len(got) != want && !(test.race && len(got) == want+1) {
						t.Errorf("after %d s tainted are %v, want %d, one more is allowed: %v", s, got, want, test.race)
					}
				}
				c.set(&off, false)
				time.Sleep(time.Minute)
				for _, n := range c.nodes.list() {
					if len(n.Spec.Taints) != 0 {
						t.Errorf("%s has %v after recovery", n.Name, n.Spec.Taints)
					}
				}
				p.stop(t)
			})
		})
	}
}

// TestNodesNotDriven has rates of none: silent nodes are marked, and no pods are evicted.
func TestNodesNotDriven(t *testing.T) {
	for name, test := range map[string]struct {
		limits node.EvictionLimits
		sizes  map[string]int
		off    string
		driven int
		race   bool // as in TestNodeZones
	}{
		"never":                        {node.EvictionLimits{Rate: -1}, map[string]int{"a": 5, "x": 1}, "a-00 a-01 x-00", 0, false},
		"in the large and unhealthy":   {node.EvictionLimits{SlowRate: -1, Large: 3}, map[string]int{"a": 5}, "a-00 a-01 a-02 a-03", 0, true},
		"slowly, since all are large":  {node.EvictionLimits{Large: -1}, map[string]int{"a": 4}, "a-00 a-01 a-02", 3, false},
		"unhealthy with three of many": {node.EvictionLimits{Unhealthy: -1}, map[string]int{"a": 9}, "a-00 a-01 a-02", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				c := newCluster()
				off := strings.Fields(test.off)
				c.kubelets(t, ctx, func(node string) bool { return slices.Contains(off, node) }, zoneNodes(test.sizes))
				if test.sizes["x"] > 0 { // of the only zone of which no node counts
					c.nodes.alter(t, "x-00", func(n *corev1.Node) { n.Labels["node.kubernetes.io/exclude-disruption"] = "" })
				}
				p := launch(t, func(ctx context.Context) []controllers.Runner {
					return []controllers.Runner{must[*node.Lifecycle](t)(node.NewLifecycle(node.LifecycleConfig{
						Nodes: follow(ctx, c.nodes, lag{}), Leases: follow(ctx, c.leases, lag{}), Writer: c.nodes, Limits: test.limits,
					}))}
				})
				settle()
				if got := c.driven(); len(got) != test.driven && !(test.race && len(got) == test.driven+1) {
					t.Errorf("driven from are %v, want %d, one more is allowed: %v", got, test.driven, test.race)
				}
				for _, n := range c.nodes.list() {
					if marked := slices.Contains(taints(n), unreachable[1]); marked != slices.Contains(off, n.Name) {
						t.Errorf("%s has %v", n.Name, taints(n))
					}
				}
				p.stop(t)
			})
		})
	}
	_, err := node.NewLifecycle(node.LifecycleConfig{
		Nodes: &cache[*corev1.Node]{}, Leases: &cache[*coordinationv1.Lease]{}, Writer: newCluster().nodes,
		Limits: node.EvictionLimits{Unhealthy: 1.5},
	})
	if err == nil {
		t.Error("a share of more than all is taken")
	}
}

func mapKeys[K comparable, V any](m map[K]V) iter.Seq[K] {
	return func(yield func(K) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// TestNodesModel has nodes fall silent and come back at random, copies that lag
// and miss changes, writes that fail, and restarts. In the end exactly the
// silent ones are tainted, and only pods on them were evicted.
func TestNodesModel(t *testing.T) {
	for range 12 {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { modelNodes(t, seed) })
		})
	}
}

func modelNodes(t *testing.T, seed uint64) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := rand.New(rand.NewPCG(seed, 0))
	c := newCluster()
	silent := map[string]bool{}
	c.kubelets(t, ctx, func(node string) bool { return silent[node] }, zoneNodes(map[string]int{"a": 4, "b": 3}))
	for _, n := range c.nodes.list() {
		c.addPod(t, "on-"+n.Name, n.Name, func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Key: "node.kubernetes.io/unreachable", Operator: corev1.TolerationOpExists, TolerationSeconds: new(int64(600))}}
		})
	}
	lastTainted := map[string]time.Time{}
	c.nodes.check = func(old, _ *corev1.Node) {
		if len(taints(old)) > 0 {
			lastTainted[old.Name] = time.Now()
		}
	}
	c.pods.check = func(old, new *corev1.Pod) {
		if old.DeletionTimestamp != nil || new.DeletionTimestamp == nil {
			return
		}
		// The copy may be behind, by no more than this.
		node := c.nodes.objects[old.Spec.NodeName]
		if len(taints(node)) == 0 && time.Since(lastTainted[node.Name]) > time.Minute {
			t.Errorf("evicted from %s, which has no taint", node.Name)
		}
	}
	w := &world{api: c.api}
	noFaults := w.faults(r, 20)
	slow := lag{random: r, most: 2 * time.Second, relist: 5}
	p := c.runNodes(t, slow)
	for range 20 {
		time.Sleep(time.Duration(r.IntN(100)) * time.Second)
		c.mu.Lock()
		if n := fmt.Sprintf("%s-%02d", []string{"a", "b"}[r.IntN(2)], r.IntN(3)); silent[n] || len(silent) < 3 {
			if silent[n] {
				delete(silent, n)
			} else {
				silent[n] = true
			}
		}
		c.mu.Unlock()
		if r.IntN(4) == 0 {
			p.stop(t)
			p = c.runNodes(t, slow)
		}
	}
	noFaults()
	c.mu.Lock()
	delete(silent, "a-00")
	silent["a-01"] = true
	c.mu.Unlock()
	settle()
	for _, n := range c.nodes.list() {
		var want []string
		if silent[n.Name] {
			want = unreachable
		}
		if got := taints(n); !slices.Equal(got, want) {
			t.Errorf("%s has %v, silent are %v", n.Name, got, silent)
		}
	}
	for _, pod := range c.pods.list() {
		if silent[pod.Spec.NodeName] && pod.DeletionTimestamp == nil {
			t.Errorf("%s was not evicted", pod.Name)
		}
	}
	p.stop(t)
}
