package controllers_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/node"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestNodeNeverReported gives a node that has never said how it is more time, and
// then says so.
func TestNodeNeverReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.addNode(t, "n")
		p := c.runNodes(t, lag{})
		time.Sleep(59 * time.Second)
		if got := c.nodes.list()[0]; len(got.Status.Conditions)+len(got.Spec.Taints) != 0 {
			t.Errorf("conditions %v, taints %v", got.Status.Conditions, got.Spec.Taints)
		}
		time.Sleep(2 * time.Second)
		n := c.nodes.list()[0]
		if len(n.Status.Conditions) != 4 || n.Status.Conditions[0].Reason != "NodeStatusNeverUpdated" ||
			n.Status.Conditions[0].Message != "Kubelet never posted node status." || !n.Status.Conditions[0].LastHeartbeatTime.Equal(&n.CreationTimestamp) {
			t.Errorf("conditions %+v", n.Status.Conditions)
		}
		p.stop(t)
	})
}

// TestNodesFoundAgain has every node lost, and then one ready: the others are
// given all their time again, since it may be us who were cut off.
func TestNodesFoundAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		for _, name := range []string{"a", "b"} {
			c.addNode(t, name)
			c.nodes.alter(t, name, report(corev1.ConditionFalse))
		}
		p := c.runNodes(t, lag{})
		time.Sleep(40 * time.Second)
		if got := c.driven(); len(got) != 0 {
			t.Errorf("tainted are %v though all are lost", got)
		}
		c.nodes.alter(t, "a", report(corev1.ConditionTrue))
		time.Sleep(20 * time.Second)
		if got := c.nodes.list()[1]; got.Status.Conditions[0].Status != corev1.ConditionFalse || !slices.Equal(c.driven(), []string{"b"}) {
			t.Errorf("conditions %+v, tainted are %v", got.Status.Conditions, c.driven())
		}
		c.nodes.alter(t, "a", report(corev1.ConditionTrue))
		time.Sleep(31 * time.Second)
		if got := c.nodes.list()[1]; got.Status.Conditions[0].Status != corev1.ConditionUnknown || !slices.Equal(taints(got), unreachable) {
			t.Errorf("conditions %+v, taints %v", got.Status.Conditions, taints(got))
		}
		p.stop(t)
	})
}

// TestPodComesToSilentNode: a pod that says it is ready, on a node that has long been
// silent, is not ready from then on. One on a node that only says it is not ready is
// left to its kubelet, and so is one that moves nowhere.
func TestPodComesToSilentNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		for _, name := range []string{"well", "silent", "talks"} {
			c.addNode(t, name)
		}
		launched := launch(t, func(ctx context.Context) []controllers.Runner {
			pods := follow(ctx, c.pods, lag{})
			return []controllers.Runner{must[*node.Lifecycle](t)(node.NewLifecycle(node.LifecycleConfig{
				Nodes: follow(ctx, c.nodes, lag{}), Leases: follow(ctx, c.leases, lag{}), Writer: c.nodes, Events: c.api,
				PodsByNode: localcache.Scan(pods, node.ByNode), PodWriter: c.pods, Pods: pods, Grace: 1000 * time.Hour,
			}))}
		})
		c.nodes.alter(t, "well", report(corev1.ConditionTrue))
		c.nodes.alter(t, "silent", report(corev1.ConditionUnknown))
		c.nodes.alter(t, "talks", report(corev1.ConditionFalse))
		settle()
		for _, name := range []string{"well", "silent", "talks"} {
			c.addPod(t, "on-"+name, name, func(p *corev1.Pod) { makeReady(p); p.Spec.NodeName = name })
		}
		c.addPod(t, "bound", "", func(p *corev1.Pod) { makeReady(p); p.Spec.NodeName = "" })
		synctest.Wait()
		c.pods.alter(t, "default/bound", func(p *corev1.Pod) { p.Spec.NodeName = "silent" })
		synctest.Wait()
		var ready []string
		for _, pod := range c.pods.list() {
			if podReady(pod) {
				ready = append(ready, pod.Name)
			}
		}
		if !slices.Equal(ready, []string{"on-talks", "on-well"}) {
			t.Errorf("ready are %v", ready)
		}
		launched.stop(t)
	})
}

// TestNodeTaintRefused: a taint that was not written, since the node had changed, does
// not count against the rate, and is written at once. One that may have been does.
func TestNodeTaintRefused(t *testing.T) {
	for name, test := range map[string]struct {
		err   error
		after time.Duration
	}{
		"refused": {apierrors.NewConflict(corev1.Resource("nodes"), "n", errLost), 52 * time.Second},
		"lost":    {errLost, 61 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster()
				c.addNode(t, "n")
				c.addNode(t, "other")
				c.nodes.alter(t, "n", report(corev1.ConditionTrue))
				c.nodes.alter(t, "other", report(corev1.ConditionTrue))
				failures := 1
				c.fault = func(verb, _ string) (bool, error) {
					if verb != "update" || failures == 0 {
						return true, nil
					}
					failures--
					return false, test.err
				}
				p := c.runNodes(t, lag{})
				begun := time.Now()
				for time.Since(begun) < 2*time.Minute && !slices.Contains(c.driven(), "n") {
					time.Sleep(500 * time.Millisecond)
					if since := time.Since(begun); since > 40*time.Second && since < 41*time.Second {
						c.nodes.alter(t, "other", func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.Now() })
					}
				}
				if took := time.Since(begun); took > test.after || took < test.after-3*time.Second || failures > 0 {
					t.Errorf("tainted after %s, want %s; %d failures to come", took, test.after, failures)
				}
				p.stop(t)
			})
		})
	}
}
