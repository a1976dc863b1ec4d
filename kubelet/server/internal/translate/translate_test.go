package translate

import (
	"bufio"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"github.com/moby/spdystream"
	"github.com/planekit/planekit/kubelet/server/internal/channel"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOffered(t *testing.T) {
	r := &http.Request{Header: http.Header{
		"Connection": {"keep-alive, Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Protocol": {"a, b", "SPDY/3.1+portforward.k8s.io"},
	}}
	if got := Offered(r); !slices.Equal(got, []string{"a", "b", "SPDY/3.1+portforward.k8s.io"}) {
		t.Errorf("offered %q", got)
	}
	if got := Tunnelled(Offered(r)); !slices.Equal(got, []string{"portforward.k8s.io"}) {
		t.Errorf("tunnelled %q", got)
	}
	r.Header.Set("Upgrade", "SPDY/3.1")
	if got := Offered(r); got != nil {
		t.Errorf("%q are offered without a WebSocket", got)
	}
}

// TestStatusOrError: clients take the lack of a status for success, so it is replaced by an error.
func TestStatusOrError(t *testing.T) {
	for text, want := range map[string]string{
		`{"metadata":{},"status":"Success"}`:                "Success",
		`{"metadata":{},"status":"Failure","message":"no"}`: "Failure no",
		``:                "Failure Internal error occurred: the runtime ended the stream without a status",
		`{"metadata":{}}`: "Failure Internal error occurred: the runtime ended the stream without a status",
		`ok`:              "Failure Internal error occurred: the runtime ended the stream without a status",
	} {
		var got metav1.Status
		if err := json.Unmarshal(statusOrError([]byte(text)), &got); err != nil || strings.TrimSpace(got.Status+" "+got.Message) != want {
			t.Errorf("statusOrError(%q) = %s %s, %v, want %s", text, got.Status, got.Message, err, want)
		}
	}
}

// runtime is a transport to a runtime that handles each stream with accept.
type runtime struct {
	accept func(*spdystream.Stream)
	group  *sync.WaitGroup
}

func (r runtime) RoundTrip(request *http.Request) (*http.Response, error) {
	ours, theirs := net.Pipe()
	c, err := spdystream.NewConnection(theirs, true)
	if err != nil {
		return nil, err
	}
	r.group.Go(func() { c.Serve(r.accept) })
	return &http.Response{
		StatusCode: http.StatusSwitchingProtocols, Body: ours, Request: request,
		Header: http.Header{"Upgrade": {"SPDY/3.1"}, protocolVersion: {commandProtocol}},
	}, nil
}

// hijackable is a response on one end of a pipe.
type hijackable struct {
	http.ResponseWriter
	conn net.Conn
	in   *bufio.Reader
}

func (h hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.conn, bufio.NewReadWriter(h.in, bufio.NewWriter(h.conn)), nil
}

// attempt runs a command on a runtime that handles its streams with accept. It returns what the client
// gets on the channel of errors, how its connection ends, and how long that took.
func attempt(t *testing.T, accept func(*spdystream.Stream)) (status string, took time.Duration, end error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var group sync.WaitGroup
		defer group.Wait()
		ours, theirs := net.Pipe()
		group.Go(func() {
			defer ours.Close()
			in := bufio.NewReader(ours)
			r, err := http.ReadRequest(in)
			if err != nil {
				t.Error(err)
				return
			}
			p, _ := channel.Choose(Offered(r))
			translator := Translator{Transport: runtime{accept, &group}}
			translator.Command(hijackable{conn: ours, in: in}, r.WithContext(t.Context()),
				&url.URL{Scheme: "http", Host: "runtime", Path: "/token"}, p, Streams{Stdin: true, Stdout: true})
		})
		dialer := websocket.Dialer{
			Subprotocols: []string{"v5.channel.k8s.io"},
			NetDial:      func(string, string) (net.Conn, error) { return theirs, nil },
		}
		ws, _, err := dialer.DialContext(t.Context(), "ws://node/exec", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer ws.Close()
		for end == nil {
			var message []byte
			if _, message, end = ws.ReadMessage(); end == nil && message[0] == channel.Error {
				status += string(message[1:])
			}
		}
		took = time.Since(begun)
	})
	return status, took, end
}

// TestStreamIsRefused: the client learns that the command did not run.
func TestStreamIsRefused(t *testing.T) {
	status, _, end := attempt(t, func(s *spdystream.Stream) { s.Refuse() })
	if !strings.Contains(status, `"status":"Failure"`) || !websocket.IsCloseError(end, websocket.CloseNormalClosure) {
		t.Errorf("status %q, end %v", status, end)
	}
}

// TestNoReply: a runtime that accepts no stream does not keep the connection.
func TestNoReply(t *testing.T) {
	status, took, end := attempt(t, func(*spdystream.Stream) {})
	if status != "" || end == nil || took < replyTimeout || took > replyTimeout+time.Second {
		t.Errorf("status %q, end %v after %v", status, end, took)
	}
}
