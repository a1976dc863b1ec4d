// Package shutdown plans how a node ends its pods when its machine shuts down: in order of their
// priority, each range of priorities within its own time.
//
//	periods, err := shutdown.Config{GracePeriod: 30 * time.Second, CriticalPods: 10 * time.Second}.Periods()
//	for _, group := range shutdown.Plan(periods, pods) {
//		// End group.Pods, and wait for them for at most group.Wait.
//	}
//
// The package is pure. The rules are those of Kubernetes' graceful node shutdown.
// https://kubernetes.io/docs/concepts/cluster-administration/node-shutdown/#graceful-node-shutdown
package shutdown

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The reasons and messages of a node that shuts down: of its pods that end, and of new pods, which it
// refuses.
const (
	Reason         = "Terminated"
	Message        = "Pod was terminated in response to imminent node shutdown."
	RefusedReason  = "NodeShutdown"
	RefusedMessage = "Pod was rejected as the node is shutting down."
	NodeMessage    = "node is shutting down"
)

// criticalPriority is the lowest priority of critical pods.
const criticalPriority = 2_000_000_000

// Config says how much time pods have.
type Config struct {
	// GracePeriod is the time of all pods together; zero means that pods are not ended, unless
	// ByPodPriority is set.
	GracePeriod time.Duration
	// CriticalPods is the part of GracePeriod that is for critical pods, which end last.
	CriticalPods time.Duration
	// ByPodPriority replaces both.
	ByPodPriority []Period
}

// Period is the time of pods whose priority is at least Priority, and less than that of the next
// Period.
type Period struct {
	Priority int32
	Grace    time.Duration
}

// Ends reports whether pods are ended at all.
func (c Config) Ends() bool { return c.GracePeriod > 0 || len(c.ByPodPriority) > 0 }

// Whole returns how long all pods may take together; zero if they are not ended.
func (c Config) Whole() time.Duration {
	if len(c.ByPodPriority) == 0 {
		return c.GracePeriod
	}
	whole := time.Duration(0)
	for _, p := range c.ByPodPriority {
		whole += p.Grace
	}
	return whole
}

// Periods validates c and returns its periods in order of priority, the lowest first; none if pods
// are not ended.
func (c Config) Periods() ([]Period, error) {
	switch {
	case c.GracePeriod < 0 || c.CriticalPods < 0:
		return nil, fmt.Errorf("the grace period %v or %v of a shutdown is negative", c.GracePeriod, c.CriticalPods)
	case c.CriticalPods > c.GracePeriod:
		return nil, fmt.Errorf("the grace period of critical pods %v is longer than that of all pods %v", c.CriticalPods, c.GracePeriod)
	case len(c.ByPodPriority) > 0 && c.GracePeriod > 0:
		return nil, fmt.Errorf("a shutdown has both a grace period %v and periods by priority", c.GracePeriod)
	}
	periods := slices.Clone(c.ByPodPriority)
	if c.GracePeriod > 0 {
		periods = []Period{{0, c.GracePeriod - c.CriticalPods}, {criticalPriority, c.CriticalPods}}
	}
	slices.SortStableFunc(periods, func(a, b Period) int { return cmp.Compare(a.Priority, b.Priority) })
	for i, p := range periods {
		switch {
		case p.Grace < 0:
			return nil, fmt.Errorf("the grace period %v of priority %d is negative", p.Grace, p.Priority)
		case i > 0 && p.Priority == periods[i-1].Priority:
			return nil, fmt.Errorf("priority %d has two grace periods", p.Priority)
		}
	}
	return periods, nil
}

// Group is the pods that end together.
type Group struct {
	Pods []Pod
	// Wait is how long the pods of the next group wait for these.
	Wait time.Duration
}

// Pod is a pod with its grace period, in seconds.
type Pod struct {
	*corev1.Pod
	Grace int64
}

// Plan returns the groups of pods in the order in which they end. Pods below the lowest priority of
// periods are with it. Groups without pods are left out, so that nothing waits for them.
func Plan(periods []Period, pods []*corev1.Pod) []Group {
	if len(periods) == 0 {
		return nil
	}
	groups := make([]Group, len(periods))
	for i, p := range periods {
		groups[i].Wait = p.Grace.Truncate(time.Second)
	}
	for _, pod := range pods {
		var priority int32
		if pod.Spec.Priority != nil {
			priority = *pod.Spec.Priority
		}
		i, exact := slices.BinarySearchFunc(periods, priority, func(p Period, priority int32) int { return cmp.Compare(p.Priority, priority) })
		if !exact {
			i = max(i-1, 0)
		}
		grace := int64(groups[i].Wait / time.Second)
		if own := pod.Spec.TerminationGracePeriodSeconds; own != nil {
			grace = min(grace, *own)
		}
		groups[i].Pods = append(groups[i].Pods, Pod{pod, grace})
	}
	return slices.DeleteFunc(groups, func(g Group) bool { return len(g.Pods) == 0 })
}
