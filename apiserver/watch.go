package apiserver

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/planekit/planekit/apiserver/internal/envelope"
	"github.com/planekit/planekit/apiserver/internal/eventstream"
	"github.com/planekit/planekit/apiserver/internal/requestline"
	"github.com/planekit/planekit/apiserver/internal/socket"
	"github.com/planekit/planekit/apiserver/internal/wire"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/cache"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Watches end by themselves after half an hour to an hour, so that clients
// spread over servers again, and send a bookmark every minute to clients that allow
// it. Both are kube-apiserver's figures. A client that takes no bytes for
// writeTimeout is cut off; no other client waits for it.
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
	if err := requestline.Options(q.r.URL.Query(), &o); err != nil {
		return err
	}
	if err := q.selectNamed(&o); err != nil {
		return err
	}
	selected, err := newSelection(q.kind, q.info.Namespace, o.LabelSelector, o.FieldSelector)
	if err != nil {
		return err
	}
	selected.hidden = q.includesHidden()
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
	if q.kind.life != nil {
		defer context.AfterFunc(q.kind.life.ended, cancel)()
	}
	q.kind.watchers.Add(1)
	defer q.kind.watchers.Add(-1)
	if hook := s.config.Hooks.Watching; hook != nil {
		hook(q.kind.gvr, 1)
		defer hook(q.kind.gvr, -1)
	}
	w := &watcher{server: s, q: q, selected: selected, bookmarks: o.AllowWatchBookmarks}
	w.out = &watchWriter{q: q, codec: s.codec, include: include}
	if socket.Requested(q.r) {
		messages := &socketEvents{q: q, ended: cancel}
		defer messages.close()
		w.out.stream = messages
	} else {
		w.out.stream = eventstream.New(q.w, writeTimeout)
	}
	return w.run(ctx, from)
}

// selectNamed makes the deprecated watch of one object one of its name.
func (q *request) selectNamed(o *metav1.ListOptions) error {
	if !q.info.OldWatch || q.info.Name == "" {
		return nil
	}
	if o.FieldSelector == "" {
		o.FieldSelector = "metadata.name=" + fields.EscapeValue(q.info.Name)
		return nil
	}
	asked, err := fields.ParseSelector(o.FieldSelector)
	if err != nil {
		return badRequest("%v", err)
	}
	if name, ok := asked.RequiresExactMatch("metadata.name"); !ok || name != q.info.Name {
		return badRequest("fieldSelector metadata.name doesn't match requested name")
	}
	return nil
}

// watchFrom is where a watch begins.
type watchFrom struct {
	version string           // the resourceVersion asked for
	after   storage.Revision // which it is
	initial bool             // begin with the objects there are
	mark    bool             // and say by a bookmark that they have been sent
}

// watchStart implements the table of
// https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-watch.
func watchStart(o *metav1.ListOptions) (watchFrom, error) {
	revision, err := parseRevision(o.ResourceVersion)
	from := watchFrom{version: o.ResourceVersion, after: revision}
	if err != nil {
		return from, err
	}
	if o.SendInitialEvents == nil {
		if o.ResourceVersionMatch != "" {
			return from, badRequest("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
		}
		from.initial = revision == 0
		return from, nil
	}
	if o.ResourceVersionMatch != metav1.ResourceVersionMatchNotOlderThan {
		return from, badRequest("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
	}
	if *o.SendInitialEvents {
		from.initial, from.mark = true, o.AllowWatchBookmarks
	}
	return from, nil
}

// run sends the initial objects, if any, and then every change. Failures before
// the first byte are answered as errors, later ones as ERROR events.
func (w *watcher) run(ctx context.Context, from watchFrom) error {
	var first *listing
	if from.initial {
		var err error
		if first, err = w.server.reader.find(ctx, w.selected, &metav1.ListOptions{ResourceVersion: from.version}); err != nil {
			return err
		}
		from.after = first.revision
	}
	source, err := w.selected.kind.cache.Watch(ctx, from.after)
	if err != nil {
		return err
	}
	defer source.Close()
	if field, value, ok := w.selected.field(); ok {
		source.Narrow(field, value)
	}
	w.seen = source.Seen()
	w.told = w.seen
	media := w.q.out.Media
	switch media {
	case wire.Proto:
		media += ";stream=watch"
	case wire.CBOR:
		media = wire.CBORWatch
	}
	w.out.stream.Begin(media)
	if first != nil {
		for _, i := range first.items {
			w.out.initial(i)
		}
		if from.mark {
			w.out.send(watch.Bookmark, w.bookmark(true))
		}
	}
	if err := w.out.stream.Flush(); err != nil {
		return nil
	}
	w.q.call.leave()
	w.follow(ctx, source)
	return nil
}

// follow passes changes on until the client, the time or the server ends it.
func (w *watcher) follow(ctx context.Context, source *cache.Watch[*object]) {
	for w.untilBookmark(ctx, source) {
	}
}

// untilBookmark passes changes on until it is time for a bookmark. It reports
// whether the watch goes on.
func (w *watcher) untilBookmark(ctx context.Context, source *cache.Watch[*object]) bool {
	wait, cancel := context.WithTimeout(ctx, bookmarkEvery)
	defer cancel()
	for {
		events, err := source.Next(wait)
		shown, failed := w.shownEvents(ctx, events)
		if failed != nil {
			return w.fail(failed)
		}
		for _, event := range shown {
			w.pass(event)
		}
		w.seen = source.Seen()
		switch {
		case err == nil:
			if w.out.stream.Flush() != nil {
				return false
			}
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			w.sendBookmark()
			return w.out.stream.Flush() == nil
		case ctx.Err() != nil:
			w.sendBookmark() // so that the client's next watch resumes from here
			w.out.stream.Flush()
			return false
		default:
			return w.fail(err)
		}
	}
}

// fail ends the watch with an ERROR event.
func (w *watcher) fail(err error) bool {
	status := toStatus(err)
	w.out.send(watch.Error, &status)
	w.out.stream.Flush()
	return false
}

// pass sends what an event means for the selection: an object that enters it
// is ADDED, one that leaves it DELETED.
func (w *watcher) pass(event shownEvent) {
	if !w.selected.covers(event.Key()) {
		return
	}
	is, was := w.selected.has(event.item), w.selected.has(event.previous)
	if broken := brokenIn(event); broken != nil {
		w.server.config.Log.Error(broken, "change left out of watch", "key", string(event.Key()))
		return
	}
	w.seen = event.Revision
	switch {
	case is && was:
		w.out.change(watch.Modified, event)
	case is:
		w.out.change(watch.Added, event)
	case was:
		w.out.change(watch.Deleted, event)
	default:
		return
	}
	w.told = w.seen
}

// brokenIn says why an event cannot be sent, if so.
func brokenIn(event shownEvent) error {
	if event.item != nil {
		return event.item.Err
	}
	return event.previous.Err
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

// watchWriter writes watch events: a line of JSON each, a protobuf message
// behind its length in four bytes, or a data item of CBOR.
type watchWriter struct {
	q       *request
	codec   *wire.Codec
	include metav1.IncludeObjectPolicy
	stream  events
	headed  bool // the table's columns have been sent
}

// events are sent to one client. The first failure ends everything.
type events interface {
	// Begin has the next Flush say that the stream stands.
	Begin(contentType string)
	// Add sends a frame with the next Flush, or earlier. If err is not nil, the stream ends with it instead.
	Add(frame []byte, err error)
	// Flush sends what is left. It fails once the client is gone or too slow.
	Flush() error
}

// change buffers an event that is the same for everybody who gets it in this
// form: it is encoded once. Tables are not, because of the ages in them.
func (w *watchWriter) change(what watch.EventType, event shownEvent) {
	if w.q.out.Shape == wire.Table {
		w.sendItem(what, changed(what, event))
		return
	}
	form := formOf(w.q.out, what)
	frame, err := event.Frame(form, func() ([]byte, error) {
		i := changed(what, event)
		if w.q.out.Shape == wire.Whole {
			return w.whole(what, i)
		}
		return w.encode(what, i)
	})
	w.stream.Add(frame, err)
}

// formOf numbers what the bytes of an event depend on beside the event.
func formOf(out wire.Output, what watch.EventType) int {
	form := 0
	switch what {
	case watch.Modified:
		form = 1
	case watch.Deleted:
		form = 2
	}
	switch out.Media {
	case wire.Proto:
		form += 4
	case wire.CBOR:
		form += 8
	}
	if out.Shape == wire.Metadata {
		form += 16
	}
	if out.Beta {
		form += 32
	}
	return form
}

// changed is the object that an event shows: one that is deleted, or leaves a
// selection, as it was, at the revision of what happened to it.
func changed(what watch.EventType, event shownEvent) *item {
	if what != watch.Deleted {
		return event.item
	}
	last := event.previous.Object.DeepCopyObject()
	accessor(last).SetResourceVersion(formatRevision(event.Revision))
	return asItemWith(last, event.previous.Object.hidden)
}

// initial buffers an object that was there before the watch.
func (w *watchWriter) initial(i *item) {
	if w.q.out.Shape != wire.Whole {
		w.sendItem(watch.Added, i)
		return
	}
	w.stream.Add(w.whole(watch.Added, i))
}

// whole returns an event with the whole object.
func (w *watchWriter) whole(what watch.EventType, i *item) ([]byte, error) {
	return w.inMedia(w.q.kind.event(w.q.out.Media, what, i))
}

// inMedia returns an event that is JSON, or protobuf for a client that wants that, in the client's media type.
func (w *watchWriter) inMedia(frame []byte, err error) ([]byte, error) {
	if err != nil || w.q.out.Media != wire.CBOR {
		return frame, err
	}
	return wire.JSONToCBOR(frame)
}

// send buffers an event that only this watch sends.
func (w *watchWriter) send(what watch.EventType, obj runtime.Object) { w.sendItem(what, asItem(obj)) }

func (w *watchWriter) sendItem(what watch.EventType, i *item) { w.stream.Add(w.encode(what, i)) }

func (w *watchWriter) encode(what watch.EventType, i *item) ([]byte, error) {
	shaped, err := w.shape(what, i)
	if err != nil {
		return nil, err
	}
	setOlder(w.q.out, shaped)
	media := w.q.out.Media
	if media == wire.CBOR {
		media = wire.JSON
	}
	data, err := w.codec.Encode(media, shaped)
	if err != nil {
		return nil, err
	}
	if media == wire.Proto {
		return envelope.ProtoEvent(what, data)
	}
	return w.inMedia(envelope.JSONEvent(what, bytes.TrimRight(data, "\n")), nil)
}

// shape turns an object into what the client asked for. Columns are sent with
// the first table only.
func (w *watchWriter) shape(kind watch.EventType, i *item) (runtime.Object, error) {
	obj := i.Object.Object
	if kind == watch.Error {
		return obj, nil
	}
	switch w.q.out.Shape {
	case wire.Metadata:
		if w.q.out.Media == wire.Proto {
			return partial(obj), nil
		}
		return shown(partial(obj), i.Object.hidden), nil
	case wire.Table:
		revision, err := parseRevision(accessor(obj).GetResourceVersion())
		if err != nil {
			return nil, err
		}
		t, err := w.q.kind.rows(w.q.r.Context(), &listing{items: []*item{i}, revision: revision}, w.include)
		if err != nil {
			return nil, err
		}
		if !w.headed {
			t.ColumnDefinitions = w.q.kind.definitions()
			w.headed = true
		}
		return t, nil
	}
	return obj, nil
}
