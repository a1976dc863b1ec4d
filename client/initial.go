package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// pieces receives a list object by object.
type pieces[T any] interface {
	Begin()
	Item(T)
	End(revision string)
}

// inPieces returns sink itself if it receives lists in pieces. Otherwise it returns an adapter that
// collects the objects for Replace.
func inPieces[T any](sink Sink[T]) pieces[T] {
	if p, ok := sink.(pieces[T]); ok {
		return p
	}
	return &whole[T]{sink: sink}
}

// known returns a function that asks sink whether it already has an encoded object, or nil if sink
// cannot tell.
func known[T any](sink Sink[T]) func(item []byte) bool {
	s, ok := sink.(interface {
		pieces[T]
		Unchanged(key, revision string) bool
	})
	if !ok {
		return nil
	}
	var both []byte
	return func(item []byte) bool {
		namespace, name, revision, ok := peek(item)
		if !ok {
			return false
		}
		both = both[:0]
		if len(namespace) > 0 {
			both = append(append(both, namespace...), '/')
		}
		both = append(both, name...)
		key := len(both)
		text := string(append(both, revision...))
		return s.Unchanged(text[:key], text[key:])
	}
}

type whole[T any] struct {
	sink    Sink[T]
	objects []T
}

func (w *whole[T]) Begin()              { w.objects = nil }
func (w *whole[T]) Item(object T)       { w.objects = append(w.objects, object) }
func (w *whole[T]) End(revision string) { w.sink.Replace(revision, w.objects) }

// initialEvents receives the events of a watch that sends existing objects before changes.
type initialEvents[T Object] struct {
	pieces[T]
	// pending is true until all initial events have arrived.
	pending bool
	wait    time.Duration
	timer   *time.Timer
}

var errInitialEvents = errors.New("the initial events did not come in time")

func newInitialEvents[T Object](sink Sink[T], pending bool) *initialEvents[T] {
	i := &initialEvents[T]{pending: pending}
	if pending {
		i.pieces = inPieces(sink)
	}
	return i
}

// bound returns a context that ends when neither an object nor the end of the initial events has
// arrived for wait.
func (i *initialEvents[T]) bound(ctx context.Context, wait time.Duration) (context.Context, func()) {
	if !i.pending {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	i.wait, i.timer = wait, time.AfterFunc(wait, func() { cancel(errInitialEvents) })
	return ctx, func() {
		i.timer.Stop()
		cancel(nil)
	}
}

// explain returns why the stream broke: err, or that the context of bound timed out.
func (i *initialEvents[T]) explain(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errInitialEvents) {
		return cause
	}
	return err
}

// take handles one initial event. The last one is an annotated bookmark with the revision of the
// whole list.
func (i *initialEvents[T]) take(kind watch.EventType, object T) error {
	switch {
	case kind == watch.Added:
		i.Item(object)
		i.timer.Reset(i.wait)
	case kind != watch.Bookmark:
		return fmt.Errorf("%s among the initial events", kind)
	case object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true":
		i.pending = false
		i.timer.Stop()
		i.End(object.GetResourceVersion())
	}
	// Any other bookmark is no progress: a server that does not support initial events sends one a
	// minute as long as the watch lasts.
	return nil
}

// refusesInitialEvents reports whether a list may succeed where a watch with initial events failed.
func refusesInitialEvents(err error) bool {
	return errors.Is(err, errInitialEvents) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}
