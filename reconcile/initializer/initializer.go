// Package initializer runs the loop of a program that initializes objects: it changes each new
// object of a resource before other clients see it.
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
// The loop watches with includeUninitialized=true. It reads each object whose first pending
// initializer has the loop's name, and passes it to Initialize as a Go value. The value belongs to
// Initialize and its type need not have metadata.initializers. When Initialize returns nil, the
// loop writes the value without that initializer. When it returns a [RefusedError] ([Refuse] makes
// one), the initialization fails: the server deletes the object and sends the message to the client
// that creates it.
//
// The program needs the verbs list, watch, get, update and initialize, and an
// InitializerConfiguration that names it.
//
// # Failures
//
// After any other error, including a conflict with another write, the loop tries again with the
// current object after 5 ms, 10 ms and so on, while work on other objects continues. So Initialize
// may be called more than once for an object, but never concurrently. A watch that ends is
// restarted after a second. The loop keeps no state over a restart: the API has the pending
// initializers.
//
// # Left out
//
// Fields that the Go type does not have are lost when an object is written, as with every typed
// client. A client that creates an object waits at most half a minute. Several programs may use one
// name, and conflicts prevent that an object is initialized twice.
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

// again is the delay before the loop watches again.
const again = time.Second

// Config configures a Loop. Name, URL and Initialize must be set.
type Config[T any] struct {
	// Name is the name of the initializer, such as "sidecar.example.com".
	Name string
	// URL is the URL of the collection, in all namespaces or in one.
	URL string
	// Client sends the requests; nil means http.DefaultClient.
	Client *http.Client
	// BearerToken is sent with every request unless it is empty.
	BearerToken string
	// Initialize changes a new object. Calls for different objects are concurrent.
	Initialize func(ctx context.Context, obj *T) error
	// Log receives failures. The zero Logger discards them.
	Log logr.Logger
}

// A RefusedError ends an object's initialization. The client that creates the object receives
// Status.
type RefusedError struct{ Status metav1.Status }

func (e *RefusedError) Error() string { return e.Status.Message }

// Refuse returns a [RefusedError] with the status 403 Forbidden and a message.
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

// key identifies an object.
type key struct{ namespace, name string }

func (k key) String() string {
	if k.namespace == "" {
		return k.name
	}
	return k.namespace + "/" + k.name
}

// New validates c and returns a Loop. It starts nothing.
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

// Run initializes objects until ctx is done, and then returns nil.
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

// initialize initializes an object if the loop's initializer is the first pending one.
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
