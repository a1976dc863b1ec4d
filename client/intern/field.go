package intern

import (
	"bytes"
	"encoding/binary"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Each function here returns a decoder of an own field. get returns a pointer to that field of the
// message.

// text decodes a string that belongs to one object.
func text[T any](get func(*T) *string) decoder[T] {
	return func(s *shard, into *T, o occurrence) bool {
		s.hold(get(into), o.value)
		return o.count == 1
	}
}

// common decodes a string that many objects have.
func common[T any](get func(*T) *string) decoder[T] {
	return func(s *shard, into *T, o occurrence) bool {
		known, hash, remember := s.find(aString, o.value)
		switch {
		case known != nil:
			*get(into) = known.(string)
		case remember:
			// Copy the string. A part of the object's own text would keep all of that text in
			// memory.
			text := string(o.value)
			s.put(aString, hash, o.value, text)
			*get(into) = text
		default:
			s.hold(get(into), o.value)
		}
		return o.count == 1
	}
}

// moment decodes a time.
func moment[T any](get func(*T) *metav1.Time) decoder[T] {
	return func(_ *shard, into *T, o occurrence) bool { return o.count == 1 && decodeTime(get(into), o.value) }
}

// someMoment decodes an optional time.
func someMoment[T any](get func(*T) **metav1.Time) decoder[T] {
	return func(_ *shard, into *T, o occurrence) bool {
		at := new(metav1.Time)
		*get(into) = at
		return o.count == 1 && decodeTime(at, o.value)
	}
}

// decodeTime does the same as at.Unmarshal, which drops fractions of seconds.
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

// one decodes a required message.
func one[T, U any](m *message[U], get func(*T) *U) decoder[T] {
	return func(s *shard, into *T, o occurrence) bool { return o.count == 1 && m.decode(s, get(into), o.value) }
}

// some decodes an optional message.
func some[T, U any](m *message[U], get func(*T) **U) decoder[T] {
	return func(s *shard, into *T, o occurrence) bool {
		value := new(U)
		*get(into) = value
		return o.count == 1 && m.decode(s, value, o.value)
	}
}

// many decodes a repeated message.
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

// group decodes a field that is shared as a whole, such as a map or a slice that many objects have
// beside different fields.
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

// dictionary decodes a map. The map is shared as a whole if other objects have the same one;
// otherwise only its strings are shared.
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

// shared returns value as a string that other objects may share.
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

// span is the place of a string in the object's own text, and the field that receives it.
type span struct {
	to         *string
	start, end int
}

// hold records that to must receive value as a string when release is called.
func (s *shard) hold(to *string, value []byte) {
	if len(value) == 0 {
		*to = ""
		return
	}
	for _, o := range s.spans {
		// Volumes and their mounts have the same name, and addresses occur twice.
		if o.end-o.start == len(value) && bytes.Equal(s.own[o.start:o.end], value) {
			s.spans = append(s.spans, span{to, o.start, o.end})
			return
		}
	}
	start := len(s.own)
	s.own = append(s.own, value...)
	s.spans = append(s.spans, span{to, start, len(s.own)})
}

// release makes one string of all held values and stores the parts of it in their fields.
func (s *shard) release() {
	all := string(s.own)
	for _, o := range s.spans {
		*o.to = all[o.start:o.end]
	}
}

// forget drops all values of an object.
func (s *shard) forget() {
	clear(s.spans)
	s.own, s.spans, s.runs = s.own[:0], s.spans[:0], s.runs[:0]
}
