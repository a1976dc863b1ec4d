package client

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	goruntime "runtime"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// A message is a built-in type: an object that encodes itself as protobuf.
type message interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
	Reset()
}

// magic begins every object in protobuf; a runtime.Unknown follows
// (https://kubernetes.io/docs/reference/using-api/api-concepts/#protobuf-encoding).
var magic = []byte("k8s\x00")

// encode encodes object with its kind in front, as protobuf if protobuf is set and object is a
// message.
func encode(object runtime.Object, kind metav1.TypeMeta, protobuf bool) (data []byte, contentType string, err error) {
	if m, ok := object.(message); ok && protobuf {
		raw, err := m.Marshal()
		if err != nil {
			return nil, "", fmt.Errorf("encode %s: %w", kind.Kind, err)
		}
		unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: kind.APIVersion, Kind: kind.Kind}, Raw: raw}
		body, err := unknown.Marshal()
		if err != nil {
			return nil, "", fmt.Errorf("encode %s: %w", kind.Kind, err)
		}
		return append(bytes.Clone(magic), body...), Protobuf, nil
	}
	data, err = json.Marshal(object)
	if err != nil {
		return nil, "", fmt.Errorf("encode %s: %w", kind.Kind, err)
	}
	if object.GetObjectKind().GroupVersionKind().Empty() {
		// The object may be shared. Add its kind to the encoded text instead of setting it.
		head := fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q`, kind.Kind, kind.APIVersion)
		if !bytes.Equal(data, []byte("{}")) {
			head = append(head, ',')
		}
		data = append(head, data[1:]...)
	}
	return data, JSON, nil
}

// openEnvelope removes the envelope, a runtime.Unknown, from an object in protobuf. The result is a
// part of data: a copy of a list would be as large as the list.
func openEnvelope(data []byte) (runtime.TypeMeta, []byte, error) {
	body, ok := bytes.CutPrefix(data, magic)
	if !ok {
		return runtime.TypeMeta{}, nil, errors.New("not a Kubernetes protobuf message")
	}
	var kind runtime.TypeMeta
	var raw []byte
	err := eachField(body, func(field uint64, value []byte) error {
		switch field {
		case 1:
			return kind.Unmarshal(value)
		case 2:
			raw = value
		}
		return nil
	})
	return kind, raw, err
}

// decode decodes one object of contentType into object, which must be empty. It uses unmarshal for
// protobuf. It returns an error if the object is not of the wanted kind.
func decode[T runtime.Object](contentType string, data []byte, want metav1.TypeMeta, unmarshal unmarshaler[T], object T) error {
	switch contentType {
	case Protobuf:
		kind, raw, err := openEnvelope(data)
		if err == nil && !answers(kind.APIVersion, kind.Kind, want, "") {
			err = fmt.Errorf("found a %s %s", kind.APIVersion, kind.Kind)
		}
		if err == nil {
			err = unmarshal(raw, object)
		}
		if err != nil {
			return fmt.Errorf("decode %s: %w", want.Kind, err)
		}
	case JSON:
		if err := utiljson.Unmarshal(data, object); err != nil {
			return fmt.Errorf("decode %s: %w", want.Kind, err)
		}
		version, kind := object.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
		if !answers(version, kind, want, "") {
			return fmt.Errorf("decode %s: found a %s %s", want.Kind, version, kind)
		}
	default:
		return fmt.Errorf("decode %s: unexpected content type %q", want.Kind, contentType)
	}
	setKind(object, want)
	return nil
}

// answers reports whether an answer of a kind has objects of kind want, or their metadata. list is the end of the
// name of a list's kind, or empty.
func answers(version, kind string, want metav1.TypeMeta, list string) bool {
	return kind == want.Kind+list && version == want.APIVersion ||
		kind == "PartialObjectMetadata"+list && version == "meta.k8s.io/v1"
}

// setKind sets the kind of object. Protobuf and the items of lists leave it out.
func setKind(object runtime.Object, kind metav1.TypeMeta) {
	if meta, ok := object.GetObjectKind().(*metav1.TypeMeta); ok {
		*meta = kind
		return
	}
	object.GetObjectKind().SetGroupVersionKind(kind.GroupVersionKind())
}

// openList returns the metadata of a list and its items still encoded, which are parts of data.
func openList(contentType string, data []byte, want metav1.TypeMeta) (metav1.ListMeta, [][]byte, error) {
	var meta metav1.ListMeta
	var items [][]byte
	fail := func(err error) (metav1.ListMeta, [][]byte, error) {
		return meta, nil, fmt.Errorf("decode list of %s: %w", want.Kind, err)
	}
	switch contentType {
	case Protobuf:
		kind, raw, err := openEnvelope(data)
		if err != nil {
			return fail(err)
		}
		if !answers(kind.APIVersion, kind.Kind, want, "List") {
			return fail(fmt.Errorf("found a %s %s", kind.APIVersion, kind.Kind))
		}
		err = eachField(raw, func(field uint64, value []byte) error {
			switch field {
			case 1:
				return meta.Unmarshal(value)
			case 2:
				items = append(items, value)
			}
			return nil
		})
		if err != nil {
			return fail(err)
		}
		return meta, items, nil
	case JSON:
		var list struct {
			metav1.TypeMeta
			Metadata metav1.ListMeta   `json:"metadata"`
			Items    []json.RawMessage `json:"items"`
		}
		if err := json.Unmarshal(data, &list); err != nil {
			return fail(err)
		}
		if !answers(cmp.Or(list.APIVersion, want.APIVersion), list.Kind, want, "List") {
			return fail(fmt.Errorf("found a %q", list.Kind))
		}
		for _, raw := range list.Items {
			items = append(items, raw)
		}
		return list.Metadata, items, nil
	}
	return fail(fmt.Errorf("unexpected content type %q", contentType))
}

// fewItems is the number of list items below which a further goroutine does not pay off: decoding
// one takes some microseconds in protobuf and ten times that in JSON.
const fewItems = 64

// decodeItems decodes each item of a list into an object of its own from empty, and adds the
// objects in order, in several batches. If known is not nil, it skips the items that known reports,
// without decoding them. Decoding into the Go list type would put all items into one array, and a
// reference to one item would keep them all.
func decodeItems[T runtime.Object](contentType string, items [][]byte, want metav1.TypeMeta, unmarshal unmarshaler[T], empty func() T, known func(item []byte) bool, add func([]T)) error {
	switch {
	case contentType == JSON:
		unmarshal = unmarshalJSON
	case known != nil:
		items = slices.DeleteFunc(items, known)
	}
	for some := range slices.Chunk(items, pageSize) {
		objects := make([]T, len(some))
		err := eachPart(len(some), func(first, end int) error {
			for i := first; i < end; i++ {
				objects[i] = empty()
				if err := unmarshal(some[i], objects[i]); err != nil {
					return fmt.Errorf("decode list of %s: %w", want.Kind, err)
				}
				setKind(objects[i], want)
			}
			return nil
		})
		if err != nil {
			return err
		}
		add(objects)
	}
	return nil
}

// eachPart calls do for all of n items in parts, one for each processor.
func eachPart(n int, do func(first, end int) error) error {
	parts := max(1, min(goruntime.GOMAXPROCS(0), n/fewItems))
	failures := make([]error, parts)
	var others sync.WaitGroup
	for i := 1; i < parts; i++ {
		others.Go(func() { failures[i] = do(n*i/parts, n*(i+1)/parts) })
	}
	failures[0] = do(0, n/parts)
	others.Wait()
	for _, err := range failures {
		if err != nil {
			return err
		}
	}
	return nil
}

// unmarshaler decodes an object of a known kind.
type unmarshaler[T any] func([]byte, T) error

func unmarshalJSON[T any](raw []byte, object T) error { return utiljson.Unmarshal(raw, object) }

// unmarshalMessage decodes a message with its own Unmarshal.
func unmarshalMessage[T any](raw []byte, object T) error {
	m, ok := any(object).(message)
	if !ok {
		return fmt.Errorf("no protobuf for %T", object)
	}
	return m.Unmarshal(raw)
}

var errTruncated = errors.New("truncated or malformed protobuf")

// eachField visits the top-level fields of a protobuf message. They must all be length-delimited,
// as those of every Kubernetes list are.
func eachField(data []byte, visit func(field uint64, value []byte) error) error {
	for len(data) > 0 {
		number, value, rest, ok := field(data)
		if !ok {
			return errTruncated
		}
		if err := visit(number, value); err != nil {
			return err
		}
		data = rest
	}
	return nil
}

// peek finds the namespace, the name and the resourceVersion of an encoded object and nothing else.
// It returns false if it cannot parse the object.
//
// The metadata is field 1 of every Kubernetes object, in which these are fields 3, 1 and 6
// (k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto).
func peek(object []byte) (namespace, name, revision []byte, ok bool) {
	_, meta, _, ok := field(object)
	if !ok || len(object) == 0 || object[0] != 1<<3|2 {
		return nil, nil, nil, false
	}
	for len(meta) > 0 {
		number, value, rest, ok := field(meta)
		if !ok {
			return nil, nil, nil, false
		}
		switch number {
		case 1:
			name = value
		case 3:
			namespace = value
		case 6:
			return namespace, name, value, len(name) > 0 && len(value) > 0
		}
		meta = rest
	}
	return nil, nil, nil, false
}

// field splits the first field, which must be length-delimited, from a message.
func field(data []byte) (number uint64, value, rest []byte, ok bool) {
	tag, n := binary.Uvarint(data)
	if n <= 0 || tag&7 != 2 {
		return 0, nil, nil, false
	}
	size, m := binary.Uvarint(data[n:])
	if m <= 0 || size > uint64(len(data)-n-m) {
		return 0, nil, nil, false
	}
	data = data[n+m:]
	return tag >> 3, data[:size], data[size:], true
}
