package share

import (
	"encoding/binary"
	"maps"
	"slices"
)

// Message is a protobuf message of Kubernetes' kind: equal messages have equal encodings, with maps
// in order.
type Message interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
}

// AppendMessage appends the encoding of m. It reports whether it could.
func AppendMessage(to []byte, m Message) ([]byte, bool) {
	size := m.Size()
	to = binary.AppendUvarint(to, uint64(size))
	from := len(to)
	to = slices.Grow(to, size)[:from+size]
	n, err := m.MarshalToSizedBuffer(to[from:])
	return to, err == nil && n == size
}

// AppendStrings appends an encoding of list.
func AppendStrings(to []byte, list []string) []byte {
	to = binary.AppendUvarint(to, uint64(len(list)))
	for _, s := range list {
		to = appendString(to, s)
	}
	return to
}

// AppendMap appends an encoding of m.
func AppendMap(to []byte, m map[string]string) []byte {
	var room [16]string // enough for most without memory of its own
	names := slices.AppendSeq(room[:0], maps.Keys(m))
	slices.Sort(names)
	for _, name := range names {
		to = appendString(appendString(to, name), m[name])
	}
	return to
}

func appendString(to []byte, s string) []byte {
	return append(binary.AppendUvarint(to, uint64(len(s))), s...)
}
