package apiserver

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/planekit/planekit/storage"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Watches end by themselves after half an hour to an hour, so that clients
// spread over servers anew, and send a bookmark every minute to those who allow
// it. Both are kube-apiserver's figures. A client that takes no bytes for
// writeTimeout is cut off; nobody else waits for it.
const (
	minWatch      = 30 * time.Minute
	bookmarkEvery = time.Minute
	writeTimeout  = 30 * time.Second
)

// watcher is one watch being served, by one goroutine.
type watcher struct {
	server    *Server
	q         *request
	selected  *selection
	out       *watchWriter
	bookmarks bool
	// seen is the revision up to which everything has been delivered, told the
	// one up to which the client knows it.
	seen, told storage.Revision
}

func (s *Server) watch(q *request) error {
	var o metav1.ListOptions
	if err := decodeQuery(q.r.URL.Query(), &o); err != nil {
		return err
	}
	selected, err := newSelection(q.kind, q.info.Namespace, o.LabelSelector, o.FieldSelector)
	if err != nil {
		return err
	}
	from, err := watchStart(&o)
	if err != nil {
		return err
	}
	include, err := includeObject(q)
	if err != nil {
		return err
	}
	timeout := minWatch + rand.N(minWatch)
	if o.TimeoutSeconds != nil && *o.TimeoutSeconds > 0 {
		timeout = time.Duration(*o.TimeoutSeconds) * time.Second
	}
	ctx, cancel := context.WithTimeout(q.r.Context(), timeout)
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)()
	if hook := s.config.Hooks.Watching; hook != nil {
		hook(q.kind.gvr, 1)
		defer hook(q.kind.gvr, -1)
	}
	w := &watcher{server: s, q: q, selected: selected, bookmarks: o.AllowWatchBookmarks}
	w.out = &watchWriter{q: q, codec: s.codec, include: include, control: http.NewResponseController(q.w)}
	return w.run(ctx, from)
}

// watchFrom is where a watch begins.
type watchFrom struct {
	after   storage.Revision
	initial bool // begin with the objects there are
	mark    bool // and say by a bookmark that they have been sent
}

// watchStart implements the table of
// https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-watch.
func watchStart(o *metav1.ListOptions) (watchFrom, error) {
	revision, err := parseRevision(o.ResourceVersion)
	if err != nil {
		return watchFrom{}, err
	}
	if o.SendInitialEvents == nil {
		if o.ResourceVersionMatch != "" {
			return watchFrom{}, badRequest("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
		}
		return watchFrom{after: revision, initial: revision == 0}, nil
	}
	if o.ResourceVersionMatch != metav1.ResourceVersionMatchNotOlderThan {
		return watchFrom{}, badRequest("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
	}
	if *o.SendInitialEvents {
		return watchFrom{after: revision, initial: true, mark: o.AllowWatchBookmarks}, nil
	}
	return watchFrom{after: revision}, nil
}

// run sends the initial objects, if any, and then every change. Failures before
// the first byte are answered as errors, later ones as ERROR events.
func (w *watcher) run(ctx context.Context, from watchFrom) error {
	store := w.server.config.Store
	var first *listing
	if from.initial {
		if err := w.server.await(ctx, w.q.kind, from.after); err != nil {
			return err
		}
		var err error
		if first, err = w.server.find(ctx, w.selected, &metav1.ListOptions{}); err != nil {
			return err
		}
		from.after = first.revision
	}
	source, err := store.Watch(ctx, w.selected.prefix, from.after)
	if err != nil {
		return err
	}
	defer source.Close()
	w.seen, w.told = from.after, from.after
	w.out.begin()
	if first != nil {
		for _, obj := range first.objects {
			w.out.send(watch.Added, obj)
		}
		if from.mark {
			w.out.send(watch.Bookmark, w.bookmark(true))
		}
	}
	if err := w.out.flush(); err != nil {
		return nil
	}
	w.follow(ctx, source)
	return nil
}

// follow passes changes on until the client, the time or the server ends it.
func (w *watcher) follow(ctx context.Context, source storage.Watcher) {
	next := time.Now().Add(bookmarkEvery)
	for {
		wait, cancel := context.WithDeadline(ctx, next)
		events, err := source.Next(wait)
		cancel()
		for _, event := range events {
			w.pass(event)
		}
		switch {
		case err == nil:
		case ctx.Err() != nil:
			w.sendBookmark() // so that the client's next watch resumes from here
			w.out.flush()
			return
		case errors.Is(err, context.DeadlineExceeded):
			w.sendBookmark()
			next = time.Now().Add(bookmarkEvery)
		default:
			status := toStatus(err)
			w.out.send(watch.Error, &status)
			w.out.flush()
			return
		}
		if w.out.flush() != nil {
			return
		}
	}
}

// pass sends what an event means for the selection: an object that enters it
// is ADDED, one that leaves it DELETED.
func (w *watcher) pass(event storage.Event) {
	w.seen = event.Revision
	if event.Type == storage.Progress {
		return
	}
	var obj, old runtime.Object
	var err error
	if event.Type != storage.Deleted {
		obj, err = w.selected.kind.decode(event.Record)
	}
	if err == nil && (event.Type == storage.Deleted || event.Type == storage.Updated && !w.selected.all()) {
		old, err = w.selected.kind.decode(event.Previous)
	}
	if err != nil {
		w.server.config.Log.Error(err, "change left out of watch", "key", string(event.Record.Key))
		return
	}
	is := obj != nil && w.selected.matches(obj)
	was := old != nil && w.selected.matches(old) || event.Type == storage.Updated && w.selected.all()
	switch {
	case is && was:
		w.deliver(watch.Modified, obj)
	case is:
		w.deliver(watch.Added, obj)
	case was:
		// The object as it was, at the revision of what happened to it.
		last := old.DeepCopyObject()
		accessor(last).SetResourceVersion(formatRevision(event.Revision))
		w.deliver(watch.Deleted, last)
	}
	if event.Type == storage.Deleted {
		w.selected.kind.cache.drop(event.Record.Key)
	}
}

func (w *watcher) deliver(kind watch.EventType, obj runtime.Object) {
	w.out.send(kind, obj)
	w.told = w.seen
}

func (w *watcher) sendBookmark() {
	if w.bookmarks && w.seen > w.told {
		w.out.send(watch.Bookmark, w.bookmark(false))
	}
}

// bookmark is an object with nothing but a revision, marked where it ends the
// initial objects.
func (w *watcher) bookmark(initial bool) runtime.Object {
	obj := w.q.kind.New()
	obj.GetObjectKind().SetGroupVersionKind(w.q.kind.gvk)
	m := accessor(obj)
	m.SetResourceVersion(formatRevision(w.seen))
	if initial {
		m.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	w.told = w.seen
	return obj
}
