// Package envelope puts API objects together from what is encoded already: the heads of objects and
// lists, the frames of watch events, and an object of protobuf from the bytes in which it is stored.
// What comes out is byte for byte what the codecs of k8s.io/apimachinery make of the same objects.
package envelope

import (
	"bytes"
	"encoding/binary"

	"github.com/planekit/planekit/apiserver/internal/wire"
	"k8s.io/apimachinery/pkg/watch"
)

// JSONHead begins an object as JSON, with its type.
func JSONHead(version, kind string) []byte {
	return []byte(`{"kind":"` + kind + `","apiVersion":"` + version + `",`)
}

// ProtoHead begins an object as protobuf, up to the length of its message.
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

// JSONEvent returns a watch event with an object as JSON: a line.
func JSONEvent(what watch.EventType, data []byte) []byte {
	frame := make([]byte, 0, len(`{"type":"","object":}`)+len(what)+len(data)+1)
	frame = append(append(append(frame, `{"type":"`...), what...), `","object":`...)
	return append(append(frame, data...), '}', '\n')
}

// ProtoEvent returns a watch event with an object as protobuf: a message behind its length in four
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
