package apiserver

import (
	"bytes"

	"github.com/planekit/planekit/apiserver/internal/envelope"
	"github.com/planekit/planekit/apiserver/internal/eventstream"
	"github.com/planekit/planekit/apiserver/internal/wire"
	"github.com/planekit/planekit/storage/cache"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// watchWriter writes watch events: a line of JSON each, or a protobuf message
// behind its length in four bytes.
type watchWriter struct {
	q       *request
	codec   *wire.Codec
	include metav1.IncludeObjectPolicy
	stream  *eventstream.Writer
	headed  bool // the table's columns have been sent
}

// change buffers an event that is the same for everybody who gets it in this
// form: it is encoded once. Tables are not, because of the ages in them.
func (w *watchWriter) change(what watch.EventType, event *cache.Event[*object]) {
	if w.q.out.Shape == wire.Table {
		w.sendItem(what, changed(what, event))
		return
	}
	form := formOf(w.q.out, what)
	frame, err := event.Frame(form, func() ([]byte, error) {
		i := changed(what, event)
		if w.q.out.Shape == wire.Whole {
			return w.q.kind.event(w.q.out.Media, what, i)
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
	if out.Media == wire.Proto {
		form += 4
	}
	if out.Shape == wire.Metadata {
		form += 8
	}
	return form
}

// changed is the object that an event shows: one that is deleted, or leaves a
// selection, as it was, at the revision of what happened to it.
func changed(what watch.EventType, event *cache.Event[*object]) *item {
	if what != watch.Deleted {
		return event.Item
	}
	last := event.Previous.Object.DeepCopyObject()
	accessor(last).SetResourceVersion(formatRevision(event.Revision))
	return asItemWith(last, event.Previous.Object.hidden)
}

// initial buffers an object that was there before the watch.
func (w *watchWriter) initial(i *item) {
	if w.q.out.Shape != wire.Whole {
		w.sendItem(watch.Added, i)
		return
	}
	w.stream.Add(w.q.kind.event(w.q.out.Media, watch.Added, i))
}

// send buffers an event that only this watch sends.
func (w *watchWriter) send(what watch.EventType, obj runtime.Object) { w.sendItem(what, asItem(obj)) }

func (w *watchWriter) sendItem(what watch.EventType, i *item) { w.stream.Add(w.encode(what, i)) }

func (w *watchWriter) encode(what watch.EventType, i *item) ([]byte, error) {
	shaped, err := w.shape(what, i)
	if err != nil {
		return nil, err
	}
	data, err := w.codec.Encode(w.q.out.Media, shaped)
	if err != nil {
		return nil, err
	}
	if w.q.out.Media == wire.Proto {
		return envelope.ProtoEvent(what, data)
	}
	return envelope.JSONEvent(what, bytes.TrimRight(data, "\n")), nil
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
		t := w.q.kind.rows(&listing{items: []*item{i}, revision: revision}, w.include)
		if !w.headed {
			t.ColumnDefinitions = w.q.kind.definitions()
			w.headed = true
		}
		return t, nil
	}
	return obj, nil
}
