package nodeproxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/planekit/planekit/apiserver/nodeproxy"
)

// patience is how long a test waits for what must come.
const patience = time.Minute

// spdyPing is a frame that clients of SPDY may begin with.
const spdyPing = "\x80\x03\x00\x06\x00\x00\x00\x04\x00\x00\x00\x01"

// stream is a connection that a client has asked to be upgraded.
type stream struct {
	net.Conn
	reader *bufio.Reader
	code   int
	text   string // of the answer, unless it is an upgrade
	retry  string
}

func (n *node) open(user, path, protocol string) (*stream, error) {
	conn, err := net.Dial("tcp", n.front.Listener.Addr().String())
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: api\r\nUser: %s\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", path, user, protocol)
	s := &stream{Conn: conn, reader: bufio.NewReader(conn)}
	answer, err := http.ReadResponse(s.reader, nil)
	if err != nil {
		return nil, err
	}
	s.code, s.retry = answer.StatusCode, answer.Header.Get("Retry-After")
	if s.code != http.StatusSwitchingProtocols {
		body, err := io.ReadAll(answer.Body)
		s.text = string(body)
		return s, err
	}
	return s, nil
}

func (n *node) mustOpen(t *testing.T, user, path, protocol string) *stream {
	t.Helper()
	s, err := n.open(user, path, protocol)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// ends waits until the other end closes the stream.
func (s *stream) ends() error {
	_, err := io.Copy(io.Discard, s.reader)
	return err
}

// limited puts a proxy with other limits before the node.
func (n *node) limited(t *testing.T, change func(*nodeproxy.Config)) {
	n.proxy = newProxy(t, n, n.tls, change)
	n.serve(t, testPod("node-1"))
}

const execPath = podPath + "exec?container=a&command=x&stdout=true"

// files counts the open files of this process.
func files(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}

// TestHalfOpenStreams: of 5,000 upgrades that nothing follows, a user gets its share,
// others are not kept out, and all are gone soon.
func TestHalfOpenStreams(t *testing.T) {
	var open atomic.Int64
	n := startNode(t, func(w http.ResponseWriter, r *http.Request) {
		open.Add(1)
		defer open.Add(-1)
		upgrading(t)(w, r)
	})
	const many, share = 5000, 40
	n.limited(t, func(c *nodeproxy.Config) { c.StreamsPerUser, c.Streams.Handshake = share, 2*time.Second })
	n.mustOpen(t, "warm", execPath, "SPDY/3.1").Close()
	awaitedly(t, "the first stream is gone", func() bool { return open.Load() == 0 })
	goroutines, opened := runtime.NumGoroutine(), files(t)

	var upgradedStreams, refused atomic.Int64
	var held sync.Map
	var clients sync.WaitGroup
	room := make(chan struct{}, 200) // dials at a time
	for i := range many {
		clients.Go(func() {
			room <- struct{}{}
			s, err := n.open("greedy", execPath, "SPDY/3.1")
			<-room
			if err != nil {
				t.Error(err)
				return
			}
			held.Store(i, s)
			switch s.code {
			case http.StatusSwitchingProtocols:
				upgradedStreams.Add(1)
			case http.StatusTooManyRequests:
				refused.Add(1)
				if s.retry != "1" || !strings.Contains(s.text, `user \"greedy\" has 40 streams open`) {
					t.Errorf("refused with %q, retry after %q", s.text, s.retry)
				}
			default:
				t.Errorf("a stream of greedy = %d %s, want 101 or 429", s.code, s.text)
			}
		})
		if i == many/2 {
			s := n.mustOpen(t, "modest", execPath, "SPDY/3.1")
			fmt.Fprint(s, spdyPing)
			if _, err := io.ReadFull(s.reader, make([]byte, len(spdyPing))); err != nil {
				t.Errorf("another user: %v", err)
			}
			s.Close()
		}
		if now := open.Load(); now > 2*share { // some are just ending at the kubelet
			t.Errorf("%d streams are open at once", now)
		}
	}
	clients.Wait()
	if upgradedStreams.Load() < share || refused.Load() == 0 {
		t.Errorf("%d upgraded, %d refused", upgradedStreams.Load(), refused.Load())
	}
	held.Range(func(_, s any) bool {
		if s := s.(*stream); s.code == http.StatusSwitchingProtocols {
			if err := s.ends(); err != nil {
				t.Errorf("a stream on which nothing came: %v", err)
			}
		}
		s.(*stream).Close()
		return true
	})
	awaitedly(t, "streams end at the kubelet", func() bool { return open.Load() == 0 })
	n.front.CloseClientConnections()
	awaitedly(t, "goroutines and files are back", func() bool {
		return runtime.NumGoroutine() <= goroutines+5 && files(t) <= opened+5
	})
}

func awaitedly(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s; %d goroutines", what, runtime.NumGoroutine())
		}
	}
}

// TestStreamsOfANode are bounded for all users together, those to its pods too.
func TestStreamsOfANode(t *testing.T) {
	n := startNode(t, upgrading(t))
	n.limited(t, func(c *nodeproxy.Config) { c.StreamsPerNode = 3 })
	first := n.mustOpen(t, "a", execPath, "SPDY/3.1")
	n.mustOpen(t, "b", podPath+"portforward", "SPDY/3.1")
	n.mustOpen(t, "c", "/api/v1/nodes/node-1/proxy/exec/x", "SPDY/3.1")
	for _, path := range []string{execPath, podPath + "attach?container=a", "/api/v1/nodes/node-1/proxy/x", "/api/v1/namespaces/default/pods/web:80/proxy/"} {
		if s := n.mustOpen(t, "d", path, "SPDY/3.1"); s.code != http.StatusTooManyRequests || !strings.Contains(s.text, `node \"node-1\" has 3 streams open`) {
			t.Errorf(`GET %s by d = %d %s, want 429 and node \"node-1\" has 3 streams open`, path, s.code, s.text)
		}
	}
	if code, _ := n.ask(t, "GET", "/api/v1/nodes/node-2/proxy/", nil); code == http.StatusTooManyRequests {
		t.Error("what is no stream was refused")
	}
	first.Close()
	awaitedly(t, "room for another", func() bool {
		s, err := n.open("d", execPath, "SPDY/3.1")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		return s.code == http.StatusSwitchingProtocols
	})
}

// TestGarbageAfterUpgrade ends a stream at once, at both ends.
func TestGarbageAfterUpgrade(t *testing.T) {
	ended := make(chan error, 10)
	n := startNode(t, func(w http.ResponseWriter, r *http.Request) {
		upgrading(t)(w, r)
		ended <- nil
	})
	for name, c := range map[string]struct{ protocol, before, garbage string }{
		"HTTP":            {"SPDY/3.1", "", "GET /api/v1/secrets HTTP/1.1\r\nHost: kubelet\r\n\r\n"},
		"zeros":           {"SPDY/3.1", "", strings.Repeat("\x00", 4096)},
		"after a frame":   {"SPDY/3.1", spdyPing, strings.Repeat("\xff", 4096)},
		"no mask":         {"websocket", "", "\x82\x05hello"},
		"HTTP, WebSocket": {"websocket", "", "GET / HTTP/1.1\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			s := n.mustOpen(t, "jane", execPath, c.protocol)
			if s.code != http.StatusSwitchingProtocols {
				t.Fatal(s.code, s.text)
			}
			if c.before != "" {
				fmt.Fprint(s, c.before)
				if _, err := io.ReadFull(s.reader, make([]byte, len(c.before))); err != nil {
					t.Fatal(err)
				}
			}
			begun := time.Now()
			fmt.Fprint(s, c.garbage)
			if err := s.ends(); os.IsTimeout(err) { // a reset is as good as an end
				t.Error(err)
			}
			<-ended
			if took := time.Since(begun); took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}
