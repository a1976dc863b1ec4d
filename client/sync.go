package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// Sink receives the state of a resource and then its changes, all from one goroutine. It is an
// alias of an interface literal, so a type with these methods needs no import.
type Sink[T any] = interface {
	// Replace reports that exactly these objects exist as of revision.
	Replace(revision string, objects []T)
	// Put reports that object was created or changed at revision.
	Put(revision string, object T)
	// Remove reports that object, in its last known state, was deleted at revision.
	Remove(revision string, object T)
	// Bookmark reports that everything up to revision has been sent.
	Bookmark(revision string)
}

// Selection is the part of a resource to follow.
type Selection[T Object] struct {
	resource  Resource[T]
	namespace string
	options   metav1.ListOptions
	// initialWait limits the wait for the next object among the initial events of a watch. If it is
	// zero, Sync lists instead of requesting initial events.
	initialWait time.Duration
}

// Where restricts what Sync follows to a namespace, a label selector and a field selector. An empty
// string means no restriction.
func (r Resource[T]) Where(namespace, labelSelector, fieldSelector string) Selection[T] {
	return Selection[T]{resource: r, namespace: namespace, options: metav1.ListOptions{LabelSelector: labelSelector, FieldSelector: fieldSelector}}
}

// WithInitialEvents makes Sync begin with a watch that first sends the existing objects, instead of
// a list, so that neither side ever holds a whole list
// (https://kubernetes.io/docs/reference/using-api/api-concepts/#streaming-lists). If the server
// refuses that, or sends neither an object nor the end of the initial events for wait, Sync lists.
// If wait is zero or less, Sync lists from the start.
func (s Selection[T]) WithInitialEvents(wait time.Duration) Selection[T] {
	s.initialWait = wait
	return s
}

// Sync follows all objects of the resource. See [Selection.Sync].
func (r Resource[T]) Sync(ctx context.Context, from string, sink Sink[T]) error {
	return r.Where("", "", "").Sync(ctx, from, sink)
}

const (
	// pageSize is the number of objects in one page of a list, as in client-go.
	pageSize = 500
	// watchSeconds is the least requested duration of a watch. The actual one is random, up to
	// twice as long, so that watches do not all end at once.
	watchSeconds = 300
	// shortWatch is the duration below which a watch without events counts as a failure.
	shortWatch = time.Second
)

// Sync brings sink up to date and keeps it so. It lists in pages, then watches, with bookmarks,
// from the list's revision. With from set it watches from that revision and lists only if the
// server no longer remembers it. When the server ends a watch normally, Sync resumes it in the same
// way.
//
// A sink that also has the methods Begin(), Item(T) and End(revision string) receives a list in
// pieces through these instead of through Replace, and Begin again if the list has to start over.
// If it also has Unchanged(key, revision string) bool, Sync calls that for each item in protobuf,
// with namespace/name or name as the key, and does not decode an object that the sink already has.
//
// Sync returns when ctx is done or the connection breaks, and always returns an error. Another call
// with the last revision that the sink received continues without a gap. A server that has not
// reached from also answers with an error: the sink's state is newer than anything this server
// could send.
func (s Selection[T]) Sync(ctx context.Context, from string, sink Sink[T]) error {
	stream := s.initialWait > 0
	for {
		fresh := from == ""
		if fresh && !stream {
			if err := s.list(ctx, &from, sink); err != nil {
				return err
			}
		}
		began, before := time.Now(), from
		err := s.watch(ctx, &from, sink)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case fresh && stream && from == "":
			stream = false
			if err != nil && !refusesInitialEvents(err) {
				return fmt.Errorf("watch %s: %w", s.resource.kind.Plural, err)
			}
		case expired(err) && !(fresh && from == before):
			from = ""
		case err != nil:
			return fmt.Errorf("watch %s: %w", s.resource.kind.Plural, err)
		case from == before && time.Since(began) < shortWatch:
			return fmt.Errorf("watch %s: the server ended it at once", s.resource.kind.Plural)
		}
	}
}

// list passes all objects to sink, in pages.
func (s Selection[T]) list(ctx context.Context, from *string, sink Sink[T]) error {
	o := s.options
	o.Limit = pageSize
	pieces := inPieces(sink)
	revision, err := s.resource.list(ctx, s.namespace, o, known(sink), pieces.Begin, func(objects []T) {
		for i, object := range objects {
			pieces.Item(object)
			objects[i] = *new(T) // so that an object that sink has replaced can be collected
		}
	})
	if err != nil {
		return err
	}
	pieces.End(revision)
	*from = revision
	return nil
}

// expired reports whether err says that the server no longer remembers the revision.
func expired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

// watch passes the changes after *from to sink and advances *from. If *from is empty, it passes the
// existing objects first. It returns nil when the server ended the watch.
func (s Selection[T]) watch(ctx context.Context, from *string, sink Sink[T]) error {
	initial := newInitialEvents(sink, *from == "")
	ctx, stop := initial.bound(ctx, s.initialWait)
	defer stop()
	body, contentType, err := s.open(ctx, *from)
	if err != nil {
		return initial.explain(ctx, err)
	}
	defer body.Close()
	next, err := events(contentType, body)
	if err != nil {
		return err
	}
	if initial.pending {
		initial.Begin()
	}
	for {
		e, err := next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return initial.explain(ctx, err)
		}
		object, err := s.read(contentType, e)
		if err != nil {
			return err
		}
		if initial.pending {
			err = initial.take(e.kind, object)
		} else {
			err = deliver(e.kind, object, sink)
		}
		if err != nil {
			return err
		}
		if !initial.pending {
			*from = object.GetResourceVersion()
		}
	}
}

func (s Selection[T]) open(ctx context.Context, from string) (io.ReadCloser, string, error) {
	at, err := s.resource.path(s.namespace, "")
	if err != nil {
		return nil, "", err
	}
	o := s.options
	o.Watch, o.AllowWatchBookmarks, o.ResourceVersion = true, true, from
	if from == "" {
		o.SendInitialEvents, o.ResourceVersionMatch = new(true), metav1.ResourceVersionMatchNotOlderThan
	}
	seconds := watchSeconds + rand.Int64N(watchSeconds)
	o.TimeoutSeconds = &seconds
	q := Request{Path: at, Query: query(o), Accept: s.resource.accept(s.resource.protobuf(), false)}
	body, contentType, err := s.resource.client.Stream(ctx, q)
	if plain := s.resource.accept(false, false); q.Accept != plain && wantsJSON(err) {
		q.Accept = plain
		return s.resource.client.Stream(ctx, q)
	}
	return body, contentType, err
}

// read returns the object of an event, or the error that the event carries.
func (s Selection[T]) read(contentType string, e event) (T, error) {
	var none T
	if e.kind == watch.Error {
		return none, failure(contentType, e.object)
	}
	object := s.resource.kind.New()
	if err := decode(contentType, e.object, s.resource.typeMeta(), s.resource.unmarshal, object); err != nil {
		return none, err
	}
	return object, nil
}

func deliver[T Object](kind watch.EventType, object T, sink Sink[T]) error {
	revision := object.GetResourceVersion()
	switch kind {
	case watch.Added, watch.Modified:
		sink.Put(revision, object)
	case watch.Deleted:
		sink.Remove(revision, object)
	case watch.Bookmark:
		sink.Bookmark(revision)
	default:
		return fmt.Errorf("unknown event type %q", kind)
	}
	return nil
}
