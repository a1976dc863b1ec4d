package schedule

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
)

// Config configures a [Scheduler].
type Config struct {
	// Name is the schedulerName of the pods to care for; empty means
	// "default-scheduler".
	Name string
	// Predicates must all accept a node, and are asked in this order until one
	// does not. None means that every node will do.
	Predicates []Predicate
	// Priorities choose among the nodes left. None means that chance does.
	Priorities []Weighted
	// Nodes and Pods are what decisions are made upon.
	Nodes localcache.ListSubscriber[*corev1.Node]
	Pods  localcache.ListSubscriber[*corev1.Pod]
	// Bind puts a pod on a node. It is called concurrently for different pods. A
	// pod whose bind fails is tried again.
	Bind func(ctx context.Context, pod *corev1.Pod, node string) error
	// SetCondition, when not nil, stores a condition in a pod's status: why it is
	// not scheduled. It is called concurrently for different pods.
	SetCondition func(ctx context.Context, pod *corev1.Pod, condition corev1.PodCondition) error
	// Event, when not nil, records an event about a pod. eventType is
	// corev1.EventTypeNormal or EventTypeWarning. It must not block.
	Event func(pod *corev1.Pod, eventType, reason, message string)
	// Parallel bounds the calls of Bind and SetCondition at one time; zero means
	// 64. Decisions wait when it is reached.
	Parallel int
	// Seed settles ties between nodes; zero means a different one each time.
	Seed uint64
	// Log is told of binds at V(1) and of failures at V(0). The zero Logger is
	// silent.
	Log logr.Logger
}

// A Scheduler binds pods to nodes.
type Scheduler struct{ config Config }

// New returns a scheduler; see [Scheduler.Run].
func New(c Config) (*Scheduler, error) {
	if c.Nodes == nil || c.Pods == nil || c.Bind == nil {
		return nil, errors.New("schedule: Nodes, Pods and Bind must be set")
	}
	if c.Parallel < 0 {
		return nil, errors.New("schedule: Parallel is negative")
	}
	for _, w := range c.Priorities {
		if w.Weight < 0 {
			return nil, errors.New("schedule: negative weight of " + w.Name())
		}
	}
	if c.Name == "" {
		c.Name = "default-scheduler"
	}
	if c.Parallel == 0 {
		c.Parallel = 64
	}
	if c.SetCondition == nil {
		c.SetCondition = func(context.Context, *corev1.Pod, corev1.PodCondition) error { return nil }
	}
	if c.Event == nil {
		c.Event = func(*corev1.Pod, string, string, string) {}
	}
	if c.Seed == 0 {
		c.Seed = rand.Uint64()
	}
	return &Scheduler{config: c}, nil
}

// Run schedules pods until ctx is done; it returns nil then, when all its calls
// of Bind and SetCondition have returned. It begins when both caches are
// complete. It must not run more than once at a time.
func (s *Scheduler) Run(ctx context.Context) error {
	l := newLoop(s.config)
	defer l.work.wait()
	stopNodes := s.config.Nodes.Subscribe(l.onNode)
	defer stopNodes()
	stopPods := s.config.Pods.Subscribe(l.onPod)
	defer stopPods()
	if !l.ready(ctx) {
		return nil
	}
	for l.wait(ctx) {
		for ctx.Err() == nil && l.next(ctx) {
		}
	}
	return nil
}
