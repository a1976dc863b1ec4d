package server_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/planekit/planekit/kubelet/server"
	"github.com/planekit/planekit/localcache"
)

// runtimeStream is a runtime's streaming server: it upgrades the connection and
// hands it to serve.
func runtimeStream(t *testing.T, serve func(*http.Request, net.Conn, io.Reader)) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n")
		serve(r, conn, rw)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/token"
}

func echo(_ *http.Request, conn net.Conn, from io.Reader) { io.Copy(conn, from) }

func TestStreams(t *testing.T) {
	k := start(t, nil)
	var credentials atomic.Value
	k.runtime.stream = runtimeStream(t, func(r *http.Request, c net.Conn, from io.Reader) {
		credentials.Store(r.Header.Get("Authorization"))
		echo(r, c, from)
	})
	for path, want := range map[string]string{
		"/exec/default/web/c?command=sh&command=-c&command=a+b&input=1&output=1&error=1": `container_id:"now"  cmd:"sh"  cmd:"-c"  cmd:"a b"  stdin:true  stdout:true  stderr:true`,
		"/exec/default/web/uid-web/c?command=sh&tty=1&input=1&output=1&error=1":          `container_id:"now"  cmd:"sh"  tty:true  stdin:true  stdout:true`,
		"/attach/default/web/c?output=1":                                                 `container_id:"now"  stdout:true`,
		"/attach/default/web/uid-web/c?output=true&error=true":                           `container_id:"now"  stdout:true  stderr:true`,
		"/attach/default/web/terminal?input=1&output=1&error=1":                          `container_id:"terminal"  stdin:true  tty:true  stdout:true`,
		"/attach/default/web/c?input=1&output=1&tty=1":                                   `container_id:"now"  stdin:true  stdout:true`,
		"/portForward/default/web":                                                       `pod_sandbox_id:"sandbox"`,
		// In SPDY, streams name their ports.
		"/portForward/default/web/uid-web?port=80&port=x": `pod_sandbox_id:"sandbox"`,
	} {
		conn, reader := k.dial(path)
		fmt.Fprint(conn, "ping\n")
		if line, err := reader.ReadString('\n'); err != nil || line != "ping\n" {
			t.Errorf("%s answers %q, %v, want \"ping\\n\"", path, line, err)
		}
		conn.Close()
		// The text form of messages has one or two blanks between fields.
		if got := strings.Join(strings.Fields(k.runtime.asked.Load().(string)), " "); got != strings.Join(strings.Fields(want), " ") {
			t.Errorf("%s: the runtime was asked for %s, want %s", path, got, want)
		}
		if credentials.Load() != "" {
			t.Errorf("the runtime was shown %q", credentials.Load())
		}
	}
}

// upgrade sends a request for SPDY/3.1 that is refused, and returns the answer's code and text.
func (k *kubelet) upgrade(path string) (int, string) {
	k.t.Helper()
	r, err := http.NewRequestWithContext(k.t.Context(), http.MethodPost, k.url+path, nil)
	if err != nil {
		k.t.Fatal(err)
	}
	r.Header = http.Header{"User": {"root"}, "Connection": {"Upgrade"}, "Upgrade": {"SPDY/3.1"}}
	answer, err := k.client.Do(r)
	if err != nil {
		k.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		k.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// TestStreamsThatAreRefused: codes and words are those of the Kubernetes kubelet, but for a missing command and what
// reaches the runtime.
func TestStreamsThatAreRefused(t *testing.T) {
	k := start(t, func(c *server.Config) { c.Pods = localcache.NewMap(webPod(), endedPod()) })
	refuse := func(path string, code int, text string) {
		t.Helper()
		if got, body := k.upgrade(path); got != code || body != text {
			t.Errorf("upgrade %s = %d %q, want %d %q", path, got, body, code, text)
		}
	}
	for path, want := range map[string]struct {
		code int
		text string
	}{
		"/exec/default/web/c?output=1":                     {400, "you must specify a command"},
		"/exec/default/web/c?command=x":                    {400, "you must specify at least 1 of stdin, stdout, stderr"},
		"/exec/default/web/slow?command=x&output=1":        {500, "container not found (\"slow\")"},
		"/exec/default/none/c?command=x&output=1":          {404, "pod does not exist"},
		"/exec/default/web/other-uid/c?command=x&output=1": {404, "pod does not exist"},
		"/exec/default/web/c?command=x&output=1&input=1":   {501, "nothing to connect to"},
		"/attach/default/web/slow?output=1":                {500, "container slow not found in pod web_default"},
		"/attach/default/none/c?output=1":                  {404, "pod does not exist"},
		"/attach/default/web/other-uid/c?output=1":         {500, "pod web_default not found"},
		"/attach/default/web/c?output=1":                   {501, "nothing to connect to"},
		"/portForward/default/none":                        {404, "pod does not exist"},
		"/portForward/default/web/other-uid":               {404, "pod not found"},
		"/portForward/default/ended":                       {500, "pod not found (\"ended_default\")"},
		"/portForward/default/web":                         {501, "nothing to connect to"},
	} {
		refuse(path, want.code, want.text)
	}
	k.runtime.stream = "unix:///run/stream"
	refuse("/attach/default/web/c?output=1", 500, "the runtime gave no URL to stream to")
	k.runtime.stream = "http://127.0.0.1:1/token"
	refuse("/attach/default/web/c?output=1", 502, "the runtime's stream could not be reached")
}

// TestNoUpgrade: a runtime that answers without an upgrade is no success.
func TestNoUpgrade(t *testing.T) {
	k := start(t, nil)
	runtime := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer runtime.Close()
	k.runtime.stream = runtime.URL + "/token"
	const path, want = "/portForward/default/web", "invalid upgrade response: status code 200\n"
	if code, text := k.upgrade(path); code != 500 || text != want {
		t.Errorf("upgrade %s at a runtime that answers 200 = %d %q, want 500 %q", path, code, text, want)
	}
}

// TestStreamsWithoutUpgrade: a request that asks for no upgrade does not reach the runtime.
func TestStreamsWithoutUpgrade(t *testing.T) {
	k := start(t, nil)
	for _, path := range []string{"/exec/default/web/c?command=x&output=1", "/exec/default/web/c?output=1", "/attach/default/web/c?output=1", "/portForward/default/web", "/portForward/default/web?port=x"} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			k.want(method, "root", path, 500, "Upgrade request required\n")
		}
	}
	if got := k.runtime.asked.Load(); got != nil {
		t.Errorf("the runtime was asked for %v, want nothing", got)
	}
}

// TestExecOutputIsBounded: a command that never ends its output is stopped by a
// client that does not read, before much has piled up.
func TestExecOutputIsBounded(t *testing.T) {
	k := start(t, nil)
	written := make(chan int64, 1)
	k.runtime.stream = runtimeStream(t, func(_ *http.Request, conn net.Conn, _ io.Reader) {
		var n int64
		block := make([]byte, 64<<10)
		for n < 1<<30 {
			conn.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
			m, err := conn.Write(block)
			n += int64(m)
			if err != nil {
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Error(err)
				}
				break
			}
		}
		written <- n
	})
	k.dial("/exec/default/web/c?command=yes&output=1")
	// What the sockets on the way hold is the kernel's affair, some MB each.
	if n := <-written; n > 128<<20 {
		t.Errorf("%d bytes were taken with nobody reading", n)
	}
}

// TestIdleStreamsEnd: a stream on which nothing moves is ended by the server, not
// before its time. TestIdleConn has what keeps one.
func TestIdleStreamsEnd(t *testing.T) {
	const idle = 300 * time.Millisecond
	k := start(t, func(c *server.Config) { c.Streams.Idle = idle })
	k.runtime.stream = runtimeStream(t, echo)
	begin := time.Now()
	conn, reader := k.dial("/attach/default/web/c?output=1")
	conn.SetDeadline(time.Time{})
	fmt.Fprintln(conn, "ping") // fails if the machine sleeps that long now
	for line, err := reader.ReadString('\n'); err == nil; line, err = reader.ReadString('\n') {
		if line != "ping\n" {
			t.Errorf("read %q", line)
		}
	}
	if took := time.Since(begin); took < idle {
		t.Errorf("it ended after %v", took)
	}
}

// TestHalfOpenStreams: streams on which the client sends nothing end soon, and no more
// are open than may be.
func TestHalfOpenStreams(t *testing.T) {
	const most = 5
	k := start(t, func(c *server.Config) { c.MaxStreams, c.Streams.Handshake = most, 2*time.Second })
	var open atomic.Int64
	k.runtime.stream = runtimeStream(t, func(r *http.Request, c net.Conn, from io.Reader) {
		open.Add(1)
		defer open.Add(-1)
		echo(r, c, from)
	})
	var ends []*bufio.Reader
	for range most {
		_, reader := k.dial("/exec/default/web/c?command=x&output=1")
		ends = append(ends, reader)
	}
	for _, path := range []string{"/exec/default/web/c?command=x&output=1", "/portForward/default/web"} {
		const want = "the kubelet has 5 streams open, which is the most"
		if code, text := k.upgrade(path); code != http.StatusTooManyRequests || text != want {
			t.Errorf("upgrade %s with all streams open = %d %q, want 429 %q", path, code, text, want)
		}
	}
	for _, end := range ends {
		if _, err := io.Copy(io.Discard, end); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
	}
	for deadline := time.Now().Add(time.Minute); open.Load() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d are open at the runtime", open.Load())
		}
	}
	conn, _ := k.dial("/exec/default/web/c?command=x&output=1") // there is room again
	fmt.Fprint(conn, "GET / HTTP/1.1\r\n\r\n")                  // no frame: it ends at once
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
}

func TestStopEndsStreams(t *testing.T) {
	k := start(t, nil)
	ended := make(chan error, 1)
	k.runtime.stream = runtimeStream(t, func(_ *http.Request, _ net.Conn, from io.Reader) {
		_, err := io.Copy(io.Discard, from)
		ended <- err
	})
	_, reader := k.dial("/exec/default/web/c?command=cat&input=1")
	k.stop()
	<-ended
	if _, err := reader.ReadByte(); err == nil {
		t.Error("the client was not cut off")
	}
}
