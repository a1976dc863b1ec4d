package kubelet

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// eventQueue bounds the events that wait to be sent. More are dropped, because events must not
	// delay the kubelet.
	eventQueue = 256
	// eventMemory bounds the events kept to count repetitions, and the objects with budgets.
	eventMemory = 1024
	// eventBurst is the number of events about one object that are sent at once. After those, one
	// is sent per eventRefill. The values are client-go's.
	eventBurst  = 25
	eventRefill = 5 * time.Minute
	// eventForget is the time after the last event when all are dropped, so that an idle node uses
	// no memory for them.
	eventForget = 10 * time.Minute
)

// recorder sends events in the background.
type recorder struct {
	sink  Events
	node  string
	log   logr.Logger
	queue chan *corev1.Event // of size eventQueue

	// stamp is part of the name of the last event, in nanoseconds.
	stamp atomic.Int64

	// sent holds the last events by their contents. Only run uses it.
	sent map[eventKey]*sentEvent
	// budgets limits the events of each object, separately for warnings and others. Only run uses
	// it.
	budgets map[budgetKey]*eventBudget
}

type eventKey struct {
	object          corev1.ObjectReference
	reason, message string
}

// sentEvent is an event as it is stored.
type sentEvent struct {
	stored *corev1.Event
	// unsent counts repetitions without a budget.
	unsent int32
}

type budgetKey struct {
	uid  podUID
	kind string
}

// eventBudget is the rest of a burst at a time.
type eventBudget struct {
	left float64
	at   time.Time
}

// take takes one event from the budget. It returns false if the budget is empty.
func (b *eventBudget) take(now time.Time) bool {
	b.left = min(eventBurst, b.left+now.Sub(b.at).Seconds()/eventRefill.Seconds())
	b.at = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

func newRecorder(sink Events, node string, log logr.Logger) *recorder {
	return &recorder{
		sink: sink, node: node, log: log,
		queue: make(chan *corev1.Event, eventQueue), sent: map[eventKey]*sentEvent{}, budgets: map[budgetKey]*eventBudget{},
	}
}

// pod records an event about a pod, or about one of its containers if c is not nil. Pods that are
// not in the API get none.
func (r *recorder) pod(pod *corev1.Pod, c *corev1.Container, kind, reason, message string) {
	reference := corev1.ObjectReference{
		Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
	}
	if c != nil {
		reference.FieldPath = "spec.containers{" + c.Name + "}"
		for i := range pod.Spec.InitContainers {
			if pod.Spec.InitContainers[i].Name == c.Name {
				reference.FieldPath = "spec.initContainers{" + c.Name + "}"
			}
		}
	}
	r.record(reference, kind, reason, message)
}

// aboutNode records an event about this node.
func (r *recorder) aboutNode(kind, reason, message string) {
	// Events about nodes use the name as UID, as in Kubernetes.
	r.record(corev1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: r.node, UID: podUID(r.node)}, kind, reason, message)
}

func (r *recorder) record(about corev1.ObjectReference, kind, reason, message string) {
	if r.sink == nil {
		return
	}
	now := metav1.Now()
	namespace := about.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s.%x", about.Name, r.nextStamp())},
		InvolvedObject: about, Type: kind, Reason: reason, Message: message,
		Source:              corev1.EventSource{Component: "kubelet", Host: r.node},
		ReportingController: "kubelet", ReportingInstance: r.node,
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	select {
	case r.queue <- event:
	default:
		r.log.V(1).Info("event dropped", "reason", reason)
	}
}

// nextStamp returns the time in nanoseconds, or more if the clock is too coarse to distinguish two
// events.
func (r *recorder) nextStamp() int64 {
	for {
		last := r.stamp.Load()
		next := max(time.Now().UnixNano(), last+1)
		if r.stamp.CompareAndSwap(last, next) {
			return next
		}
	}
}

// run sends events until ctx is done. A repeated event increments the count of the earlier one.
func (r *recorder) run(ctx context.Context) {
	if r.sink == nil {
		return
	}
	idle := time.NewTimer(eventForget)
	defer idle.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-idle.C:
			r.sent, r.budgets = map[eventKey]*sentEvent{}, map[budgetKey]*eventBudget{}
		case event := <-r.queue:
			idle.Reset(eventForget)
			if err := r.send(ctx, event); err != nil && ctx.Err() == nil {
				r.log.V(1).Info("event not sent", "reason", event.Reason, "error", err.Error())
			}
		}
	}
}

// send stores an event, or increments the count of an equal one. An event without a budget is only
// counted, so that a pod that fails repeatedly causes few writes.
func (r *recorder) send(ctx context.Context, event *corev1.Event) error {
	about := event.InvolvedObject
	about.ResourceVersion = ""
	key := eventKey{object: about, reason: event.Reason, message: event.Message}
	old := r.sent[key]
	if !r.affords(event) {
		if old != nil {
			old.unsent++
		}
		return nil
	}
	if old != nil {
		next := old.stored.DeepCopy()
		next.Count += 1 + old.unsent
		next.LastTimestamp = event.LastTimestamp
		if written, err := r.sink.Update(ctx, next); err == nil {
			r.sent[key] = &sentEvent{stored: written}
			return nil
		}
		// The event has probably expired: create it again.
		delete(r.sent, key)
	}
	written, err := r.sink.Create(ctx, event)
	if err != nil {
		return err
	}
	if len(r.sent) >= eventMemory {
		clear(r.sent)
	}
	r.sent[key] = &sentEvent{stored: written}
	return nil
}

// affords takes event from the budget of its object.
func (r *recorder) affords(event *corev1.Event) bool {
	key := budgetKey{uid: event.InvolvedObject.UID, kind: event.Type}
	b := r.budgets[key]
	if b == nil {
		if len(r.budgets) >= eventMemory {
			clear(r.budgets)
		}
		b = &eventBudget{left: eventBurst, at: event.LastTimestamp.Time}
		r.budgets[key] = b
	}
	return b.take(event.LastTimestamp.Time)
}
