package nodeimages

import (
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"google.golang.org/protobuf/encoding/protowire"
)

// message is a protobuf message of containerd's API, encoded. The fields are those of
// https://github.com/containerd/containerd/tree/main/api/services, whose Go packages would bring a second RPC system.
type message []byte

func (m message) text(field protowire.Number, value string) message {
	return m.bytes(field, []byte(value))
}

func (m message) bytes(field protowire.Number, value []byte) message {
	return protowire.AppendBytes(protowire.AppendTag(m, field, protowire.BytesType), value)
}

func (m message) number(field protowire.Number, value int64) message {
	return protowire.AppendVarint(protowire.AppendTag(m, field, protowire.VarintType), uint64(value))
}

// labels appends a map of strings.
func (m message) labels(field protowire.Number, values map[string]string) message {
	for key, value := range values {
		m = m.bytes(field, message{}.text(1, key).text(2, value))
	}
	return m
}

// paths appends a google.protobuf.FieldMask.
func (m message) paths(field protowire.Number, paths ...string) message {
	var mask message
	for _, path := range paths {
		mask = mask.text(1, path)
	}
	return m.bytes(field, mask)
}

// descriptor encodes a containerd.types.Descriptor.
func descriptor(d v1.Descriptor) message {
	return message{}.text(1, string(d.MediaType)).text(2, d.Digest.String()).number(3, d.Size)
}

// The actions of a WriteContentRequest.
const (
	writeAction  = 1
	commitAction = 2
)

// codec passes messages on as they are. It implements encoding.Codec of gRPC.
type codec struct{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(v any) ([]byte, error) {
	m, ok := v.(message)
	if !ok {
		return nil, fmt.Errorf("%T is not a message", v)
	}
	return m, nil
}

func (codec) Unmarshal(data []byte, v any) error {
	m, ok := v.(*message)
	if !ok {
		return fmt.Errorf("%T is not a message", v)
	}
	*m = append((*m)[:0], data...)
	return nil
}
