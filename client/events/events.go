// Package events records what components do to objects as Kubernetes Events,
// for people to read with kubectl describe.
//
//	recorder, err := events.New(events.Config{Client: c, Component: "scheduler"})
//	go recorder.Run(ctx)
//	recorder.Event(pod, corev1.EventTypeNormal, "Scheduled", "Successfully assigned default/web to a")
//
// Event never blocks and never fails: events are a courtesy, and the work they
// tell of goes first. They are dropped, and that is logged, when the queue is
// full, when one object has had more than 25 of them and then one in five
// minutes, and when the server refuses them. The same event again raises the
// count of the one stored; so the times in between are not kept. Events of one
// object that differ only in their messages are combined from the tenth message
// on, if each comes within ten minutes of the one before: one event counts them,
// with the latest message after "(combined from similar events): ". The limits are
// those of client-go. After ten minutes without any event all counts start from zero,
// so that an idle recorder keeps no memory.
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

// Config says who records events, and where.
type Config struct {
	// Client reaches the server that stores the events. Must be set.
	Client *client.Client
	// Component is the source of the events, such as "kubelet". Must be set.
	Component string
	// Host is the node on which the component runs; empty for those of no node.
	Host string
	// Log receives what became of events that were not stored.
	Log logr.Logger
}

const (
	queueSize = 1000 // events; as in client-go
	// An event that could not be sent for lack of a connection is sent again
	// this often, this far apart.
	attempts = 12
	interval = 10 * time.Second
	// What is known of events is forgotten when there was none for so long. By then
	// no group goes on, and little of a budget has been filled again.
	forget = together
)

// Recorder records events. Event may be called by any goroutine.
type Recorder struct {
	config Config
	events client.Resource[*corev1.Event]
	queue  chan *corev1.Event // queueSize: a burst while the server is slow
	known  *correlator        // owned by Run
}

// New returns a recorder. Events queue up until Run is called.
func New(c Config) (*Recorder, error) {
	if c.Client == nil || c.Component == "" {
		return nil, errors.New("events: Client and Component must be set")
	}
	return &Recorder{
		config: c, events: typed.Events(c.Client),
		queue: make(chan *corev1.Event, queueSize), known: newCorrelator(),
	}, nil
}

// Event records that something happened to object, which may also be an
// *corev1.ObjectReference. eventtype is corev1.EventTypeNormal or
// EventTypeWarning, reason a word in CamelCase for programs, message a sentence
// for people.
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

// record stores what becomes of e until that is stored or hopeless.
func (r *Recorder) record(ctx context.Context, e *corev1.Event) {
	e, ok := r.known.admit(e)
	if !ok {
		r.config.Log.V(1).Info("event dropped: too many for its object", "object", e.Namespace+"/"+e.InvolvedObject.Name, "reason", e.Reason)
		return
	}
	for i := 1; ; i++ {
		err := r.store(ctx, e)
		if err == nil || ctx.Err() != nil {
			return
		}
		var refused *apierrors.StatusError
		if errors.As(err, &refused) || i == attempts {
			r.config.Log.Error(err, "event dropped", "object", e.Namespace+"/"+e.InvolvedObject.Name, "reason", e.Reason)
			return
		}
		timer := time.NewTimer(interval)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// store raises the count of the event stored before, or stores e.
func (r *Recorder) store(ctx context.Context, e *corev1.Event) error {
	if e.Count > 1 {
		patch, err := json.Marshal(struct {
			Count         int32       `json:"count"`
			LastTimestamp metav1.Time `json:"lastTimestamp"`
			Message       string      `json:"message"` // another one each time if it is combined
		}{e.Count, e.LastTimestamp, e.Message})
		if err != nil {
			return err
		}
		_, err = r.events.Patch(ctx, e.Namespace, e.Name, types.MergePatchType, patch)
		if !apierrors.IsNotFound(err) {
			return err
		}
		// It has expired, or was never stored.
	}
	_, err := r.events.Create(ctx, e)
	return err
}
