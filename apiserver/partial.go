package apiserver

import (
	"encoding/binary"
	"encoding/json"

	"github.com/planekit/planekit/apiserver/internal/envelope"
	"github.com/planekit/planekit/apiserver/internal/pieces"
	"github.com/planekit/planekit/apiserver/internal/wire"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

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
func (k *kind) partialBody(media string, l *listing) (*pieces.Body, error) {
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
	b.Next = func(to []byte, n int) []byte { return append(to, *l.items[n].Object.partial.Load()...) }
	return b, nil
}

// partialProto does the same as protobuf, where an object's metadata is the
// first field of its message.
func (k *kind) partialProto(l *listing) (*pieces.Body, error) {
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
