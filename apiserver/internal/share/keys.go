package share

import (
	"encoding/binary"
	"maps"
	"slices"
)

// Message is a protobuf message as those of Kubernetes' types are: equal messages
// have equal bytes, maps in order.
type Message interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
}

// AppendMessage appends what says all about m. It reports whether it could.
func AppendMessage(to []byte, m Message) ([]byte, bool) {
	size := m.Size()
	to = binary.AppendUvarint(to, uint64(size))
	from := len(to)
	to = slices.Grow(to, size)[:from+size]
	n, err := m.MarshalToSizedBuffer(to[from:])
	return to, err == nil && n == size
}

// AppendStrings appends what says all about list.
func AppendStrings(to []byte, list []string) []byte {
	to = binary.AppendUvarint(to, uint64(len(list)))
	for _, s := range list {
		to = appendString(to, s)
	}
	return to
}

// AppendMap appends what says all about m.
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
