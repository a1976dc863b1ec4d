package bodycost

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/planekit/planekit/internal/jsonscan"
	"google.golang.org/protobuf/encoding/protowire"
)

// ErrMalformed marks a protobuf message that cannot be parsed.
var ErrMalformed = errors.New("malformed protobuf message")

// Protobuf estimates the memory of a value of type t for message. It uses the field numbers in the
// tags of t, which Kubernetes' types have.
func (ts *Types) Protobuf(ctx context.Context, message []byte, t reflect.Type, l Limits) (Cost, error) {
	r := reader{ctx: ctx, limits: l, v: visitor{limits: l}}
	err := r.message(message, ts.shape(t), 1)
	return r.v.cost, err
}

type reader struct {
	ctx    context.Context
	limits Limits
	v      visitor
	seen   int
}

// message reads the fields of s and skips all others.
func (r *reader) message(data []byte, s *shape, level int) error {
	if level > r.limits.Depth {
		return fmt.Errorf("%w: more than %d levels of messages", jsonscan.ErrTooDeep, r.limits.Depth)
	}
	s.below()
	for len(data) > 0 {
		if r.seen++; r.seen%4096 == 0 {
			if err := r.ctx.Err(); err != nil {
				return err
			}
		}
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return fmt.Errorf("%w: %w", ErrMalformed, protowire.ParseError(n))
		}
		data = data[n:]
		length := protowire.ConsumeFieldValue(number, kind, data)
		if length < 0 {
			return fmt.Errorf("%w: %w", ErrMalformed, protowire.ParseError(length))
		}
		if f := s.numbers[int32(number)]; f != nil {
			if err := r.field(f, kind, data[:length], level); err != nil {
				return err
			}
		}
		data = data[length:]
	}
	return nil
}

func (r *reader) field(f *shape, kind protowire.Type, value []byte, level int) error {
	if err := r.v.charge(f.size + f.each); err != nil {
		return err
	}
	switch f.form {
	case list:
		f = f.below()
		r.v.cost.Bytes += f.size
	case table:
		return r.entry(f, kind, value, level)
	}
	if kind != protowire.BytesType {
		return nil
	}
	inner, _ := protowire.ConsumeBytes(value) // its length was checked before
	switch {
	case f.quantity:
		return quantity(inner)
	case f.form != record:
		return nil
	}
	return r.message(inner, f, level+1)
}

// quantity checks the message of a quantity, whose first field is its text.
func quantity(data []byte) error {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		length := -1
		if n >= 0 {
			length = protowire.ConsumeFieldValue(number, kind, data[n:])
		}
		if length < 0 {
			return fmt.Errorf("%w: %w", ErrMalformed, protowire.ParseError(min(n, length)))
		}
		if number == 1 && kind == protowire.BytesType {
			text, _ := protowire.ConsumeBytes(data[n:])
			if err := CheckQuantity(string(text)); err != nil {
				return err
			}
		}
		data = data[n+length:]
	}
	return nil
}

// entry reads an entry of a map, which is a message with a key and a value.
func (r *reader) entry(f *shape, kind protowire.Type, value []byte, level int) error {
	if value := f.below(); value.form != record && !value.quantity || kind != protowire.BytesType {
		return nil
	}
	inner, _ := protowire.ConsumeBytes(value)
	return r.message(inner, f.entry, level+1)
}
