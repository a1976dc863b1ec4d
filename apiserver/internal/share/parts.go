package share

import "sync"

// buffers holds buffers for keys.
var buffers = sync.Pool{New: func() any { return new(make([]byte, 0, 512)) }}

// keyed replaces *part by the table's part for the key that appendKey makes of it, if it can make
// one.
func keyed[T any](t *Table[T], part *T, appendKey func(to []byte) ([]byte, bool)) {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	key, ok := appendKey((*buffer)[:0])
	*buffer = key
	if ok {
		*part = t.One(key, *part)
	}
}

// pointerTo is a pointer to a protobuf message of type T.
type pointerTo[T any] interface {
	*T
	Message
}

// Value shares the parts of a message.
func Value[T any, P pointerTo[T]](t *Table[T], part *T) {
	keyed(t, part, func(to []byte) ([]byte, bool) { return AppendMessage(to, P(part)) })
}

// Pointer shares a message, if there is one.
func Pointer[T any, P pointerTo[T]](t *Table[*T], part **T) {
	if *part != nil {
		keyed(t, part, func(to []byte) ([]byte, bool) { return AppendMessage(to, P(*part)) })
	}
}

// List shares a list of messages, unless it is empty.
func List[T any, P pointerTo[T]](t *Table[[]T], part *[]T) {
	if len(*part) == 0 {
		return
	}
	keyed(t, part, func(to []byte) (_ []byte, ok bool) {
		for i := range *part {
			if to, ok = AppendMessage(to, P(&(*part)[i])); !ok {
				return to, false
			}
		}
		return to, true
	})
}

// Strings shares a list of strings, unless it is empty.
func Strings(t *Table[[]string], part *[]string) {
	if len(*part) > 0 {
		keyed(t, part, func(to []byte) ([]byte, bool) { return AppendStrings(to, *part), true })
	}
}

// Map shares a map of strings, unless it is empty.
func Map(t *Table[map[string]string], part *map[string]string) {
	if len(*part) > 0 {
		keyed(t, part, func(to []byte) ([]byte, bool) { return AppendMap(to, *part), true })
	}
}
