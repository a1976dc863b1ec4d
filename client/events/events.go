// Package events records what components do to objects as Kubernetes Events, which kubectl describe
// shows to users.
//
//	recorder, err := events.New(events.Config{Client: c, Component: "scheduler"})
//	go recorder.Run(ctx)
//	recorder.Event(pod, corev1.EventTypeNormal, "Scheduled", "Successfully assigned default/web to a")
//
// Event never blocks and never fails, because the work that events report is more important than
// the events. The recorder drops an event, and logs that, when the queue is full, when the server
// refuses it, and when one object has had more than 25 events and then more than one in five
// minutes. A repeated event raises the count of the stored one, so the times in between are not
// kept. Events of one object that differ only in their messages are combined from the tenth message
// on, if each comes within ten minutes of the previous one: one event counts them and has the
// latest message after "(combined from similar events): ". The limits are those of client-go. After
// ten minutes without any event all counts start from zero, so that an idle recorder keeps no
// memory.
//
// When Run returns, events still queued are lost.
package events

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Config describes the source of events and where to store them.
type Config struct {
	// Client reaches the server that stores the events. Must be set.
	Client *client.Client
	// Component is the source of the events, such as "kubelet". Must be set.
	Component string
	// Host is the node on which the component runs; empty if it runs on none.
	Host string
	// Log receives a message for each event that was not stored.
	Log logr.Logger
}

const (
	queueSize = 1000 // events; as in client-go
	// An event that cannot be sent because there is no connection is sent again this often, with
	// this interval.
	attempts = 12
	interval = 10 * time.Second
	// All counts are dropped after this time without an event. By then every group has ended, and
	// little of a budget has been refilled.
	forget = together
)

// Recorder records events. Event is safe for concurrent use.
type Recorder struct {
	config Config
	events client.Resource[*corev1.Event]
	queue  chan *corev1.Event // queueSize: room for a burst while the server is slow
	known  *correlator        // owned by Run
}

// New returns a recorder. Events stay in its queue until Run is called.
func New(c Config) (*Recorder, error) {
	if c.Client == nil || c.Component == "" {
		return nil, errors.New("events: Client and Component must be set")
	}
	return &Recorder{
		config: c, events: typed.Events(c.Client),
		queue: make(chan *corev1.Event, queueSize), known: newCorrelator(),
	}, nil
}

// Event records that something happened to object, which may also be an *corev1.ObjectReference.
// eventtype is corev1.EventTypeNormal or EventTypeWarning. reason is a word in CamelCase for
// programs, message a sentence for users.
func (r *Recorder) Event(object runtime.Object, eventtype, reason, message string) {
	about, err := reference(object)
	if err != nil {
		r.config.Log.Error(err, "event dropped", "reason", reason, "message", message)
		return
	}
	e := newEvent(about, eventtype, reason, message, time.Now())
	e.Source = corev1.EventSource{Component: r.config.Component, Host: r.config.Host}
	e.ReportingController, e.ReportingInstance = r.config.Component, r.config.Host
	select {
	case r.queue <- e:
	default:
		r.config.Log.Info("event dropped: the queue is full", "object", about.Namespace+"/"+about.Name, "reason", reason)
	}
}

// Run sends events until ctx is done.
func (r *Recorder) Run(ctx context.Context) error {
	idle := time.NewTimer(forget)
	defer idle.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-idle.C:
			r.known = newCorrelator()
		case e := <-r.queue:
			r.record(ctx, e)
			idle.Reset(forget)
		}
	}
}

// record stores what the correlator returns for e, with retries.
func (r *Recorder) record(ctx context.Context, e *corev1.Event) {
	e, key, ok := r.known.admit(e)
	if !ok {
		r.config.Log.V(1).Info("event dropped: too many for its object", "object", e.Namespace+"/"+e.InvolvedObject.Name, "reason", e.Reason)
		return
	}
	answered := true // every attempt so far
	for i := 1; ; i++ {
		err := r.store(ctx, e)
		if err == nil || ctx.Err() != nil {
			return
		}
		if apierrors.IsAlreadyExists(err) && answered && i < attempts {
			// Another event about the object was recorded in the same nanosecond.
			e.Name = nameOf(e.InvolvedObject.Name, e.FirstTimestamp.Add(time.Duration(i)))
			r.known.rename(key, e.Name)
			continue
		}
		var refused *apierrors.StatusError
		if errors.As(err, &refused) || i == attempts {
			r.config.Log.Error(err, "event dropped", "object", e.Namespace+"/"+e.InvolvedObject.Name, "reason", e.Reason)
			return
		}
		answered = false
		timer := time.NewTimer(interval)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// store raises the count of the event stored earlier, or stores e.
func (r *Recorder) store(ctx context.Context, e *corev1.Event) error {
	if e.Count > 1 {
		patch, err := json.Marshal(struct {
			Count         int32       `json:"count"`
			LastTimestamp metav1.Time `json:"lastTimestamp"`
			Message       string      `json:"message"` // a combined event has a new one each time
		}{e.Count, e.LastTimestamp, e.Message})
		if err != nil {
			return err
		}
		_, err = r.events.Patch(ctx, e.Namespace, e.Name, types.MergePatchType, patch)
		if !apierrors.IsNotFound(err) {
			return err
		}
		// The stored event has expired, or was never stored.
	}
	_, err := r.events.Create(ctx, e)
	return err
}
