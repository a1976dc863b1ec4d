package wire

import (
	"context"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestNegotiate(t *testing.T) {
	const table, metadata, groups = ";as=Table;v=v1;g=meta.k8s.io", ";as=PartialObjectMetadata;v=v1;g=meta.k8s.io", ";as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io"
	all := Accepts{Proto: true, Tables: true, Parts: true, Groups: true}
	for _, test := range []struct {
		accept string
		can    Accepts
		want   Output // zero means 406
	}{
		{"", Accepts{}, Output{Media: JSON}},
		{"*/*", Accepts{}, Output{Media: JSON}},
		{"application/*", Accepts{}, Output{Media: JSON}},
		{"text/html, */*;q=0.1", Accepts{}, Output{Media: JSON}},
		{YAML, Accepts{}, Output{Media: YAML}},
		{YAML, Accepts{Stream: true}, Output{}},
		{YAML + "," + JSON, Accepts{Stream: true}, Output{}},
		{JSON + ";stream=watch", Accepts{Stream: true}, Output{Media: JSON}},
		{JSON + ";stream=other", Accepts{}, Output{}},
		{YAML + ";stream=watch", Accepts{}, Output{}},
		{JSON + ";pretty=1", Accepts{}, Output{Media: JSON, Pretty: true}},
		{JSON + ";charset=utf-8;x", Accepts{}, Output{Media: JSON}},
		{"APPLICATION/JSON", Accepts{}, Output{}},
		{"*", Accepts{}, Output{Media: JSON}},
		{CBOR, Accepts{}, Output{}},
		{CBOR, Accepts{CBOR: true}, Output{Media: CBOR}},
		{Proto, all, Output{Media: Proto}},
		{Proto, Accepts{}, Output{}},
		{Proto + "," + JSON, Accepts{}, Output{Media: JSON}},
		{JSON + ";q=0.5," + YAML, Accepts{}, Output{Media: YAML}},
		{"*/*," + YAML, Accepts{}, Output{Media: YAML}},
		{JSON + ";q=0", Accepts{}, Output{Media: JSON}},
		{JSON + ";q=0," + YAML + ";q=0.1", Accepts{}, Output{Media: YAML}},
		{JSON + table, all, Output{Media: JSON, Shape: Table}},
		{"*/*" + table, all, Output{Media: JSON, Shape: Table}},
		{JSON + ";v=v1;g=meta.k8s.io", all, Output{}},
		{JSON + table, Accepts{}, Output{}},
		{JSON + table + "," + JSON, Accepts{}, Output{Media: JSON}},
		{Proto + table + "," + JSON + table, all, Output{Media: JSON, Shape: Table}},
		{JSON + ";as=Table;v=v1beta1;g=meta.k8s.io", all, Output{Media: JSON, Shape: Table, Beta: true}},
		{Proto + metadata, all, Output{Media: Proto, Shape: Metadata}},
		{JSON + groups, all, Output{Media: JSON, Shape: Groups}},
		{YAML + groups, all, Output{}},
		{JSON + ";as=APIGroupDiscoveryList;v=v2beta1;g=apidiscovery.k8s.io", all, Output{}},
		{"text/plain", all, Output{}},
		{";;;", all, Output{}},
	} {
		r := &http.Request{URL: &url.URL{}, Header: http.Header{"Accept": {test.accept}}}
		got, err := Negotiate(r, test.can)
		if got != test.want || (err != nil) != (test.want == Output{}) || err != nil && apierrors.ReasonForError(err) != metav1.StatusReasonNotAcceptable {
			t.Errorf("%q for %+v: %+v %v, want %+v", test.accept, test.can, got, err, test.want)
		}
	}
}

// TestPretty checks who gets indented JSON: clients that ask for it, and people with curl or a browser.
func TestPretty(t *testing.T) {
	for _, test := range []struct {
		query, agent string
		want         bool
	}{
		{"", "", false}, {"pretty=true", "", true}, {"pretty=1", "", true}, {"pretty=yes", "", false}, {"pretty=", "", false},
		{"", "curl/8.5.0", true}, {"", "Mozilla/5.0 (X11)", true}, {"", "kubectl/v1.36.3", false}, {"pretty=0", "curl/8.5.0", false}, {"pretty=", "Wget/1.21", true},
	} {
		r := &http.Request{URL: &url.URL{RawQuery: test.query}, Header: http.Header{"User-Agent": {test.agent}}}
		if got, err := Negotiate(r, Accepts{}); err != nil || got.Pretty != test.want {
			t.Errorf("Negotiate of ?%s by %q = %+v, %v, want Pretty: %v", test.query, test.agent, got, err, test.want)
		}
	}
}

func TestContentType(t *testing.T) {
	for header, want := range map[string]string{
		"": JSON, "application/yaml; charset=utf-8": YAML, "Application/JSON": JSON, "no/type;;=": "no/type;;=",
	} {
		if got := ContentType(&http.Request{Header: http.Header{"Content-Type": {header}}}); got != want {
			t.Errorf("%q: %q, want %q", header, got, want)
		}
	}
}

var configMap = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}

// TestRound: what is encoded in a media type is decoded as the same object.
func TestRound(t *testing.T) {
	c := NewCodec()
	want := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"x": "y"}},
		// Characters that YAML has only as escapes, or breaks lines at.
		Data: map[string]string{"k": "\u0085\u2028\ufeff\uffff\x7f end", "empty": ""}, BinaryData: map[string][]byte{"b": {0, 1, 2}},
	}
	for _, media := range []string{JSON, YAML, Proto} {
		data, err := c.Encode(media, want)
		if err != nil {
			t.Fatal(err)
		}
		got := &corev1.ConfigMap{}
		unknown, err := c.DecodeBody(t.Context(), data, media, metav1.FieldValidationStrict, configMap, got)
		got.TypeMeta = want.TypeMeta // which protobuf has beside the object
		if err != nil || unknown != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("DecodeBody of what Encode(%s) made = %+v, unknown %v, %v, want %+v and nothing unknown", media, got, unknown, err, want)
		}
		if media == YAML {
			continue
		}
		stored := &corev1.ConfigMap{}
		_, _, err = c.DecodeStored(data, configMap, stored)
		stored.TypeMeta = want.TypeMeta
		if err != nil || !reflect.DeepEqual(stored, want) {
			t.Errorf("%s, stored: %+v %v", media, stored, err)
		}
		_, kind, err := c.DecodeStored(data, schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, &corev1.Secret{})
		if err == nil || kind != configMap {
			t.Errorf("%s: it was taken for a Secret: %v %v", media, kind, err)
		}
	}
}

func TestDecodeBody(t *testing.T) {
	c := NewCodec()
	deep := strings.Repeat(`{"a":`, MaxDepth+1) + "1" + strings.Repeat("}", MaxDepth+1)
	for _, test := range []struct {
		body, media, validation string
		unknown                 []string // parts of the problems of fields
		err                     string   // a part of the error
	}{
		{`{"data":{"a":"b"}}`, JSON, "", nil, ""},
		{`{"dat":{},"data":{"a":"1","a":"2"}}`, JSON, metav1.FieldValidationWarn, []string{`unknown field "dat"`, `duplicate field "data.a"`}, ""},
		{`{"dat":{},"data":{"a":"1","a":"2"}}`, JSON, metav1.FieldValidationIgnore, nil, ""},
		{"data: {a: b}\ndat: {}\n", YAML, "", []string{`unknown field "dat"`}, ""},
		{"data: {a: '1', a: '2'}\n", YAML, "", []string{`key "a" already set in map`}, ""},
		{`{"kind":"Secret","apiVersion":"v1"}`, JSON, "", nil, `Secret in version "v1" cannot be handled as a ConfigMap`},
		{`{"kind":"ConfigMap","apiVersion":"apps/v1"}`, JSON, "", nil, "the API version in the data (apps/v1) does not match the expected API version (v1)"},
		{`{"data":[]}`, JSON, "", nil, `ConfigMap in version "v1" cannot be handled as a ConfigMap: json:`},
		{`{`, JSON, "", nil, "({)"},
		{"", JSON, "", nil, "(<empty>)"},
		{"{\"data\":{\"a\":\"\xff\"}}", JSON, "", nil, "not valid UTF-8"},
		{`{"data":` + deep + `}`, JSON, "", nil, "could not be read"},
		{"a: &a [x]\nb: *a\nc: [", YAML, "", nil, "the object provided is unrecognized (must be of type ConfigMap)"},
		{"{}", "text/plain", "", nil, "accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf"},
		{"k8s\x00\xff\xff", Proto, "", nil, "the object provided is unrecognized"},
	} {
		unknown, err := c.DecodeBody(t.Context(), []byte(test.body), test.media, test.validation, configMap, &corev1.ConfigMap{})
		if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
			t.Errorf("%.60q: error %v, want %s", test.body, err, test.err)
		}
		if len(unknown) != len(test.unknown) {
			t.Errorf("%.60q: %v, want %q", test.body, unknown, test.unknown)
			continue
		}
		for _, part := range test.unknown {
			if !slices.ContainsFunc(unknown, func(err error) bool { return strings.Contains(err.Error(), part) }) {
				t.Errorf("%.60q: %v, want %q", test.body, unknown, part)
			}
		}
	}
}

// FuzzDecodeBody: a body is decoded or refused, and neither takes a request's end for the client's error.
func FuzzDecodeBody(f *testing.F) {
	for _, seed := range []string{`{"data":{"a":"b"}}`, "data: {a: b}", "k8s\x00", "a: &a [*a]", `{"a":[[[[`} {
		f.Add([]byte(seed), 0)
		f.Add([]byte(seed), 1)
		f.Add([]byte(seed), 2)
	}
	c := NewCodec()
	f.Fuzz(func(t *testing.T, body []byte, media int) {
		list := []string{JSON, YAML, Proto}
		_, err := c.DecodeBody(context.Background(), body, list[uint(media)%3], "", configMap, &corev1.ConfigMap{})
		if err != nil && !apierrors.IsBadRequest(err) {
			t.Errorf("DecodeBody(%q) of %s has the error %T %v, want a bad request", body, list[uint(media)%3], err, err)
		}
	})
}
