package walk

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/yaml"
)

// types has the Go types of all that comes in protobuf.
var types = func() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(scheme.AddToScheme(s))
	utilruntime.Must(apiextensionsv1.AddToScheme(s))
	utilruntime.Must(apiregistrationv1.AddToScheme(s))
	utilruntime.Must(metav1.AddMetaToScheme(s))
	utilruntime.Must(metav1beta1.AddMetaToScheme(s))
	return s
}()

// documents returns the values that a body consists of: one, or the events of a watch. ok is false for
// what is no object.
func documents(contentType string, body []byte) (all []any, ok bool, err error) {
	media, parameters, _ := mime.ParseMediaType(contentType)
	switch media {
	case "application/json":
		d := json.NewDecoder(bytes.NewReader(body))
		for d.More() {
			var v any
			if err := d.Decode(&v); err != nil {
				return all, true, err
			}
			all = append(all, v)
		}
		return all, true, nil
	case "application/yaml":
		var v any
		err := yaml.Unmarshal(body, &v)
		return []any{v}, true, err
	case "application/cbor":
		var v any
		if err := direct.Unmarshal(body, &v); err != nil {
			return nil, true, err
		}
		v, err := plain(v)
		return []any{v}, true, err
	case "application/cbor-seq":
		reader, frame := cbor.NewFramer().NewFrameReader(io.NopCloser(bytes.NewReader(body))), make([]byte, 1<<20)
		for {
			n, err := reader.Read(frame)
			if errors.Is(err, io.EOF) {
				return all, true, nil
			}
			if err != nil {
				return all, true, err
			}
			var v any
			if err := direct.Unmarshal(frame[:n], &v); err != nil {
				return all, true, err
			}
			if v, err = plain(v); err != nil {
				return all, true, err
			}
			all = append(all, v)
		}
	case "application/vnd.kubernetes.protobuf":
		if parameters["stream"] != "watch" {
			v, err := fromProto(body)
			return []any{v}, true, err
		}
		for len(body) >= 4 {
			n := int(binary.BigEndian.Uint32(body))
			if len(body) < 4+n {
				return all, true, fmt.Errorf("a frame of %d bytes, of which %d came", n, len(body)-4)
			}
			v, err := fromProto(body[4 : 4+n])
			if err != nil {
				return all, true, err
			}
			all, body = append(all, v), body[4+n:]
		}
		return all, true, nil
	}
	return nil, false, nil
}

// plain returns v as encoding/json would decode it.
func plain(v any) (any, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var out any
	err = json.Unmarshal(data, &out)
	return out, err
}

// fromProto decodes an object in protobuf.
func fromProto(data []byte) (any, error) {
	raw, ok := bytes.CutPrefix(data, []byte("k8s\x00"))
	if !ok {
		return nil, fmt.Errorf("%.20q does not begin as protobuf of Kubernetes does", data)
	}
	var unknown runtime.Unknown
	if err := unknown.Unmarshal(raw); err != nil {
		return nil, err
	}
	kind := schema.FromAPIVersionAndKind(unknown.APIVersion, unknown.Kind)
	if kind.Kind == "WatchEvent" {
		var event metav1.WatchEvent
		if err := event.Unmarshal(unknown.Raw); err != nil {
			return nil, err
		}
		object, err := fromProto(event.Object.Raw)
		return map[string]any{"type": event.Type, "object": object}, err
	}
	obj, err := types.New(kind)
	if err != nil {
		return nil, err
	}
	if err := obj.(interface{ Unmarshal([]byte) error }).Unmarshal(unknown.Raw); err != nil {
		return nil, err
	}
	obj.GetObjectKind().SetGroupVersionKind(kind)
	return plain(obj)
}

// toProto encodes an object in protobuf.
func toProto(object map[string]any) ([]byte, error) {
	data, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	obj, err := types.New(schema.FromAPIVersionAndKind(apiVersion, kind))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, obj); err != nil {
		return nil, err
	}
	raw, err := obj.(interface{ Marshal() ([]byte, error) }).Marshal()
	if err != nil {
		return nil, err
	}
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: kind}, Raw: raw}
	data, err = unknown.Marshal()
	return append([]byte("k8s\x00"), data...), err
}

// indented reports whether JSON is written for people.
func indented(body []byte) bool { return strings.Contains(string(body), "\n  ") }
