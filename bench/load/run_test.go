package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/planekit/planekit/bench/peer"
	"github.com/planekit/planekit/bench/wire"
)

// against returns a side whose server is in this process.
func against(t *testing.T, handler http.HandlerFunc) *side {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	return &side{target: wire.Target{URL: server.URL}, server: &peer.Process{Cmd: &exec.Cmd{Process: self}}}
}

func get(path string) sender {
	return func(int, int) wire.Request { return wire.Request{Method: "GET", Path: path} }
}

// TestLoad: the load has the requested number and duration, and its figures are correct.
func TestLoad(t *testing.T) {
	const slow = 2 * time.Millisecond
	var served atomic.Int64
	s := against(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			served.Add(1)
			pause(r.Context(), slow)
			fmt.Fprint(w, "twelve bytes")
		}
	})
	f, err := s.load(t.Context(), 3, amount{requests: 10}, get("/slow"))
	if n := served.Swap(0); err != nil || n != 10 {
		t.Fatalf("%d requests, want 10: %v", n, err)
	}
	if f.p50 < slow || f.p99 < f.p50 || f.bytes != len("twelve bytes") || f.cpu <= 0 || f.etcd != 0 {
		t.Errorf("load(GET /slow) = %+v, want %v <= p50 <= p99, %d bytes, cpu > 0 and etcd 0", f, slow, len("twelve bytes"))
	}
	if most := 3 / slow.Seconds(); f.perSecond <= 0 || f.perSecond > most {
		t.Errorf("%v/s of three clients that wait for %v", f.perSecond, slow)
	}
	begin := time.Now()
	if _, err := s.load(t.Context(), 2, amount{requests: 1, lasting: 20 * slow}, get("/slow")); err != nil {
		t.Fatal(err)
	}
	if n, took := served.Load(), time.Since(begin); n < 2 || took < 20*slow {
		t.Errorf("%d requests in %v", n, took)
	}
}

// TestLoadFails: an answer that is not a success is an error, and the context limits the wait for a
// server that does not answer.
func TestLoadFails(t *testing.T) {
	s := against(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/refused":
			http.Error(w, "no more", http.StatusTooManyRequests)
		case "/stuck":
			<-r.Context().Done()
		}
	})
	if _, err := s.load(t.Context(), 1, amount{requests: 1}, get("/refused")); err == nil || !strings.Contains(err.Error(), "429") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err := s.load(ctx, 2, amount{requests: 2}, func(int, int) wire.Request {
		cancel()
		return get("/stuck")(0, 0)
	})
	if err == nil {
		t.Error("a load that was cut short had no error")
	}
}
