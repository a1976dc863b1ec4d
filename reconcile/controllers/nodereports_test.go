package controllers_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
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
