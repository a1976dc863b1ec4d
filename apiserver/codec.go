package apiserver

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/planekit/planekit/internal/bodycost"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"sigs.k8s.io/yaml"
)

// The media types that objects are read and written in.
const (
	mediaJSON  = runtime.ContentTypeJSON
	mediaYAML  = runtime.ContentTypeYAML
	mediaProto = runtime.ContentTypeProtobuf
)

// protoMagic begins every protobuf object, on the wire and in storage
// (https://kubernetes.io/docs/reference/using-api/api-concepts/#protobuf-encoding).
var protoMagic = []byte("k8s\x00")

// codec holds apimachinery's serializers. They are told the Go type of what
// they decode by whoever calls, so no scheme of types is needed.
type codec struct {
	json, pretty, proto runtime.Serializer
	strictJSON          runtime.Serializer
	costs               bodycost.Types
}

func newCodec() *codec {
	textual := func(o json.SerializerOptions) runtime.Serializer {
		return json.NewSerializerWithOptions(json.DefaultMetaFactory, nil, anyType{}, o)
	}
	return &codec{
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

// canProto reports whether obj has the methods of a protobuf message.
func canProto(obj runtime.Object) bool {
	_, ok := obj.(interface {
		Marshal() ([]byte, error)
		Unmarshal([]byte) error
		Reset()
	})
	return ok
}

func (c *codec) encode(media string, obj runtime.Object) ([]byte, error) {
	var buffer bytes.Buffer
	var err error
	switch media {
	case mediaProto:
		err = c.proto.Encode(obj, &buffer)
	case mediaYAML:
		if err = c.json.Encode(obj, &buffer); err != nil {
			return nil, err
		}
		return yaml.JSONToYAML(escaped(buffer.Bytes()))
	default:
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

// decodeStored reads what kind.encode wrote.
func (c *codec) decodeStored(data []byte, want schema.GroupVersionKind, into runtime.Object) (runtime.Object, error) {
	from := c.json
	if bytes.HasPrefix(data, protoMagic) {
		from = c.proto
	}
	obj, got, err := from.Decode(data, &want, into)
	if err == nil && *got != want {
		err = fmt.Errorf("it is a %s", got)
	}
	return obj, err
}

// decodeBody reads what a client sent as contentType into an empty object,
// which must be of kind want. The returned error list are fields which the
// type does not know or which come twice; they are looked for unless validation
// is Ignore.
func (c *codec) decodeBody(ctx context.Context, body []byte, contentType, validation string, want schema.GroupVersionKind, into runtime.Object) ([]error, error) {
	from, err := c.reader(contentType, validation, into)
	if err != nil {
		return nil, err
	}
	if contentType != mediaProto && !utf8.Valid(body) {
		return nil, badRequest("the body of the request is not valid UTF-8")
	}
	data, twice, err := c.asJSON(ctx, body, contentType, validation != metav1.FieldValidationIgnore)
	if err != nil {
		return nil, badRequest("the object provided is unrecognized (must be of type %s): %v (%s)", want.Kind, err, summary(body))
	}
	if err := c.affordable(ctx, data, contentType, into); err != nil {
		return nil, err
	}
	_, got, err := from.Decode(data, &want, into)
	var unknown []error
	if twice != nil {
		unknown = append(unknown, twice)
	}
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		unknown, err = append(unknown, strict.Errors()...), nil
	}
	if got != nil && *got != want {
		if got.GroupVersion() != want.GroupVersion() {
			return nil, badRequest("the API version in the data (%s) does not match the expected API version (%s)", got.GroupVersion(), want.GroupVersion())
		}
		return nil, badRequest("%s in version %q cannot be handled as a %s", got.Kind, got.Version, want.Kind)
	}
	if err != nil && got == nil {
		return nil, badRequest("the object provided is unrecognized (must be of type %s): %v (%s)", want.Kind, err, summary(body))
	}
	if err != nil {
		return nil, badRequest("%s in version %q cannot be handled as a %s: %v", want.Kind, want.Version, want.Kind, err)
	}
	return unknown, nil
}

// asJSON returns YAML as JSON, with an error for keys that come twice, if strict. Anything
// else it returns as it is.
func (c *codec) asJSON(ctx context.Context, body []byte, contentType string, strict bool) (data []byte, twice, err error) {
	if contentType != mediaYAML {
		return body, nil, nil
	}
	return yamlToJSON(ctx, body, strict)
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

// reader returns what reads an object of into's type. YAML must have been made JSON.
func (c *codec) reader(contentType, validation string, into runtime.Object) (runtime.Serializer, error) {
	strict := validation != metav1.FieldValidationIgnore
	text := contentType == mediaJSON || contentType == mediaYAML
	switch {
	case contentType == mediaProto && canProto(into):
		return c.proto, nil
	case text && strict:
		return c.strictJSON, nil
	case text:
		return c.json, nil
	}
	accepted := "application/json, application/yaml"
	if canProto(into) {
		accepted += ", " + mediaProto
	}
	return nil, unsupportedMedia(accepted)
}

func unsupportedMedia(accepted string) error {
	return statusError(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType,
		"the body of the request was in an unknown format - accepted media types include: %s", accepted)
}

// strictError is the refusal of unknown or duplicate fields under
// fieldValidation=Strict.
func strictError(want schema.GroupVersionKind, unknown []error) error {
	return badRequest("%s in version %q cannot be handled as a %s: %v", want.Kind, want.Version, want.Kind, runtime.NewStrictDecodingError(unknown))
}
