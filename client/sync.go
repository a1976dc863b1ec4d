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

// Sink receives the state of a resource and then its changes, all from one
// goroutine. It is an alias of the literal, so any type with these methods on
// any side will do.
type Sink[T any] = interface {
	// Replace says: as of revision, these objects exist and no others.
	Replace(revision string, objects []T)
	// Put says that object was created or changed at revision.
	Put(revision string, object T)
	// Remove says that object, in its last known state, was deleted at revision.
	Remove(revision string, object T)
	// Bookmark says that everything up to revision has been sent.
	Bookmark(revision string)
}

// Selection is a part of a resource to follow.
type Selection[T Object] struct {
	resource  Resource[T]
	namespace string
	options   metav1.ListOptions
}

// Where narrows what Sync follows to a namespace and to label and field
// selectors. Empty strings narrow nothing.
func (r Resource[T]) Where(namespace, labelSelector, fieldSelector string) Selection[T] {
	return Selection[T]{r, namespace, metav1.ListOptions{LabelSelector: labelSelector, FieldSelector: fieldSelector}}
}

// Sync follows all objects of the resource. See [Selection.Sync].
func (r Resource[T]) Sync(ctx context.Context, from string, sink Sink[T]) error {
	return r.Where("", "", "").Sync(ctx, from, sink)
}

const (
	// pageSize is how many objects are listed at once, as client-go does.
	pageSize = 500
	// watchSeconds is for how long a watch is asked, at least; up to twice as
	// long at random, so that not all come back at once.
	watchSeconds = 300
	// shortWatch is the life below which a watch that brought nothing counts as
	// a failure.
	shortWatch = time.Second
)

// Sync brings sink up to date and keeps it so: it lists in pages, then
// watches, with bookmarks, from the list's revision. With from set it watches
// from there and lists only if the server no longer remembers that revision;
// the same goes for later. A watch that the server ends in peace is resumed.
//
// It returns when ctx is done or the connection breaks, and always with an
// error. Calling it again with the last revision the sink was given goes on
// without a gap.
func (s Selection[T]) Sync(ctx context.Context, from string, sink Sink[T]) error {
	for {
		fresh := from == ""
		if fresh {
			o := s.options
			o.Limit = pageSize
			objects, revision, err := s.resource.List(ctx, s.namespace, o)
			if err != nil {
				return err
			}
			sink.Replace(revision, objects)
			from = revision
		}
		began, before := time.Now(), from
		err := s.watch(ctx, &from, sink)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case expired(err) && !(fresh && from == before):
			from = ""
		case err != nil:
			return fmt.Errorf("watch %s: %w", s.resource.t.Plural, err)
		case from == before && time.Since(began) < shortWatch:
			return fmt.Errorf("watch %s: the server ended it at once", s.resource.t.Plural)
		}
	}
}

// expired reports that the server no longer remembers the revision.
func expired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

// watch hands the changes after *from to sink and moves *from along. It
// returns nil when the server ended the watch.
func (s Selection[T]) watch(ctx context.Context, from *string, sink Sink[T]) error {
	body, contentType, err := s.open(ctx, *from)
	if err != nil {
		return err
	}
	defer body.Close()
	next, err := events(contentType, body)
	if err != nil {
		return err
	}
	for {
		e, err := next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.deliver(contentType, e, from, sink); err != nil {
			return err
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
	seconds := watchSeconds + rand.Int64N(watchSeconds)
	o.TimeoutSeconds = &seconds
	q := Request{Path: at, Query: query(o), Accept: accept(s.resource.protobuf())}
	body, contentType, err := s.resource.client.Stream(ctx, q)
	if q.Accept != JSON && wantsJSON(err) {
		q.Accept = JSON
		return s.resource.client.Stream(ctx, q)
	}
	return body, contentType, err
}

func (s Selection[T]) deliver(contentType string, e event, from *string, sink Sink[T]) error {
	if e.kind == watch.Error {
		return failure(contentType, e.object)
	}
	object := s.resource.t.New()
	if err := decode(contentType, e.object, s.resource.kind(), object); err != nil {
		return err
	}
	revision := object.GetResourceVersion()
	switch e.kind {
	case watch.Added, watch.Modified:
		sink.Put(revision, object)
	case watch.Deleted:
		sink.Remove(revision, object)
	case watch.Bookmark:
		sink.Bookmark(revision)
	default:
		return fmt.Errorf("unknown event type %q", e.kind)
	}
	*from = revision
	return nil
}
