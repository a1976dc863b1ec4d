package client_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/planekit/planekit/client"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wire encodes and decodes with apimachinery's own codecs, so that the client is not tested against
// itself.
type wire struct {
	t      testing.TB
	codecs serializer.CodecFactory
}

func newWire(t testing.TB) wire {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, policyv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return wire{t, serializer.NewCodecFactory(scheme)}
}

func (w wire) serializer(mediaType string) runtime.SerializerInfo {
	info, ok := runtime.SerializerInfoForMediaType(w.codecs.SupportedMediaTypes(), mediaType)
	if !ok {
		w.t.Fatalf("no serializer for %s", mediaType)
	}
	return info
}

func (w wire) encode(mediaType string, object runtime.Object) []byte {
	codec := w.codecs.EncoderForVersion(w.serializer(mediaType).Serializer, schema.GroupVersion{Version: "v1"})
	data, err := runtime.Encode(codec, object)
	if err != nil {
		w.t.Errorf("encode: %v", err)
	}
	return data
}

// decode decodes the body of a request as a server would.
func (w wire) decode(r *http.Request) runtime.Object {
	var body bytes.Buffer
	if _, err := body.ReadFrom(r.Body); err != nil {
		w.t.Error(err)
	}
	object, _, err := w.serializer(r.Header.Get("Content-Type")).Serializer.Decode(body.Bytes(), nil, nil)
	if err != nil {
		w.t.Errorf("decode %s: %v", r.Header.Get("Content-Type"), err)
	}
	return object
}

// accepted returns the preferred media type of a request.
func accepted(r *http.Request) string {
	first, _, _ := strings.Cut(r.Header.Get("Accept"), ",")
	return first
}

func (w wire) respond(rw http.ResponseWriter, r *http.Request, code int, object runtime.Object) {
	rw.Header().Set("Content-Type", accepted(r))
	rw.WriteHeader(code)
	rw.Write(w.encode(accepted(r), object))
}

func (w wire) fail(rw http.ResponseWriter, r *http.Request, code int32, reason metav1.StatusReason, message string) {
	w.respond(rw, r, int(code), &metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message})
}

// event sends one watch event in the requested encoding.
func (w wire) event(rw http.ResponseWriter, r *http.Request, kind string, object runtime.Object) {
	info := w.serializer(accepted(r))
	e := &metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: w.encode(accepted(r), object)}}
	var frame bytes.Buffer
	if err := info.StreamSerializer.Serializer.Encode(e, &frame); err != nil {
		w.t.Error(err)
	}
	if _, err := info.StreamSerializer.Framer.NewFrameWriter(rw).Write(frame.Bytes()); err != nil {
		return // the client has gone
	}
	rw.(http.Flusher).Flush()
}

// serve starts a server with handler and returns a client of it.
func serve(t testing.TB, c client.Config, handler http.HandlerFunc) *client.Client {
	t.Helper()
	server := httptest.NewServer(handler)
	c.Server = server.URL
	result, err := client.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		result.Close()
		server.Close()
	})
	return result
}

func pod(name, revision string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", ResourceVersion: revision, Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx"}}},
	}
}
