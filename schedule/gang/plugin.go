package gang

import (
	"context"
	"fmt"
	"time"

	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Name implements [schedule.Predicate]. It is the name of the plugin of scheduler-plugins.
func (*Gangs) Name() string { return "Coscheduling" }

// Filter implements [schedule.Predicate].
func (g *Gangs) Filter(p *schedule.PodInfo, n *schedule.NodeInfo) schedule.Verdict {
	if check := g.Compile(p); check != nil {
		return check(n)
	}
	return schedule.Fits
}

// Compile implements [schedule.Compiler].
func (g *Gangs) Compile(p *schedule.PodInfo) func(*schedule.NodeInfo) schedule.Verdict {
	key, minimum, err := g.groupOf(p.Pod)
	if err != nil {
		return func(*schedule.NodeInfo) schedule.Verdict { return schedule.RefuseAll(err.Error()) }
	}
	if key.Name == "" {
		return nil
	}
	return func(*schedule.NodeInfo) schedule.Verdict { return g.judge(key, p.Pod, minimum) }
}

// judge says whether a pod of a group may have a node now.
func (g *Gangs) judge(key types.NamespacedName, pod *corev1.Pod, own int) schedule.Verdict {
	g.mu.Lock()
	exist, minimum, turn := g.groups.mayTry(key, pod.UID, own)
	g.mu.Unlock()
	switch {
	case exist < minimum:
		return schedule.RefuseAll(fmt.Sprintf(
			"pre-filter pod %s cannot find enough sibling pods, current pods number: %d, minMember of group: %d", pod.Name, exist, minimum))
	case !turn:
		return schedule.RefuseAll("another pod group that needs room has its turn")
	}
	return schedule.Fits
}

// Wakes implements [schedule.Waker]. A pod that was refused because others of its group had no node goes on
// with them: when one of them gets a node.
func (g *Gangs) Wakes(p *schedule.PodInfo, e schedule.Event) bool {
	key, _, _ := g.groupOf(p.Pod)
	if _, c, ok := schedule.Changed[change](e); ok {
		if !c.turn {
			return c.key == key
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		return c.key != key && g.groups.failedBefore(key)
	}
	_, now, ok := schedule.Changed[*schedule.PodInfo](e)
	if !ok || now == nil || now.Pod.UID == p.Pod.UID {
		return false
	}
	other, _, err := g.groupOf(now.Pod)
	return err == nil && other == key
}

// Reserve implements [schedule.Reserver]. A pod is placed when Permit is called.
func (g *Gangs) Reserve(*schedule.PodInfo, string) schedule.Verdict { return schedule.Fits }

// Unreserve implements [schedule.Reserver].
func (g *Gangs) Unreserve(p *schedule.PodInfo, _ string) {
	key, _, _ := g.groupOf(p.Pod)
	if key.Name == "" {
		return
	}
	g.mu.Lock()
	after := g.groups.leave(key, p.Pod.UID)
	g.mu.Unlock()
	g.do(after)
}

// Permit implements [schedule.Permitter].
func (g *Gangs) Permit(p *schedule.PodInfo, _ string, waiting *schedule.Waiting) (schedule.Verdict, time.Duration) {
	key, _, _ := g.groupOf(p.Pod)
	if key.Name == "" {
		return schedule.Fits, 0
	}
	g.mu.Lock()
	g.waiting = waiting
	after := g.groups.place(key, p)
	g.mu.Unlock()
	g.do(after) // p may be one of those that are allowed
	return schedule.Fits, g.config.Timeout
}

// PostBind implements [schedule.PostBinder].
func (g *Gangs) PostBind(_ context.Context, pod *corev1.Pod, _ string) {
	if key, _, _ := g.groupOf(pod); key.Name != "" {
		g.mu.Lock()
		g.groups.bound(key, pod.UID)
		g.mu.Unlock()
	}
}
