package client

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// maxFrame limits the size of one watch event, in bytes. It is far above the largest object that
// etcd accepts and far below what a corrupt length could request.
const maxFrame = 64 << 20

// keptFrame is the largest buffer that a watch keeps for its next event, in bytes. A process has
// many watches, most of them idle, and each would otherwise keep a buffer as large as the largest
// object that it has seen.
const keptFrame = 64 << 10

// event is one watch event with its object still encoded.
type event struct {
	kind   watch.EventType
	object []byte
}

// events reads the events of a watch of contentType. The returned function returns io.EOF when the
// server ended the watch. The bytes of an event are valid until the next call.
func events(contentType string, body io.Reader) (func() (event, error), error) {
	switch contentType {
	case Protobuf:
		return framed(bufio.NewReader(body)), nil
	case JSON:
		return jsonStream(json.NewDecoder(body)), nil
	}
	return nil, fmt.Errorf("watch: unexpected content type %q", contentType)
}

// framed reads WatchEvents in protobuf, each preceded by its length in four bytes.
func framed(r *bufio.Reader) func() (event, error) {
	var frame []byte
	return func() (event, error) {
		var head [4]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return event{}, err
		}
		size := binary.BigEndian.Uint32(head[:])
		if size > maxFrame {
			return event{}, fmt.Errorf("watch event of %d bytes is too large", size)
		}
		whole := frame[:0]
		if int(size) > cap(whole) {
			whole = make([]byte, size)
		}
		if size <= keptFrame {
			frame = whole
		}
		whole = whole[:size]
		if _, err := io.ReadFull(r, whole); err != nil {
			return event{}, unexpected(err)
		}
		var e metav1.WatchEvent
		if err := e.Unmarshal(whole); err != nil {
			return event{}, fmt.Errorf("watch event: %w", err)
		}
		return event{watch.EventType(e.Type), e.Object.Raw}, nil
	}
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// jsonStream reads a sequence of WatchEvents as JSON values.
func jsonStream(d *json.Decoder) func() (event, error) {
	return func() (event, error) {
		var e struct {
			Type   watch.EventType `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		if err := d.Decode(&e); err != nil {
			return event{}, err
		}
		return event{e.Type, e.Object}, nil
	}
}

// failure returns the error that an event of type ERROR carries.
func failure(contentType string, object []byte) error {
	var status metav1.Status
	if err := decodeStatus(contentType, object, &status); err != nil {
		return fmt.Errorf("watch: undecodable error event: %w", err)
	}
	return &apierrors.StatusError{ErrStatus: status}
}
