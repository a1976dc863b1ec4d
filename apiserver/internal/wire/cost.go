package wire

import (
	"context"
	"errors"
	"math"
	"reflect"

	"github.com/planekit/planekit/internal/bodycost"
	"github.com/planekit/planekit/internal/jsonscan"
	"k8s.io/apimachinery/pkg/runtime"
)

// MaxDepth bounds the levels of objects and arrays, or of protobuf messages, in a body.
// kube-apiserver takes 10,000 levels of JSON and of CBOR; no type of Kubernetes
// has 30. Work that is done level by level, such as paths in errors, stays cheap below it.
const MaxDepth = 256

// Bounds of what is built of a body, as estimated before: of its memory, freeCost for any
// body and costFactor bytes more for each byte of it, and of the number of its fields,
// freeValues for any body and one more for each valueSize bytes. What handles an object after
// that, such as validation, admission and the tracking of owners, makes copies of it and
// takes some 600 bytes for each field. Objects of Kubernetes stay far below: 8,000 addresses
// of Endpoints have 60,000 fields in 1.2 MB.
const (
	freeCost   = 2 << 20
	costFactor = 4
	freeValues = 40_000
	valueSize  = 50
)

// CostLimits returns the limits for a body.
func CostLimits(data []byte) bodycost.Limits {
	return bodycost.Limits{Depth: MaxDepth, Bytes: freeCost + costFactor*len(data), Values: freeValues + len(data)/valueSize}
}

// Affordable checks that JSON or protobuf can be read as an object of into's type at a
// bounded cost. A malformed body passes; it fails when it is decoded, before anything is
// built.
func (c *Codec) Affordable(ctx context.Context, data []byte, media string, into runtime.Object) error {
	var err error
	if media == Proto {
		err = c.affordableProto(ctx, data, into)
	} else {
		_, err = c.Costs.JSON(ctx, data, reflect.TypeOf(into), CostLimits(data))
	}
	return CostError(err)
}

// affordableProto checks the message in an envelope.
func (c *Codec) affordableProto(ctx context.Context, data []byte, into runtime.Object) error {
	if len(data) < len(ProtoMagic) {
		return nil
	}
	unknown := &runtime.Unknown{}
	if unknown.Unmarshal(data[len(ProtoMagic):]) != nil {
		return nil
	}
	_, err := c.Costs.Protobuf(ctx, unknown.Raw, reflect.TypeOf(into), CostLimits(data))
	return err
}

// CostError returns the client's error for a body that costs too much.
func CostError(err error) error {
	switch {
	case err == nil, errors.Is(err, jsonscan.ErrMalformed):
		return nil
	case errors.Is(err, jsonscan.ErrTooDeep), errors.Is(err, bodycost.ErrTooMuch),
		errors.Is(err, bodycost.ErrMalformed), errors.Is(err, bodycost.ErrQuantity):
		return BadRequest("the body of the request could not be read: %v", err)
	}
	return err // the context's
}

// AppliedLimits returns the limits for an applied configuration: merging it takes about a
// kilobyte for each value.
func AppliedLimits(text []byte) bodycost.Limits {
	return bodycost.Limits{Depth: MaxDepth, Bytes: math.MaxInt, Values: freeValues/2 + len(text)/(2*valueSize)}
}
