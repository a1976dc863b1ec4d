package wire_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/bench/wire"
)

// serve starts an HTTP/2 server over TLS and returns its address.
func serve(t *testing.T, handler http.HandlerFunc) wire.Target {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return wire.Target{URL: server.URL, Token: "secret"}
}

func TestDo(t *testing.T) {
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<20) // 16 MiB, more than a window
	target := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/echo":
			fmt.Fprint(w, r.Proto, " ", r.Method, " ", r.Header.Get("Authorization"), " ", r.Header.Get("Content-Type"), " ", string(body))
		case "/big":
			_, _ = w.Write(big)
		default:
			w.WriteHeader(http.StatusConflict)
			fmt.Fprint(w, `{"kind": "Status", "message": "it is there already"}`)
		}
	})
	conn, err := wire.Dial(target)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for range 3 {
		body, err := conn.Do(wire.Request{Method: "POST", Path: "/echo", ContentType: "text/plain", Body: []byte("hello")}, nil)
		if want := "HTTP/2.0 POST Bearer secret text/plain hello"; err != nil || string(body) != want {
			t.Fatalf("%q %v, want %q", body, err, want)
		}
		if body, err = conn.Do(wire.Request{Method: "GET", Path: "/big"}, body); err != nil || !bytes.Equal(body, big) {
			t.Fatalf("%d bytes, %v", len(body), err)
		}
		_, err = conn.Do(wire.Request{Method: "GET", Path: "/none"}, nil)
		if err == nil || !strings.Contains(err.Error(), "409 it is there already") {
			t.Fatal(err)
		}
	}
}

// TestFrames: the events do not depend on how the stream is split.
func TestFrames(t *testing.T) {
	var stream []byte
	var want []string
	for _, event := range []string{"one", "", "three", strings.Repeat("x", 1000)} {
		stream = append(binary.BigEndian.AppendUint32(stream, uint32(len(event))), event...)
		want = append(want, event)
	}
	for size := 1; size <= len(stream); size++ {
		var got []string
		frames := wire.Frames{Event: func(event []byte) error {
			got = append(got, string(event))
			return nil
		}}
		for part := range slices.Chunk(stream, size) {
			if err := frames.Write(part); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("in parts of %d: %q", size, got)
		}
	}
}
