// Package gang schedules pods that start together or not at all.
//
//	gangs, err := gang.New(gang.Config{Pods: pods})
//	config := schedule.Config{
//		Predicates: append([]schedule.Predicate{gangs}, predicates.Default()...),
//		Sources:    gangs.Sources(),
//		...
//	}
//
// A pod belongs to a group of its namespace by the label [NameLabel] or [GroupLabel], as with the
// coscheduling plugin of https://github.com/kubernetes-sigs/scheduler-plugins. Its label or annotation
// [MinAvailable] says how many pods of the group must be able to start. The largest number of all pods of
// a group counts, and without one a single pod is enough.
//
// No pod of a group is considered before so many of its pods exist. Then each pod that has a node waits, and
// keeps its room, until so many have one or are bound; they are bound together. Pods that have ended or are
// being deleted do not count. If this takes longer than Config.Timeout, or one of the pods that wait is
// refused, preempted or deleted, all pods of the group that wait leave their nodes.
//
// Groups that each hold a part of the room that they need make each other fail. After that, one of them at a
// time collects its pods, so that each of them that has enough room alone starts in the end. Within a group,
// pods are considered in the usual order, those with the highest priority first.
//
// A pod whose binding fails after the group has started is tried again alone.
//
// Not included: the object PodGroup of scheduler-plugins, and spec.schedulingGroup with the objects of
// scheduling.k8s.io, which Kubernetes has as an alpha feature. A [Config.Group] can read other fields.
package gang

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The names by which pods belong together.
const (
	// NameLabel is the label with the name of the group. It goes before GroupLabel.
	NameLabel = "pod-group.scheduling.sigs.k8s.io/name"
	// GroupLabel is the label for the same purpose of later versions.
	GroupLabel = "scheduling.x-k8s.io/pod-group"
	// MinAvailable is the label or annotation that says how many pods must be able to start.
	MinAvailable = "pod-group.scheduling.sigs.k8s.io/min-available"
)

// Group describes the group of a pod.
type Group struct {
	// Name is unique in the namespace. A pod without a name has no group.
	Name string
	// Min counts the pods that must be able to start. With 1 and less, no pod waits for another one.
	Min int
}

// Config configures Gangs.
type Config struct {
	// Pods is the cache of all pods. It is required.
	Pods localcache.Subscriber[*corev1.Pod]
	// Timeout is how long a pod waits for the rest of its group. Zero means a minute, as in scheduler-plugins.
	// No pod waits longer than schedule.MaxWait.
	Timeout time.Duration
	// Group returns the group of a pod. It must always return the same for the same pod. A pod for which it
	// returns an error is not scheduled. If it is nil, [FromLabels] is used.
	Group func(*corev1.Pod) (Group, error)
}

// Gangs is a [schedule.Predicate] and an [schedule.Extension] of one scheduler, which must have its Sources.
type Gangs struct {
	config Config

	mu sync.Mutex // guards the fields below
	// groups never calls the scheduler.
	groups *groups
	// waiting is nil until the first pod asks for a permission.
	waiting *schedule.Waiting
	// report reports an event to the scheduler. It must be called without mu held.
	report func(schedule.Event)
}

// New returns Gangs.
func New(c Config) (*Gangs, error) {
	if c.Pods == nil {
		return nil, errors.New("gang: Pods must be set")
	}
	if c.Timeout < 0 {
		return nil, errors.New("gang: Timeout is negative")
	}
	if c.Timeout == 0 {
		c.Timeout = time.Minute
	}
	if c.Group == nil {
		c.Group = FromLabels
	}
	return &Gangs{config: c, groups: newGroups(), report: func(schedule.Event) {}}, nil
}

// FromLabels returns the group that the labels and annotations of a pod name.
func FromLabels(pod *corev1.Pod) (Group, error) {
	g := Group{Name: pod.Labels[NameLabel]}
	if g.Name == "" {
		g.Name = pod.Labels[GroupLabel]
	}
	if g.Name == "" {
		return g, nil
	}
	text, ok := pod.Labels[MinAvailable]
	if !ok {
		text, ok = pod.Annotations[MinAvailable]
	}
	if !ok {
		return g, nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return g, fmt.Errorf("pod has an invalid number %s: %q", MinAvailable, text)
	}
	g.Min = int(n)
	return g, nil
}

// groupOf returns the group of a pod, or why it has an invalid one. The name is empty if it has none.
func (g *Gangs) groupOf(pod *corev1.Pod) (key types.NamespacedName, minimum int, err error) {
	one, err := g.config.Group(pod)
	if one.Name == "" {
		return key, 0, err
	}
	return types.NamespacedName{Namespace: pod.Namespace, Name: one.Name}, one.Min, err
}

// Sources returns the sources of the events that wake pods.
func (g *Gangs) Sources() []schedule.Source { return []schedule.Source{g.follow} }

// follow follows the pods for one run of the scheduler.
func (g *Gangs) follow(report func(schedule.Event)) localcache.Subscription {
	g.mu.Lock()
	g.groups, g.report = newGroups(), report
	g.mu.Unlock()
	return g.config.Pods.Subscribe(g.onPod)
}

// onPod handles a change of a pod.
func (g *Gangs) onPod(old, pod *corev1.Pod) {
	var before, after types.NamespacedName
	minimum := 0
	if old != nil {
		before, _, _ = g.groupOf(old)
	}
	if pod != nil && counts(pod) {
		key, n, err := g.groupOf(pod)
		if err == nil {
			after, minimum = key, n
		}
	}
	if before.Name == "" && after.Name == "" {
		return
	}
	var s steps
	g.mu.Lock()
	if before.Name != "" && (before != after || old.UID != pod.UID) {
		s.add(g.groups.remove(before, old.UID))
	}
	if after.Name != "" {
		s.add(g.groups.set(after, pod.UID, minimum, pod.Spec.NodeName != ""))
	}
	g.mu.Unlock()
	g.do(s)
}

// counts reports whether a pod can be one of those that start together.
func counts(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// do carries out what a change leads to. It must be called without g.mu held.
func (g *Gangs) do(s steps) {
	g.mu.Lock()
	waiting, report := g.waiting, g.report
	g.mu.Unlock()
	for _, p := range s.allow {
		waiting.Allow(p, g.Name())
	}
	for _, p := range s.refuse {
		waiting.Refuse(p, g.Name(), "another pod of the pod group could not start")
	}
	for _, c := range s.changes {
		report(schedule.Event{New: c})
	}
}
