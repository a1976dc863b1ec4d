package kubelet

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// eventQueue bounds the events that wait to be sent; more are dropped, since
	// events are for people and must delay nothing.
	eventQueue = 256
	// eventMemory bounds how many events are remembered to count repetitions.
	eventMemory = 1024
)

// recorder sends events in the background.
type recorder struct {
	sink  Events
	node  string
	log   logr.Logger
	queue chan *corev1.Event // of size eventQueue

	// sent holds the last events by what they say. Used by run alone.
	sent map[eventKey]*corev1.Event
}

type eventKey struct {
	object          corev1.ObjectReference
	reason, message string
}

func newRecorder(sink Events, node string, log logr.Logger) *recorder {
	return &recorder{
		sink: sink, node: node, log: log,
		queue: make(chan *corev1.Event, eventQueue), sent: map[eventKey]*corev1.Event{},
	}
}

// pod records an event about a pod, or about one of its containers if c is not
// nil. Pods that the API does not have get none.
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
	// By name: that is the uid node events have always had.
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
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s.%x", about.Name, time.Now().UnixNano())},
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

// run sends events until ctx is done. One that says what an earlier one said
// counts that up instead.
func (r *recorder) run(ctx context.Context) {
	if r.sink == nil {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case event := <-r.queue:
			if err := r.send(ctx, event); err != nil && ctx.Err() == nil {
				r.log.V(1).Info("event not sent", "reason", event.Reason, "error", err.Error())
			}
		}
	}
}

func (r *recorder) send(ctx context.Context, event *corev1.Event) error {
	about := event.InvolvedObject
	about.ResourceVersion = ""
	key := eventKey{object: about, reason: event.Reason, message: event.Message}
	if old := r.sent[key]; old != nil {
		next := old.DeepCopy()
		next.Count++
		next.LastTimestamp = event.LastTimestamp
		if written, err := r.sink.Update(ctx, next); err == nil {
			r.sent[key] = written
			return nil
		}
		// Gone by its age, most likely: begin anew.
		delete(r.sent, key)
	}
	written, err := r.sink.Create(ctx, event)
	if err != nil {
		return err
	}
	if len(r.sent) >= eventMemory {
		clear(r.sent)
	}
	r.sent[key] = written
	return nil
}
