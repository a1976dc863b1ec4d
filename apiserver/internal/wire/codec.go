// Package wire reads and writes bodies: it negotiates media types, decodes JSON, YAML, CBOR and protobuf
// into objects of given Go types at a bounded cost, and encodes objects.
//
// Its errors are API status errors, which a client may see.
package wire

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/planekit/planekit/internal/bodycost"
	"github.com/planekit/planekit/internal/budget"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"sigs.k8s.io/yaml"
)

// The media types that objects are read and written in.
const (
	JSON  = runtime.ContentTypeJSON
	YAML  = runtime.ContentTypeYAML
	Proto = runtime.ContentTypeProtobuf
)

// ProtoMagic begins every protobuf object, on the wire and in storage
// (https://kubernetes.io/docs/reference/using-api/api-concepts/#protobuf-encoding).
var ProtoMagic = []byte("k8s\x00")

// A Codec holds apimachinery's serializers. Their callers pass the Go type to decode into,
// so no scheme of types is needed.
type Codec struct {
	json, pretty, proto runtime.Serializer
	strictJSON          runtime.Serializer
	// Costs estimates what it costs to decode bodies.
	Costs bodycost.Types
}

// NewCodec returns a codec.
func NewCodec() *Codec {
	textual := func(o json.SerializerOptions) runtime.Serializer {
		return json.NewSerializerWithOptions(json.DefaultMetaFactory, nil, anyType{}, o)
	}
	return &Codec{
		json:       textual(json.SerializerOptions{}),
		pretty:     textual(json.SerializerOptions{Pretty: true}),
		strictJSON: textual(json.SerializerOptions{Strict: true}),
		proto:      protobuf.NewSerializer(nil, anyType{}),
	}
}

// anyType lets a serializer decode into whatever it is given.
type anyType struct{}

func (anyType) ObjectKinds(obj runtime.Object) ([]schema.GroupVersionKind, bool, error) {
	return nil, false, runtime.NewNotRegisteredErrForType("apiserver", nil)
}

func (anyType) Recognizes(schema.GroupVersionKind) bool { return false }

// CanProto reports whether obj has the methods of a protobuf message.
func CanProto(obj runtime.Object) bool {
	_, ok := obj.(interface {
		Marshal() ([]byte, error)
		Unmarshal([]byte) error
		Reset()
	})
	return ok
}

// DecodeProto reads a protobuf object into an object of its type.
func (c *Codec) DecodeProto(data []byte, into runtime.Object) error {
	_, _, err := c.proto.Decode(data, nil, into)
	return err
}

// EncodePretty writes obj as indented JSON.
func (c *Codec) EncodePretty(obj runtime.Object) ([]byte, error) {
	var buffer bytes.Buffer
	err := c.pretty.Encode(obj, &buffer)
	return buffer.Bytes(), err
}

// Encode writes obj in a media type: JSON, YAML, CBOR or protobuf. JSON ends with a newline.
func (c *Codec) Encode(media string, obj runtime.Object) ([]byte, error) {
	var buffer bytes.Buffer
	var err error
	switch media {
	case Proto:
		err = c.proto.Encode(obj, &buffer)
	case CBOR:
		if err = c.json.Encode(obj, &buffer); err != nil {
			return nil, err
		}
		return JSONToCBOR(buffer.Bytes())
	case YAML:
		if err = c.json.Encode(obj, &buffer); err != nil {
			return nil, err
		}
		return yaml.JSONToYAML(escaped(buffer.Bytes()))
	default:
		if own, ok := obj.(interface{ MarshalJSON() ([]byte, error) }); ok { // whose JSON the encoder would read and write once more
			data, err := own.MarshalJSON()
			return append(data, '\n'), err
		}
		err = c.json.Encode(obj, &buffer)
	}
	return buffer.Bytes(), err
}

// escaped is JSON without the characters that YAML has only as escapes, or breaks
// lines at (https://yaml.org/spec/1.2.2/#51-character-set). Strings of objects
// and messages may hold them.
func escaped(data []byte) []byte {
	out := bytes.NewBuffer(make([]byte, 0, len(data)))
	for _, r := range string(data) {
		if r >= 0x7f && r < 0xa0 || r == 0xfeff || r == 0xfffe || r == 0xffff {
			fmt.Fprintf(out, "\\u%04x", r)
			continue
		}
		out.WriteRune(r)
	}
	return out.Bytes()
}

// DecodeStored reads a stored object, which Encode has written. got is the kind that the data names,
// also if that is not the kind wanted, which is an error.
func (c *Codec) DecodeStored(data []byte, want schema.GroupVersionKind, into runtime.Object) (obj runtime.Object, got schema.GroupVersionKind, err error) {
	from := c.json
	if bytes.HasPrefix(data, ProtoMagic) {
		from = c.proto
	}
	obj, named, err := from.Decode(data, &want, into)
	if named != nil {
		got = *named
	}
	if err == nil && got != want {
		err = fmt.Errorf("it is a %s", got)
	}
	return obj, got, err
}

// Checked is an object whose Go type holds any fields, and that compares itself with a schema when it is
// decoded.
type Checked interface {
	// Unknown returns the fields that were decoded and are not in the schema, or an error if the
	// object is malformed. It reports them once.
	Unknown() ([]string, error)
}

// Bounded is an object that is completed when it is decoded, which may take much more than its text does.
type Bounded interface {
	// Within makes the next decoding or completion charge the budget of ctx.
	Within(ctx context.Context)
}

// DecodeBody reads what a client sent as contentType into an empty object,
// which must be of kind want. The returned error list are fields which the
// type does not know or which come twice; they are looked for unless validation
// is Ignore. The body may also be of an older version of the kind which has the same form.
func (c *Codec) DecodeBody(ctx context.Context, body []byte, contentType, validation string, want schema.GroupVersionKind, into runtime.Object, older ...string) ([]error, error) {
	from, err := c.Reader(contentType, validation, into)
	if err != nil {
		return nil, err
	}
	if contentType != Proto && !utf8.Valid(body) {
		return nil, BadRequest("the body of the request is not valid UTF-8")
	}
	data, twice, err := c.AsJSON(ctx, body, contentType, validation != metav1.FieldValidationIgnore)
	if err != nil {
		return nil, BadRequest("the object provided is unrecognized (must be of type %s): %v (%s)", want.Kind, err, summary(body))
	}
	if err := c.Affordable(ctx, data, contentType, into); err != nil {
		return nil, err
	}
	if bounded, ok := into.(Bounded); ok {
		bounded.Within(ctx)
	}
	_, got, err := from.Decode(data, &want, into)
	if err := budget.From(ctx).Err(); err != nil {
		return nil, err
	}
	var unknown []error
	if twice != nil {
		unknown = append(unknown, twice)
	}
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		unknown, err = append(unknown, strict.Errors()...), nil
	}
	if checked, ok := into.(Checked); ok && err == nil {
		var names []string
		if names, err = checked.Unknown(); validation != metav1.FieldValidationIgnore {
			for _, name := range names {
				unknown = append(unknown, fmt.Errorf("unknown field %q", name))
			}
		}
	}
	if got != nil && got.Kind == "" {
		got = nil // an object of any kind that does not say which
	}
	if got != nil && got.Group == want.Group && slices.Contains(older, got.Version) {
		got.Version = want.Version
	}
	if got != nil && *got != want {
		if got.GroupVersion() != want.GroupVersion() {
			return nil, BadRequest("the API version in the data (%s) does not match the expected API version (%s)", got.GroupVersion(), want.GroupVersion())
		}
		return nil, BadRequest("%s in version %q cannot be handled as a %s", got.Kind, got.Version, want.Kind)
	}
	if err != nil && got == nil {
		return nil, BadRequest("the object provided is unrecognized (must be of type %s): %v (%s)", want.Kind, err, summary(body))
	}
	if err != nil {
		return nil, BadRequest("%s in version %q cannot be handled as a %s: %v", want.Kind, want.Version, want.Kind, err)
	}
	return unknown, nil
}

// AsJSON returns YAML as JSON, with an error for keys that come twice, if strict. Anything
// else it returns as it is.
func (c *Codec) AsJSON(ctx context.Context, body []byte, contentType string, strict bool) (data []byte, twice, err error) {
	if contentType != YAML {
		return body, nil, nil
	}
	return YAMLToJSON(ctx, body, strict)
}

// summary is the beginning of a body, for people: JSON as it is, anything else in
// hexadecimal.
func summary(body []byte) string {
	const most = 30
	switch {
	case len(body) == 0:
		return "<empty>"
	case body[0] == '{' && len(body) > most:
		return strings.ToValidUTF8(string(body[:most]), "") + " ..."
	case body[0] == '{':
		return string(body)
	case len(body) > most:
		return hex.EncodeToString(body[:most]) + " ..."
	}
	return hex.EncodeToString(body)
}

// Reader returns what reads an object of into's type. YAML must have been made JSON.
func (c *Codec) Reader(contentType, validation string, into runtime.Object) (runtime.Serializer, error) {
	strict := validation != metav1.FieldValidationIgnore
	text := contentType == JSON || contentType == YAML
	switch {
	case contentType == Proto && CanProto(into):
		return c.proto, nil
	case text && strict:
		return c.strictJSON, nil
	case text:
		return c.json, nil
	}
	accepted := "application/json, application/yaml"
	if CanProto(into) {
		accepted += ", " + Proto
	}
	return nil, UnsupportedMedia(accepted)
}

// UnsupportedMedia returns the error for a body of a media type that is not accepted.
func UnsupportedMedia(accepted string) error {
	return StatusError(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType,
		"the body of the request was in an unknown format - accepted media types include: %s", accepted)
}

// StrictError is the refusal of unknown or duplicate fields under
// fieldValidation=Strict.
func StrictError(want schema.GroupVersionKind, unknown []error) error {
	return BadRequest("%s in version %q cannot be handled as a %s: %v", want.Kind, want.Version, want.Kind, runtime.NewStrictDecodingError(unknown))
}
