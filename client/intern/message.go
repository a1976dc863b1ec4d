package intern

import "encoding/binary"

// message describes how to split encodings of a type. own has the decoders of the fields in which
// objects of one template differ. All other fields are the skeleton.
//
// If an encoding is unusual or wrong, decode and the decoders return false. The object is then
// decoded from the beginning in the ordinary way, which also returns the error, if there is one.
type message[T any] struct {
	kind      kind
	unmarshal func(*T, []byte) error
	own       [64]decoder[T]
	// numbers has the bits of the field numbers in own.
	numbers uint64
}

// decoder decodes an own field of a T.
type decoder[T any] func(*shard, *T, occurrence) bool

// occurrence is one place of a field in a message: one or several repetitions in a row.
type occurrence struct {
	// all holds the encoding with tags and lengths, value the first value.
	all, value []byte
	count      int
}

// describe returns a message with the given own fields, by number.
func describe[T any](k kind, unmarshal func(*T, []byte) error, own map[int]decoder[T]) *message[T] {
	m := &message[T]{kind: k, unmarshal: unmarshal}
	for number, decode := range own {
		m.own[number] = decode
		m.numbers |= 1 << number
	}
	return m
}

// decode decodes data into an empty T.
func (m *message[T]) decode(s *shard, into *T, data []byte) bool {
	first := len(s.runs)
	key, ok := s.cut(data, m.numbers)
	if !ok || len(key) > 0 && !m.skeleton(s, into, key) {
		return false
	}
	end := len(s.runs)
	for i := first; i < end; i++ {
		r := &s.runs[i]
		number, o := r.number, occurrence{data[r.start:r.end], data[r.body:r.bodyEnd], r.count}
		if !m.own[number](s, into, o) {
			return false
		}
	}
	s.runs = s.runs[:first]
	return true
}

// skeleton sets into to the value that key decodes to.
func (m *message[T]) skeleton(s *shard, into *T, key []byte) bool {
	known, hash, remember := s.find(m.kind, key)
	if known != nil {
		*into = *known.(*T)
		return true
	}
	if m.unmarshal(into, key) != nil {
		return false
	}
	if remember {
		value := *into
		s.put(m.kind, hash, key, &value)
	}
	return true
}

// run is the place of an own field in a message.
type run struct {
	number        int
	start, end    int
	body, bodyEnd int
	count         int
}

// cut appends the own fields of a message to s.runs and returns all other fields, joined. The
// result is valid until the next cut. An own field must be length-delimited and occur in one place
// of the message.
func (s *shard) cut(data []byte, own uint64) (skeleton []byte, ok bool) {
	s.key = s.key[:0]
	copied := 0 // data before this is in s.key or not a part of the skeleton
	last := -1  // the previous own field, if nothing is in between
	var seen uint64
	for at := 0; at < len(data); {
		f, ok := next(data, at)
		if !ok {
			return nil, false
		}
		switch {
		case f.number > 63 || own>>f.number&1 == 0:
			last = -1
		case f.kind != lengthDelimited:
			return nil, false
		case f.number == last:
			r := &s.runs[len(s.runs)-1]
			r.count++
			r.end, copied = f.end, f.end
		case seen>>f.number&1 == 1:
			return nil, false
		default:
			seen |= 1 << f.number
			last = f.number
			s.key = append(s.key, data[copied:at]...)
			s.runs = append(s.runs, run{number: f.number, start: at, end: f.end, body: f.body, bodyEnd: f.end, count: 1})
			copied = f.end
		}
		at = f.end
	}
	if copied == 0 {
		return data, true
	}
	s.key = append(s.key, data[copied:]...)
	return s.key, true
}

// wireKind is the encoding of a field's value
// (https://protobuf.dev/programming-guides/encoding/#structure).
type wireKind int

const (
	varint          wireKind = 0
	fixed64         wireKind = 1
	lengthDelimited wireKind = 2
	fixed32         wireKind = 5
)

// position is the place of a field in a message: its value extends from body to end.
type position struct {
	number    int
	kind      wireKind
	body, end int
}

// next returns the field that begins at data[at]. It supports tags of one or two bytes and no
// groups.
func next(data []byte, at int) (f position, ok bool) {
	tag := int(data[at])
	at++
	if tag >= 0x80 {
		if at == len(data) || data[at] >= 0x80 {
			return f, false
		}
		tag = tag&0x7f | int(data[at])<<7
		at++
	}
	f = position{number: tag >> 3, kind: wireKind(tag & 7), body: at, end: at}
	switch f.kind {
	case varint:
		_, n := binary.Uvarint(data[at:])
		f.end += n
		ok = n > 0
	case fixed64:
		f.end += 8
		ok = f.end <= len(data)
	case lengthDelimited:
		if at < len(data) && data[at] < 0x80 {
			f.body = at + 1
			f.end = f.body + int(data[at])
			ok = f.end <= len(data)
			break
		}
		size, n := binary.Uvarint(data[at:])
		if n > 0 && size <= uint64(len(data)-at-n) {
			f.body, f.end = at+n, at+n+int(size)
			ok = true
		}
	case fixed32:
		f.end += 4
		ok = f.end <= len(data)
	}
	return f, ok && f.number > 0
}
