package apiserver

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"reflect"
	"sync"

	"github.com/planekit/planekit/apiserver/internal/envelope"
	"github.com/planekit/planekit/apiserver/internal/pieces"
	"github.com/planekit/planekit/apiserver/internal/wire"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

	jsonPieces, protoPieces pieces.Cache

	// lists says whether a list of the kind is its items one after another, as
	// those of all Kubernetes' types are. It is found out when first asked.
	lists func() map[string]bool
}

func (k *servedKind) addForms() {
	version := k.gvk.GroupVersion().String()
	k.forms.jsonHead, k.forms.jsonListHead = envelope.JSONHead(version, k.Kind), envelope.JSONHead(version, k.ListKind)
	k.forms.protoHead, k.forms.protoListHead = envelope.ProtoHead(version, k.Kind), envelope.ProtoHead(version, k.ListKind)
	k.forms.lists = sync.OnceValue(k.tryLists)
}

// tryLists compares a list made of items with one made by the codec.
func (k *servedKind) tryLists() map[string]bool {
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
			body.Write(&made)
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

// listBody puts a list together from what is kept of its items.
func (k *servedKind) listBody(media string, l *listing) (*pieces.Body, error) {
	if media == wire.Proto {
		return k.protoList(l)
	}
	return k.jsonList(l)
}

// meta is the metadata of the list.
func (l *listing) meta() *metav1.ListMeta {
	return &metav1.ListMeta{ResourceVersion: formatRevision(l.revision), Continue: l.next, RemainingItemCount: l.remaining}
}

func (k *servedKind) jsonList(l *listing) (*pieces.Body, error) {
	head, err := json.Marshal(l.meta())
	if err != nil {
		return nil, err
	}
	items := l.items
	b := &pieces.Body{Items: l, Separator: []byte{','}, Tail: []byte("]}\n"), Cache: &k.forms.jsonPieces}
	b.Head = append(append(append([]byte(nil), k.forms.jsonListHead...), `"metadata":`...), head...)
	b.Head = append(b.Head, `,"items":[`...)
	b.Size = len(b.Head) + len(b.Tail) + max(len(items)-1, 0)
	encoded := make([][]byte, len(items))
	for n, i := range items {
		data, err := k.jsonOf(i)
		if err != nil {
			return nil, err
		}
		if k.Packing != nil || i.Object.json.Load() != nil { // else it is large, and encoded again when it is written
			encoded[n] = data
		}
		b.Size += len(data)
		if bytes.HasPrefix(data, k.forms.jsonHead) {
			b.Size -= len(k.forms.jsonHead) - 1
		}
	}
	b.Next = func(to []byte, i int) []byte {
		data := encoded[i]
		if data == nil {
			data, _ = k.jsonOf(items[i]) // it could be encoded before
		}
		if rest, ok := bytes.CutPrefix(data, k.forms.jsonHead); ok {
			return append(append(to, '{'), rest...)
		}
		return append(to, data...)
	}
	return b, nil
}

func (k *servedKind) protoList(l *listing) (*pieces.Body, error) {
	size := 0
	for _, i := range l.items {
		if err := k.marshaled(i); err != nil {
			return nil, err
		}
		n := messageSize(i)
		size += 1 + envelope.UvarintSize(n) + n
	}
	b, err := protoBody(k.forms.protoListHead, l, size)
	if err != nil {
		return nil, err
	}
	b.Cache = &k.forms.protoPieces
	b.Next = func(to []byte, i int) []byte {
		to = append(to, envelope.TagItems)
		to = binary.AppendUvarint(to, uint64(messageSize(l.items[i])))
		return appendMessage(to, l.items[i])
	}
	return b, nil
}

// protoBody is the body of a list whose items take size bytes, tags and lengths
// included, but for the function that appends them.
func protoBody(head []byte, l *listing, size int) (*pieces.Body, error) {
	meta, err := l.meta().Marshal()
	if err != nil {
		return nil, err
	}
	size += 1 + envelope.UvarintSize(len(meta)) + len(meta)
	b := &pieces.Body{Items: l, Tail: envelope.End}
	b.Head = binary.AppendUvarint(append([]byte(nil), head...), uint64(size))
	b.Size = len(b.Head) + size + len(b.Tail)
	b.Head = append(b.Head, envelope.TagMetadata)
	b.Head = binary.AppendUvarint(b.Head, uint64(len(meta)))
	b.Head = append(b.Head, meta...)
	return b, nil
}

// listObject copies what was found into a list of the kind's own type. Items
// carry no kind of their own, as in Kubernetes, unless their type says nothing of it.
func (k *servedKind) listObject(l *listing) (runtime.Object, error) {
	list := k.NewList()
	list.GetObjectKind().SetGroupVersionKind(k.gvk.GroupVersion().WithKind(k.ListKind))
	if err := fillListMeta(list, l); err != nil {
		return nil, err
	}
	if len(l.items) > 0 {
		objects := make([]runtime.Object, len(l.items))
		for i := range l.items {
			objects[i] = l.items[i].Object.Object
		}
		if err := meta.SetList(list, objects); err != nil {
			return nil, err
		}
		if k.Schema != nil {
			return list, nil
		}
		return list, meta.EachListItem(list, func(item runtime.Object) error {
			item.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
			return nil
		})
	}
	items, err := meta.GetItemsPtr(list)
	if err != nil {
		return nil, err
	}
	slice := reflect.ValueOf(items).Elem()
	slice.Set(reflect.MakeSlice(slice.Type(), 0, 0)) // [] rather than null
	return list, nil
}

func fillListMeta(list any, l *listing) error {
	m, err := meta.ListAccessor(list)
	if err != nil {
		return err
	}
	m.SetResourceVersion(formatRevision(l.revision))
	m.SetContinue(l.next)
	m.SetRemainingItemCount(l.remaining)
	return nil
}

// document returns one object as it is sent, complete.
func (k *servedKind) document(to []byte, media string, i *item) ([]byte, error) {
	if media != wire.Proto {
		data, err := k.jsonOf(i)
		return append(append(to, data...), '\n'), err
	}
	if err := k.marshaled(i); err != nil {
		return nil, err
	}
	to = append(to, k.forms.protoHead...)
	to = binary.AppendUvarint(to, uint64(messageSize(i)))
	return append(appendMessage(to, i), envelope.End...), nil
}

// event returns a watch event as it is sent: a line of JSON, or a protobuf
// message behind its length in four bytes.
func (k *servedKind) event(media string, what watch.EventType, i *item) ([]byte, error) {
	if media != wire.Proto {
		data, err := k.jsonOf(i)
		if err != nil {
			return nil, err
		}
		return envelope.JSONEvent(what, data), nil
	}
	data, err := k.document(nil, media, i)
	if err != nil {
		return nil, err
	}
	return envelope.ProtoEvent(what, data)
}

// partial is an object's metadata alone. It shares the object's maps.
func partial(obj runtime.Object) *metav1.PartialObjectMetadata {
	p := meta.AsPartialObjectMetadata(accessor(obj))
	p.TypeMeta = metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}
	return p
}

func partialList(l *listing) (*metav1.PartialObjectMetadataList, error) {
	list := &metav1.PartialObjectMetadataList{Items: make([]metav1.PartialObjectMetadata, 0, len(l.items))}
	list.TypeMeta = metav1.TypeMeta{APIVersion: partialVersion, Kind: partialListKind}
	for _, i := range l.items {
		list.Items = append(list.Items, *partial(i.Object.Object))
	}
	return list, fillListMeta(list, l)
}

const partialVersion, partialListKind = "meta.k8s.io/v1", "PartialObjectMetadataList"

// partialBody is partialList as it is sent, put together from what is kept of
// the items.
func (k *servedKind) partialBody(media string, l *listing) (*pieces.Body, error) {
	if media == wire.Proto {
		return k.partialProto(l)
	}
	head, err := json.Marshal(l.meta())
	if err != nil {
		return nil, err
	}
	b := &pieces.Body{Items: l, Separator: []byte{','}, Tail: []byte("]}\n")}
	b.Head = append(envelope.JSONHead(partialVersion, partialListKind), `"metadata":`...)
	b.Head = append(append(b.Head, head...), `,"items":[`...)
	b.Size = len(b.Head) + len(b.Tail) + max(len(l.items)-1, 0)
	for _, i := range l.items {
		data, err := k.partialOf(i)
		if err != nil {
			return nil, err
		}
		b.Size += len(data)
	}
	b.Next = func(to []byte, n int) []byte {
		data, _ := k.partialOf(l.items[n]) // it could be encoded before; a kind that is packed keeps none
		return append(to, data...)
	}
	return b, nil
}

// partialProto does the same as protobuf, where an object's metadata is the
// first field of its message.
func (k *servedKind) partialProto(l *listing) (*pieces.Body, error) {
	messages := make([][]byte, len(l.items)) // of those whose records cannot serve
	sizes := make([]int, len(l.items))
	size := 0
	for n, i := range l.items {
		if p := i.Object.parts; p.Usable() {
			sizes[n] = p.PartialSize(i.Revision)
		} else {
			var err error
			if messages[n], err = partial(i.Object.Object).Marshal(); err != nil {
				return nil, err
			}
			sizes[n] = len(messages[n])
		}
		size += 1 + envelope.UvarintSize(sizes[n]) + sizes[n]
	}
	b, err := protoBody(envelope.ProtoHead(partialVersion, partialListKind), l, size)
	if err != nil {
		return nil, err
	}
	b.Next = func(to []byte, n int) []byte {
		to = binary.AppendUvarint(append(to, envelope.TagItems), uint64(sizes[n]))
		if messages[n] != nil {
			return append(to, messages[n]...)
		}
		i := l.items[n]
		return i.Object.parts.AppendPartial(to, i.Value, i.Revision)
	}
	return b, nil
}

// hasHidden reports whether an item of the listing is hidden from most clients.
func (l *listing) hasHidden() bool {
	for _, i := range l.items {
		if i.Object.hidden != nil {
			return true
		}
	}
	return false
}

// encoded is an object whose JSON is ready.
type encoded struct {
	runtime.Object
	data []byte
}

func (e encoded) MarshalJSON() ([]byte, error) { return e.data, nil }

// withHidden returns list, the object of a listing, with the JSON of b, which shows why items
// are hidden.
func withHidden(list runtime.Object, b *pieces.Body, err error) (runtime.Object, error) {
	if err != nil {
		return nil, err
	}
	var data bytes.Buffer
	b.Write(&data)
	return encoded{list, data.Bytes()}, nil
}
