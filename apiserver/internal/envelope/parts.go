package envelope

import (
	"bytes"
	"encoding/binary"
	"strconv"

	"github.com/planekit/planekit/apiserver/internal/wire"
	"github.com/planekit/planekit/storage"
)

// A stored protobuf object differs from the object that is sent in one field only: its
// resourceVersion, which is the revision of the store, is empty. These are the tags of the fields
// around it (generated.proto in k8s.io/apimachinery): of runtime.Unknown, of any object, and of
// ObjectMeta.
const (
	tagTypeMeta        = 1<<3 | 2
	tagRaw             = 2<<3 | 2
	TagMetadata        = 1<<3 | 2
	TagItems           = 2<<3 | 2
	tagResourceVersion = 6<<3 | 2
)

// End is the empty contentEncoding and contentType that end an envelope.
var End = []byte{3<<3 | 2, 0, 4<<3 | 2, 0}

// Parts holds positions in a stored protobuf object. The zero value has none.
type Parts struct {
	meta    int32 // where the content of metadata begins
	version int32 // where its empty resourceVersion is
	rest    int32 // where metadata ends
	end     int32 // where the object's message ends
}

// Usable reports whether the parts were found.
func (p Parts) Usable() bool { return p.end > 0 }

// FindParts finds the parts of a stored object. The result is not usable if the object has another
// form than the server writes.
func FindParts(value []byte) (Parts, bool) {
	data, ok := bytes.CutPrefix(value, wire.ProtoMagic)
	if !ok {
		return Parts{}, false
	}
	_, data, ok = cutField(data, tagTypeMeta)
	if !ok {
		return Parts{}, false
	}
	raw, after, ok := cutField(data, tagRaw)
	if !ok || !bytes.Equal(after, End) {
		return Parts{}, false
	}
	end := len(value) - len(after)
	meta, rest, ok := cutField(raw, TagMetadata)
	if !ok {
		return Parts{}, false
	}
	start := end - len(rest) - len(meta)
	for at := meta; len(at) > 1 && at[0] <= tagResourceVersion; {
		if at[0] == tagResourceVersion {
			p := Parts{int32(start), int32(start + len(meta) - len(at)), int32(end - len(rest)), int32(end)}
			return p, at[1] == 0
		}
		if _, at, ok = cutField(at, at[0]); !ok {
			break
		}
	}
	return Parts{}, false
}

// cutField cuts a length-delimited field with a tag of one byte off data.
func cutField(data []byte, tag byte) (content, rest []byte, ok bool) {
	if len(data) == 0 || data[0] != tag || tag&7 != 2 {
		return nil, nil, false
	}
	n, width := binary.Uvarint(data[1:])
	if width <= 0 || n > uint64(len(data)-1-width) {
		return nil, nil, false
	}
	data = data[1+width:]
	return data[:n], data[n:], true
}

// metaSize returns the length of the content of metadata with a resourceVersion of the given number
// of digits.
func (p Parts) metaSize(digits int) int { return int(p.rest-p.meta) + digits }

// Size returns the number of bytes that AppendTo appends.
func (p Parts) Size(revision storage.Revision) int {
	return p.PartialSize(revision) + int(p.end-p.rest)
}

// AppendTo appends the message of value with its resourceVersion.
func (p Parts) AppendTo(to, value []byte, revision storage.Revision) []byte {
	return append(p.AppendPartial(to, value, revision), value[p.rest:p.end]...)
}

// PartialSize returns the number of bytes that AppendPartial appends.
func (p Parts) PartialSize(revision storage.Revision) int {
	meta := p.metaSize(decimals(revision))
	return 1 + UvarintSize(meta) + meta
}

// AppendPartial appends the metadata of the message.
func (p Parts) AppendPartial(to, value []byte, revision storage.Revision) []byte {
	digits := decimals(revision)
	to = append(to, TagMetadata)
	to = binary.AppendUvarint(to, uint64(p.metaSize(digits)))
	to = append(to, value[p.meta:p.version]...)
	to = append(to, tagResourceVersion, byte(digits))
	to = strconv.AppendInt(to, int64(revision), 10)
	return append(to, value[p.version+2:p.rest]...)
}

func decimals(revision storage.Revision) int {
	n := 1
	for revision >= 10 {
		revision /= 10
		n++
	}
	return n
}

// UvarintSize returns the length of n in protobuf.
func UvarintSize(n int) int {
	size := 1
	for n >= 0x80 {
		n >>= 7
		size++
	}
	return size
}
