// Package initializer is the loop of a program that initializes objects: it acts
// on each new object of a resource before anybody else sees it.
//
//	loop, err := initializer.New(initializer.Config[corev1.Pod]{
//		Name:   "sidecar.example.com",
//		URL:    "https://api.example.com/api/v1/pods",
//		Client: client,
//		Initialize: func(ctx context.Context, pod *corev1.Pod) error {
//			pod.Spec.Containers = append(pod.Spec.Containers, sidecar)
//			return nil
//		},
//	})
//	err = loop.Run(ctx)
//
// It watches with includeUninitialized=true. Each object whose first pending
// initializer has the loop's name is read and handed over as a Go value, which
// need not know metadata.initializers and is the caller's own. When Initialize
// returns nil the object is written back as it is then, without that initializer.
// When it returns a [RefusedError] ([Refuse] makes one) the object's
// initialization fails with that, which deletes the object, and whoever creates
// it gets the message.
//
// The program needs the verbs list, watch, get, update and initialize, and an
// InitializerConfiguration that names it.
//
// # Failures
//
// Any other error, a conflict with another write among them, is followed by
// another try with what the object has become, after 5 ms, 10 ms and so on, while
// other objects go on. Initialize may thus be called more than once for an object,
// never twice at a time. A watch that ends is begun anew after a second. Nothing
// survives a restart or needs to: who waits is in the API.
//
// # Left out
//
// Fields that the Go type does not have are lost when an object is written back,
// as with every typed client. Who creates waits for half a minute: several
// programs of one name may run, and conflicts keep them from acting twice.
package initializer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/reconcile"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// again is how long the loop waits before it watches again.
const again = time.Second

// Config says what a Loop acts on. Name, URL and Initialize must be set.
type Config[T any] struct {
	// Name is the initializer's, such as "sidecar.example.com".
	Name string
	// URL is the collection of the resource, in all namespaces or in one.
	URL string
	// Client reaches the API; nil is http.DefaultClient.
	Client *http.Client
	// BearerToken, when not empty, is sent with every request.
	BearerToken string
	// Initialize changes a new object. Calls for different objects are concurrent.
	Initialize func(ctx context.Context, obj *T) error
	// Log is told of failures. The zero Logger is silent.
	Log logr.Logger
}

// A RefusedError ends an object's initialization: it becomes the answer to whoever
// creates it.
type RefusedError struct{ Status metav1.Status }

func (e *RefusedError) Error() string { return e.Status.Message }

// Refuse returns a [RefusedError] which says 403 Forbidden and why.
func Refuse(format string, args ...any) error {
	return &RefusedError{metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: fmt.Sprintf(format, args...),
	}}
}

// Loop initializes the objects of one resource.
type Loop[T any] struct {
	config     Config[T]
	collection *url.URL
	controller *reconcile.Controller[key]
}

// key names an object.
type key struct{ namespace, name string }

func (k key) String() string {
	if k.namespace == "" {
		return k.name
	}
	return k.namespace + "/" + k.name
}

// New checks c. It starts nothing.
func New[T any](c Config[T]) (*Loop[T], error) {
	switch {
	case c.Name == "":
		return nil, errors.New("initializer: no Name")
	case c.Initialize == nil:
		return nil, fmt.Errorf("initializer %s: no Initialize", c.Name)
	}
	collection, err := url.Parse(c.URL)
	if err != nil {
		return nil, fmt.Errorf("initializer %s: %w", c.Name, err)
	}
	if collection.Host == "" || strings.Trim(collection.Path, "/") == "" {
		return nil, fmt.Errorf("initializer %s: URL must be that of a collection", c.Name)
	}
	collection.Path, collection.RawQuery = strings.TrimSuffix(collection.Path, "/"), ""
	c.Client = cmp.Or(c.Client, http.DefaultClient)
	l := &Loop[T]{config: c, collection: collection}
	l.controller, err = reconcile.New(reconcile.Config[key]{Name: c.Name, Reconcile: l.initialize, Log: c.Log})
	if err != nil {
		return nil, fmt.Errorf("initializer %s: %w", c.Name, err)
	}
	return l, nil
}

// Run initializes objects until ctx is done, and returns nil then.
func (l *Loop[T]) Run(ctx context.Context) error {
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		for ctx.Err() == nil {
			if err := l.watch(ctx); err != nil && ctx.Err() == nil {
				l.config.Log.Error(err, "watch ended", "initializer", l.config.Name)
			}
			select {
			case <-time.After(again):
			case <-ctx.Done():
			}
		}
	}()
	err := l.controller.Run(ctx)
	<-watching
	return err
}

// initialize acts on an object if it is the loop's turn.
func (l *Loop[T]) initialize(ctx context.Context, k key) (reconcile.Result, error) {
	obj, err := l.get(ctx, k)
	if err != nil || obj == nil || !obj.waitsFor(l.config.Name) {
		return reconcile.Result{}, err
	}
	typed := new(T)
	if err := obj.into(typed); err != nil {
		return reconcile.Result{}, fmt.Errorf("read %s: %w", k, err)
	}
	err = l.config.Initialize(ctx, typed)
	var written []byte
	var refused *RefusedError
	switch {
	case errors.As(err, &refused):
		written, err = obj.refused(refused.Status)
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("initialize %s: %w", k, err)
	default:
		written, err = obj.initialized(typed)
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("write %s: %w", k, err)
	}
	if err = l.put(ctx, k, written); errors.Is(err, errConflict) {
		return reconcile.Result{Requeue: true}, nil
	}
	return reconcile.Result{}, err
}
