package apiserver

import (
	"bytes"
	"net/http"
	"os"
	"time"

	"github.com/planekit/planekit/apiserver/internal/wire"
	"github.com/planekit/planekit/storage/cache"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// watchWriter writes watch events: a line of JSON each, or a protobuf message
// behind its length in four bytes. The first failure to write ends everything.
type watchWriter struct {
	q       *request
	codec   *wire.Codec
	include metav1.IncludeObjectPolicy
	control *http.ResponseController
	buffer  bytes.Buffer
	headed  bool // the table's columns have been sent
	begun   bool // the headers are to be sent
	timer   *time.Timer
	fired   chan struct{} // closed by the timer
	err     error
}

// begin sends the headers, so that the client knows that the watch stands.
func (w *watchWriter) begin() {
	media := w.q.out.Media
	if media == wire.Proto {
		media += ";stream=watch"
	}
	w.q.w.Header().Set("Content-Type", media)
	w.q.w.WriteHeader(http.StatusOK)
	w.begun = true
}

// watchBuffer bounds what is buffered of many events that come at once.
const watchBuffer = 64 << 10

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
	w.add(frame, err)
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
	w.add(w.q.kind.event(w.q.out.Media, watch.Added, i))
}

// send buffers an event that only this watch sends.
func (w *watchWriter) send(what watch.EventType, obj runtime.Object) { w.sendItem(what, asItem(obj)) }

func (w *watchWriter) sendItem(what watch.EventType, i *item) { w.add(w.encode(what, i)) }

// add buffers bytes until flush.
func (w *watchWriter) add(frame []byte, err error) {
	if w.err != nil {
		return
	}
	if w.err = err; err != nil {
		return
	}
	w.buffer.Write(frame)
	if w.buffer.Len() >= watchBuffer {
		w.flush()
	}
}

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
		return protoEvent(what, data)
	}
	return jsonEvent(what, bytes.TrimRight(data, "\n")), nil
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

// flush sends what is buffered. It fails once the client is gone or too slow.
func (w *watchWriter) flush() error {
	if w.err != nil || w.buffer.Len() == 0 && !w.begun {
		return w.err
	}
	w.begun = false
	w.arm()
	if w.buffer.Len() > 0 {
		_, w.err = w.q.w.Write(w.buffer.Bytes())
		w.buffer.Reset()
	}
	if w.err == nil {
		w.err = w.control.Flush()
	}
	if !w.disarm() {
		w.err = os.ErrDeadlineExceeded
	}
	return w.err
}

// arm has the connection cut unless disarm is called in time. A timer of our own
// does it, since over HTTP/2 setting a deadline is a message to another goroutine,
// and this happens for every event and watcher.
func (w *watchWriter) arm() {
	if w.timer == nil {
		w.fired = make(chan struct{})
		w.timer = time.AfterFunc(writeTimeout, w.cut)
		return
	}
	w.timer.Reset(writeTimeout)
}

// cut ends a write that is under way by a deadline in the past. The in-memory
// transport has none: its writes end with the client's context.
func (w *watchWriter) cut() {
	defer close(w.fired)
	_ = w.control.SetWriteDeadline(time.Unix(1, 0))
}

// disarm reports whether it was in time. If not, cut is over when it returns.
func (w *watchWriter) disarm() bool {
	if w.timer.Stop() {
		return true
	}
	<-w.fired
	return false
}
