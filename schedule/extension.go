package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// An Extension takes part in what follows a decision. It is at least one of a [Reserver], a [Permitter],
// a [PreBinder], a [Binder] and a [PostBinder]. A [Predicate] may be an Extension too.
//
// A pod that has a node goes through these steps: Reserve; Permit, after which it may wait; PreBind; Bind;
// PostBind. Each step asks the extensions in the order of the configuration: the predicates, then
// Config.Extensions. From Reserve on, the pod counts as on its node. If a step fails, the pod leaves the
// node, and Unreserve undoes what Reserve did.
//
// A pod that Reserve or Permit refuses, or that waits too long, is unschedulable, like one that fits no node.
// It is tried again after an event, and if the extension is a [Waker], only after one of those that it names.
// A pod that PreBind or Bind fails for is tried again after its backoff.
type Extension interface {
	Name() string
}

// A Reserver is an [Extension] that keeps account of pods by their nodes.
//
// Reserve is called when a node was chosen for a pod. If it refuses, the Reservers after it are not asked.
// Unreserve is called if the pod is not bound after all, also when the run ends first, for all Reservers and
// in reverse order. A Reserver whose own Reserve has refused the pod or was not called is
// called as well. Each pod that was reserved ends with one call of Unreserve, or with PostBind.
//
// Reserve is called by one goroutine at a time and must do no IO. Unreserve may be called concurrently for
// different pods.
type Reserver interface {
	Extension
	Reserve(p *PodInfo, node string) Verdict
	Unreserve(p *PodInfo, node string)
}

// A Permitter is an [Extension] that allows, refuses or delays the binding of pods.
//
// Permit returns a refusal, or [Fits] and how long the pod may wait. If that is 0, the pod need not wait for
// this extension. Otherwise the pod keeps its room on the node and waits until it is refused through waiting,
// or allowed by all extensions that asked for the wait. After that time, or [MaxWait], it is refused.
//
// Permit is called by one goroutine at a time, must do no IO, and may allow and refuse pods. It may keep
// waiting, which is the same in all calls of one [Scheduler].
type Permitter interface {
	Extension
	Permit(p *PodInfo, node string, waiting *Waiting) (Verdict, time.Duration)
}

// MaxWait limits how long a pod waits for one [Permitter], as in kube-scheduler.
const MaxWait = 15 * time.Minute

// A PreBinder is an [Extension] that prepares what a pod needs on its node, such as its volumes, before it is
// bound. It is called concurrently for different pods.
type PreBinder interface {
	Extension
	PreBind(ctx context.Context, pod *corev1.Pod, node string) error
}

// A Binder is an [Extension] that may bind pods in the place of Config.Bind. If Bind returns false and no
// error, it has left the pod to the next Binder or to Config.Bind. It is called concurrently for different
// pods.
type Binder interface {
	Extension
	Bind(ctx context.Context, pod *corev1.Pod, node string) (bound bool, err error)
}

// A PostBinder is an [Extension] that wants to know which pods were bound. It is called concurrently for
// different pods, and also for pods whose binding was sent before the end of the run.
type PostBinder interface {
	Extension
	PostBind(ctx context.Context, pod *corev1.Pod, node string)
}

// extensions are the extensions of a configuration by their steps.
type extensions struct {
	reservers   []Reserver
	permitters  []Permitter
	preBinders  []PreBinder
	binders     []Binder
	postBinders []PostBinder
	// wakers are the extensions that know their events, by name.
	wakers map[string]Waker
}

// newExtensions sorts the extensions of a configuration, which may be among its predicates.
func newExtensions(predicates []Predicate, list []Extension) (*extensions, error) {
	x, names := &extensions{wakers: make(map[string]Waker)}, make(map[string]bool)
	for _, p := range predicates {
		if x.add(p) {
			names[p.Name()] = true
		}
	}
	for _, e := range list {
		if e == nil {
			return nil, errors.New("schedule: an extension is nil")
		}
		if !x.add(e) {
			return nil, fmt.Errorf("schedule: extension %s has none of the methods of an extension", e.Name())
		}
		if names[e.Name()] {
			return nil, fmt.Errorf("schedule: two extensions have the name %s", e.Name())
		}
		names[e.Name()] = true
	}
	return x, nil
}

// add adds a value to all steps that it has a method for, and reports whether there are any.
func (x *extensions) add(value any) bool {
	found := false
	for _, added := range []bool{
		appendIf(&x.reservers, value), appendIf(&x.permitters, value), appendIf(&x.preBinders, value),
		appendIf(&x.binders, value), appendIf(&x.postBinders, value),
	} {
		found = found || added
	}
	if w, ok := value.(Waker); ok && found {
		x.wakers[w.Name()] = w
	}
	return found
}

// askFirst reports whether extensions are asked before pods are bound.
func (x *extensions) askFirst() bool { return len(x.reservers)+len(x.permitters) > 0 }

func appendIf[T any](list *[]T, value any) bool {
	t, ok := value.(T)
	if ok {
		*list = append(*list, t)
	}
	return ok
}
