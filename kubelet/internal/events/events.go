// Package events writes the events of a kubelet to the API in the background. A repeated event
// increments the count of the earlier one, and an object has a budget of events.
package events

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/kubelet/internal/bucket"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// queueLength bounds the events that wait to be sent, as client-go's does. More are dropped, because
	// events must not delay the kubelet.
	queueLength = 1000
	// maxMessage bounds a message, in bytes. It has room for the output of a probe, which is at most 10 KiB.
	// Messages quote what pods say, for example commands of up to 1.5 MiB.
	maxMessage = 16 << 10
	// memoryLimit bounds the events kept to count repetitions, and the objects with budgets.
	memoryLimit = 1024
	// burstSize is the number of events about one object that are sent at once. After those, one
	// is sent per refillInterval. The values are client-go's.
	burstSize      = 25
	refillInterval = 5 * time.Minute
	// forgetAfter is the time after the last event when all are dropped, so that an idle node uses
	// no memory for them.
	forgetAfter = 10 * time.Minute
)

// Sink writes Event objects.
type Sink interface {
	Create(ctx context.Context, event *corev1.Event) (*corev1.Event, error)
	Update(ctx context.Context, event *corev1.Event) (*corev1.Event, error)
}

// Recorder sends events in the background.
type Recorder struct {
	// Rate limits the writes of all events together; nil means no limit. Set it before Run.
	Rate *bucket.Bucket

	sink  Sink
	node  string
	log   logr.Logger
	queue chan *corev1.Event // of size queueLength

	// stamp is part of the name of the last event, in nanoseconds.
	stamp atomic.Int64

	// sent holds the last events by their contents. Only Run uses it.
	sent map[eventKey]*sentEvent
	// budgets limits the events of each object, separately for warnings and others. Only Run uses
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
	uid  types.UID
	kind string
}

// eventBudget is the rest of a burst at a time.
type eventBudget struct {
	left float64
	at   time.Time
}

// take takes one event from the budget. It returns false if the budget is empty.
func (b *eventBudget) take(now time.Time) bool {
	b.left = min(burstSize, b.left+now.Sub(b.at).Seconds()/refillInterval.Seconds())
	b.at = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

// New returns a recorder of the node called node. Without a sink, it drops events.
func New(sink Sink, node string, log logr.Logger) *Recorder {
	return &Recorder{
		sink: sink, node: node, log: log,
		queue: make(chan *corev1.Event, queueLength), sent: map[eventKey]*sentEvent{}, budgets: map[budgetKey]*eventBudget{},
	}
}

// Pod records an event about a pod, or about one of its containers if c is not nil. Pods that are
// not in the API get none.
func (r *Recorder) Pod(pod *corev1.Pod, c *corev1.Container, kind, reason, message string) {
	reference := corev1.ObjectReference{
		Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
	}
	if c != nil {
		reference.FieldPath = "spec.containers{" + c.Name + "}"
		for i := range pod.Spec.EphemeralContainers {
			if pod.Spec.EphemeralContainers[i].Name == c.Name {
				reference.FieldPath = "spec.ephemeralContainers{" + c.Name + "}"
			}
		}
		for i := range pod.Spec.InitContainers {
			if pod.Spec.InitContainers[i].Name == c.Name {
				reference.FieldPath = "spec.initContainers{" + c.Name + "}"
			}
		}
	}
	r.record(reference, kind, reason, message, nil)
}

// Annotated records a warning about a pod, with annotations.
func (r *Recorder) Annotated(pod *corev1.Pod, annotations map[string]string, reason, message string) {
	r.record(corev1.ObjectReference{
		Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
	}, corev1.EventTypeWarning, reason, message, annotations)
}

// Node records an event about this node.
func (r *Recorder) Node(kind, reason, message string) {
	// Events about nodes use the name as UID, as in Kubernetes.
	r.record(corev1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: r.node, UID: types.UID(r.node)}, kind, reason, message, nil)
}

func (r *Recorder) record(about corev1.ObjectReference, kind, reason, message string, annotations map[string]string) {
	if r.sink == nil {
		return
	}
	now := metav1.Now()
	namespace := about.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s.%x", about.Name, r.nextStamp()), Annotations: annotations},
		InvolvedObject: about, Type: kind, Reason: reason, Message: strings.ToValidUTF8(message[:min(len(message), maxMessage)], ""),
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
func (r *Recorder) nextStamp() int64 {
	for {
		last := r.stamp.Load()
		next := max(time.Now().UnixNano(), last+1)
		if r.stamp.CompareAndSwap(last, next) {
			return next
		}
	}
}

// Run sends events until ctx is done. A repeated event increments the count of the earlier one.
func (r *Recorder) Run(ctx context.Context) {
	if r.sink == nil {
		return
	}
	idle := time.NewTimer(forgetAfter)
	defer idle.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-idle.C:
			r.sent, r.budgets = map[eventKey]*sentEvent{}, map[budgetKey]*eventBudget{}
		case event := <-r.queue:
			idle.Reset(forgetAfter)
			if err := r.send(ctx, event); err != nil && ctx.Err() == nil {
				r.log.V(1).Info("event not sent", "reason", event.Reason, "error", err.Error())
			}
		}
	}
}

// send stores an event, or increments the count of an equal one. An event without a budget is only
// counted, so that a pod that fails repeatedly causes few writes.
func (r *Recorder) send(ctx context.Context, event *corev1.Event) error {
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
	if !r.await(ctx) {
		return ctx.Err()
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
	if len(r.sent) >= memoryLimit {
		clear(r.sent)
	}
	r.sent[key] = &sentEvent{stored: written}
	return nil
}

// await waits until Rate allows a write. It returns false if ctx is done before.
func (r *Recorder) await(ctx context.Context) bool {
	for {
		wait, ok := r.Rate.Take(time.Now())
		if ok {
			return true
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
}

// affords takes event from the budget of its object.
func (r *Recorder) affords(event *corev1.Event) bool {
	key := budgetKey{uid: event.InvolvedObject.UID, kind: event.Type}
	b := r.budgets[key]
	if b == nil {
		if len(r.budgets) >= memoryLimit {
			clear(r.budgets)
		}
		b = &eventBudget{left: burstSize, at: event.LastTimestamp.Time}
		r.budgets[key] = b
	}
	return b.take(event.LastTimestamp.Time)
}
