package client

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// message is what the built-in types are beside runtime.Object.
type message interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
	Reset()
}

// magic begins every object in protobuf; a runtime.Unknown follows
// (https://kubernetes.io/docs/reference/using-api/api-concepts/#protobuf-encoding).
var magic = []byte("k8s\x00")

// encode writes object with kind in front, as protobuf if it can be.
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
		// The object may be shared, so its kind is not set but spliced in.
		head := fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q`, kind.Kind, kind.APIVersion)
		if !bytes.Equal(data, []byte("{}")) {
			head = append(head, ',')
		}
		data = append(head, data[1:]...)
	}
	return data, JSON, nil
}

// openEnvelope takes the envelope off an object in protobuf.
func openEnvelope(data []byte) (runtime.TypeMeta, []byte, error) {
	body, ok := bytes.CutPrefix(data, magic)
	if !ok {
		return runtime.TypeMeta{}, nil, errors.New("not a Kubernetes protobuf message")
	}
	var unknown runtime.Unknown
	if err := unknown.Unmarshal(body); err != nil {
		return runtime.TypeMeta{}, nil, err
	}
	return unknown.TypeMeta, unknown.Raw, nil
}

// decode reads one object of contentType into object, which must be empty. It
// fails on any other kind than the one wanted.
func decode(contentType string, data []byte, want metav1.TypeMeta, object runtime.Object) error {
	switch contentType {
	case Protobuf:
		m, ok := object.(message)
		if !ok {
			return fmt.Errorf("decode %s: no protobuf for %T", want.Kind, object)
		}
		kind, raw, err := openEnvelope(data)
		if err == nil && (kind.Kind != want.Kind || kind.APIVersion != want.APIVersion) {
			err = fmt.Errorf("is a %s %s", kind.APIVersion, kind.Kind)
		}
		if err == nil {
			err = m.Unmarshal(raw)
		}
		if err != nil {
			return fmt.Errorf("decode %s: %w", want.Kind, err)
		}
	case JSON:
		if err := utiljson.Unmarshal(data, object); err != nil {
			return fmt.Errorf("decode %s: %w", want.Kind, err)
		}
		if version, kind := object.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind(); kind != want.Kind || version != want.APIVersion {
			return fmt.Errorf("decode %s: is a %s %s", want.Kind, version, kind)
		}
	default:
		return fmt.Errorf("decode %s: unexpected content type %q", want.Kind, contentType)
	}
	setKind(object, want)
	return nil
}

// setKind names object's kind. Protobuf and the items of lists leave it out.
func setKind(object runtime.Object, kind metav1.TypeMeta) {
	if meta, ok := object.GetObjectKind().(*metav1.TypeMeta); ok {
		*meta = kind
		return
	}
	object.GetObjectKind().SetGroupVersionKind(kind.GroupVersionKind())
}

// decodeList reads a list, each item into an object of its own from add.
// Decoding the Go list type instead would put all items into one array, and
// whoever keeps one of them would keep them all.
func decodeList(contentType string, data []byte, want metav1.TypeMeta, add func() runtime.Object) (metav1.ListMeta, error) {
	var meta metav1.ListMeta
	fail := func(err error) (metav1.ListMeta, error) {
		return meta, fmt.Errorf("decode list of %s: %w", want.Kind, err)
	}
	item := func(raw []byte, unmarshal func([]byte, runtime.Object) error) error {
		object := add()
		if err := unmarshal(raw, object); err != nil {
			return err
		}
		setKind(object, want)
		return nil
	}
	switch contentType {
	case Protobuf:
		kind, raw, err := openEnvelope(data)
		if err != nil {
			return fail(err)
		}
		if kind.Kind != want.Kind+"List" || kind.APIVersion != want.APIVersion {
			return fail(fmt.Errorf("is a %s %s", kind.APIVersion, kind.Kind))
		}
		err = eachField(raw, func(field uint64, value []byte) error {
			switch field {
			case 1:
				return meta.Unmarshal(value)
			case 2:
				return item(value, unmarshalMessage)
			}
			return nil
		})
		if err != nil {
			return fail(err)
		}
	case JSON:
		var list struct {
			Kind     string            `json:"kind"`
			Metadata metav1.ListMeta   `json:"metadata"`
			Items    []json.RawMessage `json:"items"`
		}
		if err := json.Unmarshal(data, &list); err != nil {
			return fail(err)
		}
		if list.Kind != want.Kind+"List" {
			return fail(fmt.Errorf("is a %q", list.Kind))
		}
		meta = list.Metadata
		for _, raw := range list.Items {
			if err := item(raw, unmarshalJSON); err != nil {
				return fail(err)
			}
		}
	default:
		return fail(fmt.Errorf("unexpected content type %q", contentType))
	}
	return meta, nil
}

func unmarshalJSON(raw []byte, object runtime.Object) error { return utiljson.Unmarshal(raw, object) }

func unmarshalMessage(raw []byte, object runtime.Object) error {
	m, ok := object.(message)
	if !ok {
		return fmt.Errorf("no protobuf for %T", object)
	}
	return m.Unmarshal(raw)
}

var errTruncated = errors.New("truncated or malformed protobuf")

// eachField walks the top level of a protobuf message whose fields are all
// length-delimited, as those of every Kubernetes list are.
func eachField(data []byte, visit func(field uint64, value []byte) error) error {
	const lengthDelimited = 2
	for len(data) > 0 {
		tag, n := binary.Uvarint(data)
		if n <= 0 || tag&7 != lengthDelimited {
			return errTruncated
		}
		data = data[n:]
		size, n := binary.Uvarint(data)
		if n <= 0 || size > uint64(len(data)-n) {
			return errTruncated
		}
		data = data[n:]
		if err := visit(tag>>3, data[:size]); err != nil {
			return err
		}
		data = data[size:]
	}
	return nil
}
