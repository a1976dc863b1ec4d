package apiserver

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"sync"

	"github.com/planekit/planekit/apiserver/internal/wire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// forms is how the objects of a kind look on the wire, so far as it is the same
// for all of them.
type forms struct {
	// jsonHead begins every object as JSON and is what items of a list lack.
	jsonHead, jsonListHead []byte
	// protoHead and protoListHead begin envelopes, up to the length of what is
	// inside.
	protoHead, protoListHead []byte

	jsonZipped, protoZipped zipped

	// lists says whether a list of the kind is its items one after another, as
	// those of all Kubernetes' types are. It is found out when first asked.
	lists func() map[string]bool
}

func (k *kind) addForms() {
	version := k.gvk.GroupVersion().String()
	k.forms.jsonHead, k.forms.jsonListHead = jsonHead(version, k.Kind), jsonHead(version, k.Kind+"List")
	k.forms.protoHead, k.forms.protoListHead = protoHead(version, k.Kind), protoHead(version, k.Kind+"List")
	k.forms.lists = sync.OnceValue(k.tryLists)
}

func jsonHead(version, kind string) []byte {
	return []byte(`{"kind":"` + kind + `","apiVersion":"` + version + `",`)
}

func protoHead(version, kind string) []byte {
	var meta []byte
	for i, text := range []string{version, kind} {
		meta = append(meta, byte(i+1)<<3|2)
		meta = binary.AppendUvarint(meta, uint64(len(text)))
		meta = append(meta, text...)
	}
	head := append(bytes.Clone(wire.ProtoMagic), tagTypeMeta)
	head = binary.AppendUvarint(head, uint64(len(meta)))
	return append(append(head, meta...), tagRaw)
}

// tryLists compares a list made of items with one made by the codec.
func (k *kind) tryLists() map[string]bool {
	equal := map[string]bool{}
	media := []string{wire.JSON}
	if k.proto {
		media = append(media, wire.Proto)
	}
	for _, m := range media {
		sample := &listing{revision: 12}
		for _, name := range []string{"a", "b"} {
			obj := k.New()
			obj.GetObjectKind().SetGroupVersionKind(k.gvk)
			accessor(obj).SetName(name)
			sample.items = append(sample.items, asItem(obj))
		}
		var made bytes.Buffer
		if body, err := k.listBody(m, sample); err == nil {
			body.writeTo(&made)
		}
		list, err := k.listObject(sample)
		if err != nil {
			continue
		}
		want, err := k.codec.Encode(m, list)
		equal[m] = err == nil && bytes.Equal(made.Bytes(), want)
	}
	return equal
}

// body is a response made of pieces, whose whole length is known.
type body struct {
	head, tail []byte
	items      []*item
	separator  []byte // between items
	size       int
	// next appends the i-th item.
	next func(to []byte, i int) []byte
	// zipped keeps what was compressed; nil where it is of no use again.
	zipped *zipped
}

// chunk bounds what is written at once.
const chunk = 64 << 10

var chunks = sync.Pool{New: func() any { return new(make([]byte, 0, chunk+chunk/4)) }}

// writeTo writes the body in chunks. It stops at the first failure.
func (b *body) writeTo(w interface{ Write([]byte) (int, error) }) {
	pooled := chunks.Get().(*[]byte)
	buffer := append((*pooled)[:0], b.head...)
	defer func() {
		*pooled = buffer
		chunks.Put(pooled)
	}()
	for i := range b.items {
		if i > 0 {
			buffer = append(buffer, b.separator...)
		}
		buffer = b.next(buffer, i)
		if len(buffer) >= chunk {
			if _, err := w.Write(buffer); err != nil {
				return
			}
			buffer = buffer[:0]
		}
	}
	buffer = append(buffer, b.tail...)
	w.Write(buffer)
}

// listBody puts a list together from what is kept of its items.
func (k *kind) listBody(media string, l *listing) (*body, error) {
	if media == wire.Proto {
		return k.protoList(l)
	}
	return k.jsonList(l)
}

// meta is the metadata of the list.
func (l *listing) meta() *metav1.ListMeta {
	return &metav1.ListMeta{ResourceVersion: formatRevision(l.revision), Continue: l.next, RemainingItemCount: l.remaining}
}

func (k *kind) jsonList(l *listing) (*body, error) {
	head, err := json.Marshal(l.meta())
	if err != nil {
		return nil, err
	}
	items := l.items
	b := &body{items: items, separator: []byte{','}, tail: []byte("]}\n"), zipped: &k.forms.jsonZipped}
	b.head = append(append(append([]byte(nil), k.forms.jsonListHead...), `"metadata":`...), head...)
	b.head = append(b.head, `,"items":[`...)
	b.size = len(b.head) + len(b.tail) + max(len(items)-1, 0)
	for _, i := range items {
		data, err := k.jsonOf(i)
		if err != nil {
			return nil, err
		}
		b.size += len(data)
		if bytes.HasPrefix(data, k.forms.jsonHead) {
			b.size -= len(k.forms.jsonHead) - 1
		}
	}
	b.next = func(to []byte, i int) []byte {
		data := *items[i].Object.json.Load()
		if rest, ok := bytes.CutPrefix(data, k.forms.jsonHead); ok {
			return append(append(to, '{'), rest...)
		}
		return append(to, data...)
	}
	return b, nil
}

func (k *kind) protoList(l *listing) (*body, error) {
	size := 0
	for _, i := range l.items {
		if err := k.marshaled(i); err != nil {
			return nil, err
		}
		n := messageSize(i)
		size += 1 + uvarintSize(n) + n
	}
	b, err := protoBody(k.forms.protoListHead, l, size)
	if err != nil {
		return nil, err
	}
	b.zipped = &k.forms.protoZipped
	b.next = func(to []byte, i int) []byte {
		to = append(to, tagItems)
		to = binary.AppendUvarint(to, uint64(messageSize(l.items[i])))
		return appendMessage(to, l.items[i])
	}
	return b, nil
}

// protoBody is the body of a list whose items take size bytes, tags and lengths
// included, but for the function that appends them.
func protoBody(head []byte, l *listing, size int) (*body, error) {
	meta, err := l.meta().Marshal()
	if err != nil {
		return nil, err
	}
	size += 1 + uvarintSize(len(meta)) + len(meta)
	b := &body{items: l.items, tail: endOfUnknown}
	b.head = binary.AppendUvarint(append([]byte(nil), head...), uint64(size))
	b.size = len(b.head) + size + len(b.tail)
	b.head = append(b.head, tagMetadata)
	b.head = binary.AppendUvarint(b.head, uint64(len(meta)))
	b.head = append(b.head, meta...)
	return b, nil
}

// document returns one object as it is sent, complete.
func (k *kind) document(to []byte, media string, i *item) ([]byte, error) {
	if media != wire.Proto {
		data, err := k.jsonOf(i)
		return append(append(to, data...), '\n'), err
	}
	if err := k.marshaled(i); err != nil {
		return nil, err
	}
	to = append(to, k.forms.protoHead...)
	to = binary.AppendUvarint(to, uint64(messageSize(i)))
	return append(appendMessage(to, i), endOfUnknown...), nil
}

// event returns a watch event as it is sent: a line of JSON, or a protobuf
// message behind its length in four bytes.
func (k *kind) event(media string, what watch.EventType, i *item) ([]byte, error) {
	if media != wire.Proto {
		data, err := k.jsonOf(i)
		if err != nil {
			return nil, err
		}
		return jsonEvent(what, data), nil
	}
	data, err := k.document(nil, media, i)
	if err != nil {
		return nil, err
	}
	return protoEvent(what, data)
}

func jsonEvent(what watch.EventType, data []byte) []byte {
	frame := make([]byte, 0, len(`{"type":"","object":}`)+len(what)+len(data)+1)
	frame = append(append(append(frame, `{"type":"`...), what...), `","object":`...)
	return append(append(frame, data...), '}', '\n')
}

func protoEvent(what watch.EventType, data []byte) ([]byte, error) {
	// WatchEvent is {type = 1, object = 2}, RawExtension {raw = 1}.
	object := 1 + uvarintSize(len(data)) + len(data)
	size := 2 + len(what) + 1 + uvarintSize(object) + object
	frame := binary.BigEndian.AppendUint32(make([]byte, 0, 4+size), uint32(size))
	frame = append(append(frame, 1<<3|2, byte(len(what))), what...)
	frame = binary.AppendUvarint(append(frame, 2<<3|2), uint64(object))
	frame = binary.AppendUvarint(append(frame, 1<<3|2), uint64(len(data)))
	return append(frame, data...), nil
}
