package intern

import (
	"bytes"
	"encoding/binary"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Each of the functions here makes a decoder of an own field, which get finds in
// its message.

// text is a string that is the object's own.
func text[T any](get func(*T) *string) decoder[T] {
	return func(s *shard, into *T, o occurrence) bool {
		s.hold(get(into), o.value)
		return o.count == 1
	}
}

// common is a string that many objects have.
func common[T any](get func(*T) *string) decoder[T] {
	return func(s *shard, into *T, o occurrence) bool {
		known, hash, remember := s.find(aString, o.value)
		switch {
		case known != nil:
			*get(into) = known.(string)
		case remember:
			// Not a part of what is the object's own, which would stay with it.
			text := string(o.value)
			s.put(aString, hash, o.value, text)
			*get(into) = text
		default:
			s.hold(get(into), o.value)
		}
		return o.count == 1
	}
}

// moment is a time.
func moment[T any](get func(*T) *metav1.Time) decoder[T] {
	return func(_ *shard, into *T, o occurrence) bool { return o.count == 1 && decodeTime(get(into), o.value) }
}

// someMoment is a time that may not be there.
func someMoment[T any](get func(*T) **metav1.Time) decoder[T] {
	return func(_ *shard, into *T, o occurrence) bool {
		at := new(metav1.Time)
		*get(into) = at
		return o.count == 1 && decodeTime(at, o.value)
	}
}

// decodeTime does what at.Unmarshal does, which drops fractions of seconds.
func decodeTime(at *metav1.Time, data []byte) bool {
	if len(data) < 4 || data[0] != 1<<3|byte(varint) {
		return at.Unmarshal(data) == nil
	}
	seconds, n := binary.Uvarint(data[1:])
	if rest := data[1+max(n, 0):]; n <= 0 || len(rest) != 2 || rest[0] != 2<<3|byte(varint) || rest[1] >= 0x80 {
		return at.Unmarshal(data) == nil
	}
	at.Time = time.Unix(int64(seconds), 0).Local()
	return true
}

// one is a message in its place.
func one[T, U any](m *message[U], get func(*T) *U) decoder[T] {
	return func(s *shard, into *T, o occurrence) bool { return o.count == 1 && m.decode(s, get(into), o.value) }
}

// some is a message that may not be there.
func some[T, U any](m *message[U], get func(*T) **U) decoder[T] {
	return func(s *shard, into *T, o occurrence) bool {
		value := new(U)
		*get(into) = value
		return o.count == 1 && m.decode(s, value, o.value)
	}
}

// many are repeated messages.
func many[T, U any](m *message[U], get func(*T) *[]U) decoder[T] {
	return func(s *shard, into *T, o occurrence) bool {
		all := make([]U, o.count)
		*get(into) = all
		at := 0
		for i := range all {
			f, ok := next(o.all, at)
			if !ok || !m.decode(s, &all[i], o.all[f.body:f.end]) {
				return false
			}
			at = f.end
		}
		return true
	}
}

// group is a field that is shared as a whole, such as a map or a slice that many
// objects have, but in other company.
func group[T, V any](k kind, unmarshal func(*T, []byte) error, get func(*T) *V) decoder[T] {
	return func(s *shard, into *T, o occurrence) bool {
		known, hash, remember := s.find(k, o.all)
		if known != nil {
			*get(into) = known.(V)
			return true
		}
		if unmarshal(into, o.all) != nil {
			return false
		}
		if remember {
			s.put(k, hash, o.all, *get(into))
		}
		return true
	}
}

// dictionary is a map that is shared as a whole if others have the same, and
// otherwise strings of it.
func dictionary[T any](k kind, get func(*T) *map[string]string) decoder[T] {
	return func(s *shard, into *T, o occurrence) bool {
		known, hash, remember := s.find(k, o.all)
		if known != nil {
			*get(into) = known.(map[string]string)
			return true
		}
		all := make(map[string]string, o.count)
		for at := 0; at < len(o.all); {
			f, ok := next(o.all, at)
			if !ok || !s.entry(all, o.all[f.body:f.end]) {
				return false
			}
			at = f.end
		}
		*get(into) = all
		if remember {
			s.put(k, hash, o.all, all)
		}
		return true
	}
}

// entry decodes an entry of a map: a key and a value, which are fields 1 and 2.
func (s *shard) entry(all map[string]string, data []byte) bool {
	if len(data) == 0 {
		return false
	}
	key, ok := next(data, 0)
	if !ok || key.number != 1 || key.kind != lengthDelimited || key.end == len(data) {
		return false
	}
	value, ok := next(data, key.end)
	if !ok || value.number != 2 || value.kind != lengthDelimited || value.end != len(data) {
		return false
	}
	all[s.shared(data[key.body:key.end])] = s.shared(data[value.body:])
	return true
}

// shared returns value as a string that others may have, too.
func (s *shard) shared(value []byte) string {
	known, hash, remember := s.find(aString, value)
	if known != nil {
		return known.(string)
	}
	text := string(value)
	if remember {
		s.put(aString, hash, value, text)
	}
	return text
}

// span is where in the object's own text a string is, and where it has to go.
type span struct {
	to         *string
	start, end int
}

// hold remembers to make value a string at last.
func (s *shard) hold(to *string, value []byte) {
	if len(value) == 0 {
		*to = ""
		return
	}
	for _, o := range s.spans {
		// Volumes and their mounts have one name, as have addresses in two places.
		if o.end-o.start == len(value) && bytes.Equal(s.own[o.start:o.end], value) {
			s.spans = append(s.spans, span{to, o.start, o.end})
			return
		}
	}
	start := len(s.own)
	s.own = append(s.own, value...)
	s.spans = append(s.spans, span{to, start, len(s.own)})
}

// release makes one string of all that was held, and parts of it where they are
// to go.
func (s *shard) release() {
	all := string(s.own)
	for _, o := range s.spans {
		*o.to = all[o.start:o.end]
	}
}

// forget keeps nothing of an object.
func (s *shard) forget() {
	clear(s.spans)
	s.own, s.spans, s.runs = s.own[:0], s.spans[:0], s.runs[:0]
}
