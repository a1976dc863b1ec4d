package apiserver

import (
	"bytes"
	"encoding/binary"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// watchWriter writes watch events: a line of JSON each, or a protobuf message
// behind its length in four bytes. The first failure to write ends everything.
type watchWriter struct {
	q       *request
	codec   *codec
	include metav1.IncludeObjectPolicy
	control *http.ResponseController
	buffer  bytes.Buffer
	headed  bool // the table's columns have been sent
	err     error
}

// begin sends the headers, so that the client knows that the watch stands.
func (w *watchWriter) begin() {
	media := w.q.out.media
	if media == mediaProto {
		media += ";stream=watch"
	}
	w.q.w.Header().Set("Content-Type", media)
	w.q.w.WriteHeader(http.StatusOK)
}

// watchBuffer bounds what is buffered of many events that come at once.
const watchBuffer = 256 << 10

// send buffers an event until flush.
func (w *watchWriter) send(kind watch.EventType, obj runtime.Object) {
	if w.err != nil {
		return
	}
	shaped, err := w.shape(kind, obj)
	var data []byte
	if err == nil {
		data, err = w.codec.encode(w.q.out.media, shaped)
	}
	if err == nil {
		err = w.frame(kind, data)
	}
	if w.err = err; err == nil && w.buffer.Len() >= watchBuffer {
		w.flush()
	}
}

func (w *watchWriter) frame(kind watch.EventType, data []byte) error {
	if w.q.out.media != mediaProto {
		w.buffer.WriteString(`{"type":"` + string(kind) + `","object":`)
		w.buffer.Write(bytes.TrimRight(data, "\n"))
		w.buffer.WriteString("}\n")
		return nil
	}
	event := metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: data}}
	message, err := event.Marshal()
	if err != nil {
		return err
	}
	var length [4]byte
	binary.BigEndian.PutUint32(length[:], uint32(len(message)))
	w.buffer.Write(length[:])
	w.buffer.Write(message)
	return nil
}

// shape turns an object into what the client asked for. Columns are sent with
// the first table only.
func (w *watchWriter) shape(kind watch.EventType, obj runtime.Object) (runtime.Object, error) {
	if kind == watch.Error {
		return obj, nil
	}
	switch w.q.out.shape {
	case asPartial:
		return partial(obj), nil
	case asTable:
		revision, err := parseRevision(accessor(obj).GetResourceVersion())
		if err != nil {
			return nil, err
		}
		t := w.q.kind.rows(&listing{objects: []runtime.Object{obj}, revision: revision}, w.include)
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
	if w.err != nil {
		return w.err
	}
	// Deadlines are not supported by the in-memory transport, whose writes end
	// with the client's context.
	if w.control.SetWriteDeadline(time.Now().Add(writeTimeout)) == nil {
		defer w.control.SetWriteDeadline(time.Time{})
	}
	if w.buffer.Len() > 0 {
		_, w.err = w.q.w.Write(w.buffer.Bytes())
		w.buffer.Reset()
	}
	if w.err == nil {
		w.err = w.control.Flush()
	}
	return w.err
}
