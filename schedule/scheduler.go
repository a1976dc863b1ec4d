package schedule

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
)

// Config configures a [Scheduler].
type Config struct {
	// Name is the schedulerName of the pods to schedule; empty means "default-scheduler".
	Name string
	// Predicates must all accept a node. They are called in this order until one refuses. Without
	// predicates, every node is accepted.
	Predicates []Predicate
	// Priorities score the remaining nodes. Without priorities, the choice is random.
	Priorities []Weighted
	// Profiles, if there are any, are used instead of Name, Predicates and Priorities, which must then be
	// zero. Each has a name of its own.
	Profiles []Profile
	// Extenders are asked about the nodes that the predicates accept. While they are, other pods are
	// scheduled, and those in which another extender is interested wait.
	Extenders []Extender
	// Nodes and Pods are the caches that decisions are based on.
	Nodes localcache.Subscriber[*corev1.Node]
	Pods  localcache.Subscriber[*corev1.Pod]
	// Namespaces, if not nil, is the cache behind [Cluster].Namespace.
	Namespaces localcache.Subscriber[*corev1.Namespace]
	// Sources report changes of other objects that predicates depend on, which wake pods that wait.
	Sources []Source
	// Bind binds a pod to a node. It is called concurrently for different pods. A pod whose bind
	// fails is retried.
	Bind func(ctx context.Context, pod *corev1.Pod, node string) error
	// Extensions take part in what follows a decision, together with the predicates that are an
	// [Extension]. Their names are unique.
	Extensions []Extension
	// SetCondition, if not nil, stores the reason why a pod is not scheduled as a condition in its
	// status. It is called concurrently for different pods.
	SetCondition func(ctx context.Context, pod *corev1.Pod, condition corev1.PodCondition) error
	// Evict, if not nil, lets a pod that fits no node preempt pods of lower priority: it is called for each
	// victim, and ends it within its grace period. A victim that is gone is no error. It is called
	// concurrently for different pods.
	Evict func(ctx context.Context, e Eviction) error
	// Nominate, if not nil, stores the node that is reserved for a pod until its victims have ended in
	// its status; an empty node means that none is any more. It is called concurrently for different
	// pods.
	Nominate func(ctx context.Context, pod *corev1.Pod, node string) error
	// Budgets, if not nil, are the disruption budgets that preemption violates only where it must.
	Budgets localcache.Lister[*policyv1.PodDisruptionBudget]
	// Event, if not nil, records an event about a pod. scheduler is the name of the profile that it comes
	// from. eventType is corev1.EventTypeNormal or EventTypeWarning. It must not block.
	Event func(scheduler string, pod *corev1.Pod, eventType, reason, message string)
	// Parallel bounds the concurrent calls of Bind, SetCondition, Evict and Nominate; zero means 64. When the limit
	// is reached, decisions wait.
	Parallel int
	// InitialBackoff and MaxBackoff are how long a pod waits at least after its first failed attempt, and at
	// most after later ones; each time it is twice as long. Zero means 1 and 10 seconds, as in kube-scheduler.
	InitialBackoff, MaxBackoff time.Duration
	// Seed seeds the random choice between equal nodes; zero means a different seed each time.
	Seed uint64
	// Meters are called with what the scheduler does, for metrics.
	Meters Meters
	// Log receives binds at V(1) and failures at V(0). The zero Logger discards them.
	Log logr.Logger
}

// Eviction is about a pod that ends so that another one has room.
type Eviction struct {
	// Victim runs on Node, and Preemptor waits for its room.
	Victim, Preemptor *corev1.Pod
	Node              string
	// Scheduler is the name of the preemptor's profile.
	Scheduler string
}

// A Scheduler binds pods to nodes.
type Scheduler struct {
	config  Config
	waiting *Waiting
}

// New returns a scheduler; see [Scheduler.Run].
func New(c Config) (*Scheduler, error) {
	if c.Nodes == nil || c.Pods == nil || c.Bind == nil {
		return nil, errors.New("schedule: Nodes, Pods and Bind must be set")
	}
	if c.Parallel < 0 {
		return nil, errors.New("schedule: Parallel is negative")
	}
	if c.InitialBackoff == 0 {
		c.InitialBackoff = defaultBackoff
	}
	if c.MaxBackoff == 0 {
		c.MaxBackoff = max(c.InitialBackoff, defaultMaxBackoff)
	}
	if c.InitialBackoff < 0 || c.MaxBackoff < c.InitialBackoff {
		return nil, errors.New("schedule: InitialBackoff is negative, or MaxBackoff is below it")
	}
	if c.Parallel == 0 {
		c.Parallel = 64
	}
	if c.SetCondition == nil {
		c.SetCondition = func(context.Context, *corev1.Pod, corev1.PodCondition) error { return nil }
	}
	if c.Nominate == nil {
		c.Nominate = func(context.Context, *corev1.Pod, string) error { return nil }
	}
	if c.Event == nil {
		c.Event = func(string, *corev1.Pod, string, string, string) {}
	}
	if c.Seed == 0 {
		c.Seed = rand.Uint64()
	}
	profiles, err := c.profiles()
	if err != nil {
		return nil, err
	}
	c.Profiles = profiles
	if c.Extenders, err = orderExtenders(c.Extenders); err != nil {
		return nil, err
	}
	return &Scheduler{config: c, waiting: newWaiting()}, nil
}

// Waiting returns the pods that wait until a [Permitter] allows them.
func (s *Scheduler) Waiting() *Waiting { return s.waiting }

// Run schedules pods until ctx is done and all its calls of the functions in Config have returned,
// then returns nil. It begins when all caches have synced. It must not run more than once at a
// time.
func (s *Scheduler) Run(ctx context.Context) error {
	l := newLoop(s.config, s.waiting)
	defer l.close()
	if count := s.config.Meters.Count; count != nil {
		count(l.counts)
		defer count(nil)
	}
	subscriptions := l.subscribe()
	for _, sub := range subscriptions {
		defer sub.Stop()
	}
	// A decision before that would find room on nodes that are full.
	for _, sub := range subscriptions {
		select {
		case <-sub.CaughtUp:
		case <-ctx.Done():
			return nil
		}
	}
	l.startExtenders(ctx)
	for l.wait(ctx) {
		for ctx.Err() == nil && l.next(ctx) {
		}
	}
	return nil
}

func (l *loop) subscribe() []localcache.Subscription {
	c := &l.config
	list := []localcache.Subscription{c.Nodes.Subscribe(l.onNode), c.Pods.Subscribe(l.onPod)}
	if c.Namespaces != nil {
		list = append(list, c.Namespaces.Subscribe(l.onNamespace))
	}
	for _, source := range c.Sources {
		list = append(list, source(l.onSource))
	}
	return list
}
