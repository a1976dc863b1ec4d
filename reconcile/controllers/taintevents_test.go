package controllers_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/node"
	corev1 "k8s.io/api/core/v1"
)

// TestTaintEvictionTells has a pod that may stay for a while, and checks what is reported, and when
// it is deleted, for what may happen to it meanwhile.
func TestTaintEvictionTells(t *testing.T) {
	const cancelling = "Normal TaintManagerEviction: Cancelling deletion of Pod default/pod"
	const marking = "Normal TaintManagerEviction: Marking for deletion Pod default/pod"
	taint := func(keys ...string) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Spec.Taints = nil
			for _, key := range keys {
				n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute})
			}
		}
	}
	for name, test := range map[string]struct {
		then   func(t *testing.T, c *cluster) // 100 s after the taint
		gone   time.Duration                  // after the taint, 0 if it stays
		events []string
	}{
		"nothing":         {func(*testing.T, *cluster) {}, 300 * time.Second, []string{marking}},
		"untainted":       {func(t *testing.T, c *cluster) { c.nodes.alter(t, "n", taint()) }, 0, []string{cancelling}},
		"not tolerated":   {func(t *testing.T, c *cluster) { c.nodes.alter(t, "n", taint("bad", "worse")) }, 100 * time.Second, []string{cancelling, marking}},
		"another for now": {func(t *testing.T, c *cluster) { c.nodes.alter(t, "n", taint("bad", "slow")) }, 300 * time.Second, []string{marking}},
		"for ever": {func(t *testing.T, c *cluster) {
			c.pods.alter(t, "default/pod", func(p *corev1.Pod) { p.Spec.Tolerations[0].TolerationSeconds = nil })
		}, 0, []string{cancelling}},
		"shorter": {func(t *testing.T, c *cluster) {
			c.pods.alter(t, "default/pod", func(p *corev1.Pod) { p.Spec.Tolerations[0].TolerationSeconds = new(int64(50)) })
		}, 100 * time.Second, []string{marking}},
		"deleted": {func(t *testing.T, c *cluster) {
			c.pods.alter(t, "default/pod", func(p *corev1.Pod) { p.Finalizers = nil })
			c.pods.graceful = false
			removeOutside(t, c.pods, "default", "pod")
		}, 100 * time.Second, []string{cancelling}},
		"cannot be deleted at once": {func(_ *testing.T, c *cluster) {
			failures := 3
			c.mu.Lock()
			defer c.mu.Unlock()
			c.fault = func(verb, _ string) (bool, error) {
				if verb == "delete" && failures > 0 {
					failures--
					return false, errors.New("connection refused")
				}
				return true, nil
			}
		}, 300 * time.Second, []string{marking}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster()
				c.addNode(t, "n")
				c.addPod(t, "pod", "n", func(p *corev1.Pod) {
					p.Spec.Tolerations = []corev1.Toleration{
						{Key: "bad", Operator: corev1.TolerationOpExists, TolerationSeconds: new(int64(300))},
						{Key: "slow", Operator: corev1.TolerationOpExists, TolerationSeconds: new(int64(3000))},
					}
				})
				p := launch(t, func(ctx context.Context) []controllers.Runner {
					pods := follow(ctx, c.pods, lag{})
					return []controllers.Runner{must[*node.TaintEviction](t)(node.NewTaintEviction(node.TaintEvictionConfig{
						Pods: pods, Nodes: follow(ctx, c.nodes, lag{}), PodsByNode: localcache.Scan(pods, node.ByNode), Writer: c.pods, Events: c.api,
					}))}
				})
				begun := time.Now()
				var gone time.Duration
				c.pods.check = func(old, new *corev1.Pod) {
					if gone == 0 && (new == nil || old.DeletionTimestamp == nil && new.DeletionTimestamp != nil) {
						gone = time.Since(begun).Round(time.Second)
					}
				}
				c.nodes.alter(t, "n", taint("bad"))
				time.Sleep(100 * time.Second)
				synctest.Wait()
				test.then(t, c)
				settle()
				if c.pods.graceful && gone > 0 { // the kubelet ends it
					c.pods.graceful = false
					c.pods.alter(t, "default/pod", func(*corev1.Pod) {})
					settle()
				}
				if gone != test.gone || !slices.Equal(c.events, test.events) {
					t.Errorf("gone after %s, want %s; events %q, want %q", gone, test.gone, c.events, test.events)
				}
				p.stop(t)
			})
		})
	}
}
