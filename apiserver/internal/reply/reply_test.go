package reply

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/apiserver/internal/wire"
	corev1 "k8s.io/api/core/v1"
)

// TestBytes checks lengths, bodies and compression.
func TestBytes(t *testing.T) {
	p := &Writer{Codec: wire.NewCodec(), Log: logr.Discard()}
	long := bytes.Repeat([]byte("long "), gzipFrom/5+1)
	for name, test := range map[string]struct {
		method, accepts string
		data            []byte
		zipped          bool
	}{
		"short":            {"GET", "gzip", []byte("short"), false},
		"long":             {"GET", "", long, false},
		"long, zipped":     {"GET", "br, gzip;q=0.5", long, true},
		"long, not zipped": {"GET", "gzip;q=0", long, false},
		"head":             {"HEAD", "", long, false},
	} {
		r := httptest.NewRequest(test.method, "/", nil)
		r.Header.Set("Accept-Encoding", test.accepts)
		w := httptest.NewRecorder()
		p.Bytes(w, r, 200, "text/plain", test.data)
		body := w.Body.Bytes()
		length := strconv.Itoa(len(body))
		if test.method == "HEAD" {
			test.data, length = nil, strconv.Itoa(len(test.data))
		}
		if got := w.Header().Get("Content-Length"); got != length {
			t.Errorf("%s: the Content-Length is %s, want %s", name, got, length)
		}
		if zipped := w.Header().Get("Content-Encoding") == "gzip"; zipped != test.zipped {
			t.Fatalf("%s: zipped: %v", name, zipped)
		} else if zipped {
			z, err := gzip.NewReader(bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			if body, err = io.ReadAll(z); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(body, test.data) {
			t.Errorf("%s: %d bytes, want %d", name, len(body), len(test.data))
		}
	}
}

// broken is an object that cannot be encoded.
type broken struct{ *corev1.Pod }

func (broken) MarshalJSON() ([]byte, error) { return nil, errors.New("broken") }

// TestObject checks that pretty JSON is indented, and that an object that cannot be encoded is an
// error for the client.
func TestObject(t *testing.T) {
	p := &Writer{Codec: wire.NewCodec(), Log: logr.Discard()}
	for _, want := range []bool{true, false} {
		w := httptest.NewRecorder()
		p.Object(w, httptest.NewRequest("GET", "/", nil), 201, wire.Output{Media: wire.JSON, Pretty: want}, &corev1.Pod{})
		if pretty := bytes.Contains(w.Body.Bytes(), []byte("\n  ")); pretty != want || w.Code != 201 {
			t.Errorf("Object with Pretty: %v = %d %s, want 201", want, w.Code, w.Body)
		}
	}
	w := httptest.NewRecorder()
	p.Object(w, httptest.NewRequest("GET", "/", nil), 200, wire.Output{Media: wire.JSON}, broken{&corev1.Pod{}})
	if w.Code != 500 {
		t.Errorf("an object that cannot be encoded: %d %s", w.Code, w.Body)
	}
}
