package schedule_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
)

// TestPreBind: a pod is bound only after PreBind has succeeded, and retried until then.
func TestPreBind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.nodes.Put(node("a", "1", "1Gi", "110"))
		c.pods.Put(pod("one", "1", "1Mi"))
		failures := 2
		c.change = func(config *schedule.Config) {
			config.Extensions = []schedule.Extension{preBinder(func(_ context.Context, pod *corev1.Pod, node string) error {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.note("%s prepared for %s", pod.Name, node)
				if failures--; failures >= 0 {
					return errors.New("no volume")
				}
				return nil
			})}
		}
		c.run(func() {
			const failed = `one PodScheduled SchedulerError: running PreBind plugin "Volumes": no volume`
			c.expect(0, "0s one prepared for a", "0s "+failed)
			c.expect(10*time.Second, "1s one prepared for a", "3s one prepared for a", "3s one on a")
		})
	})
}

// preBinder is an extension with one method.
type preBinder func(context.Context, *corev1.Pod, string) error

func (preBinder) Name() string { return "Volumes" }

func (f preBinder) PreBind(ctx context.Context, pod *corev1.Pod, node string) error {
	return f(ctx, pod, node)
}

// TestRefuseAll: a reason that holds for all nodes is the message, without a number of nodes.
func TestRefuseAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.nodes.Put(node("a", "1", "1Gi", "110"))
		c.nodes.Put(node("b", "1", "1Gi", "110"))
		c.pods.Put(pod("one", "1", "1Mi"))
		c.predicates = []schedule.Predicate{schedule.PredicateFunc("Volumes", func(_ *schedule.PodInfo, n *schedule.NodeInfo) schedule.Verdict {
			if n.Node.Name == "a" {
				return schedule.Refuse("node(s) were too far away")
			}
			return schedule.RefuseAll("pod has no volume")
		})}
		c.run(func() {
			c.expect(0, "0s one PodScheduled Unschedulable: 0/2 nodes are available: pod has no volume.")
		})
	})
}
