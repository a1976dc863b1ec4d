// Package envelope assembles API objects from encoded parts: the heads of objects and lists, the
// frames of watch events, and a protobuf object from its stored bytes. The result is byte for byte
// that of the codecs of k8s.io/apimachinery.
package envelope

import (
	"bytes"
	"encoding/binary"

	"github.com/planekit/planekit/apiserver/internal/wire"
	"k8s.io/apimachinery/pkg/watch"
)

// JSONHead returns the beginning of an object in JSON, with its type.
func JSONHead(version, kind string) []byte {
	return []byte(`{"kind":"` + kind + `","apiVersion":"` + version + `",`)
}

// ProtoHead returns the beginning of an object in protobuf, up to the length of its message.
func ProtoHead(version, kind string) []byte {
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

// JSONEvent returns a watch event with an object in JSON: a line.
func JSONEvent(what watch.EventType, data []byte) []byte {
	frame := make([]byte, 0, len(`{"type":"","object":}`)+len(what)+len(data)+1)
	frame = append(append(append(frame, `{"type":"`...), what...), `","object":`...)
	return append(append(frame, data...), '}', '\n')
}

// ProtoEvent returns a watch event with an object in protobuf: a message after its length in four
// bytes.
func ProtoEvent(what watch.EventType, data []byte) ([]byte, error) {
	// WatchEvent is {type = 1, object = 2}, RawExtension {raw = 1}.
	object := 1 + UvarintSize(len(data)) + len(data)
	size := 2 + len(what) + 1 + UvarintSize(object) + object
	frame := binary.BigEndian.AppendUint32(make([]byte, 0, 4+size), uint32(size))
	frame = append(append(frame, 1<<3|2, byte(len(what))), what...)
	frame = binary.AppendUvarint(append(frame, 2<<3|2), uint64(object))
	frame = binary.AppendUvarint(append(frame, 1<<3|2), uint64(len(data)))
	return append(frame, data...), nil
}
