package server_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/moby/spdystream"
	"github.com/planekit/planekit/kubelet/server"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// process is a command of a runtime that speaks SPDY, with its streams by type.
type process map[string]*spdystream.Stream

// exit ends the command as a runtime does.
func (p process) exit(status string) {
	for _, kind := range []string{corev1.StreamTypeStdout, corev1.StreamTypeStderr} {
		if s := p[kind]; s != nil {
			s.Close()
		}
	}
	io.WriteString(p[corev1.StreamTypeError], status)
	p[corev1.StreamTypeError].Close()
}

const success = `{"metadata":{},"status":"Success"}`

// spdyRuntime is a runtime's streaming server: it waits for count streams and hands them to run. The
// connection ends with run.
func spdyRuntime(t *testing.T, count int, run func(process)) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "SPDY/3.1" || r.Header.Get("Sec-Websocket-Protocol") != "" {
			http.Error(w, "only SPDY is spoken here", http.StatusBadRequest)
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: %s\r\n\r\n",
			r.Header.Get("X-Stream-Protocol-Version"))
		streams := make(chan *spdystream.Stream, count)
		c, err := spdystream.NewConnection(conn, true)
		if err != nil {
			t.Error(err)
			return
		}
		served := make(chan struct{})
		go func() {
			defer close(served)
			c.Serve(func(s *spdystream.Stream) { s.SendReply(http.Header{}, false); streams <- s })
		}()
		p := process{}
		for range count {
			var s *spdystream.Stream
			select {
			case s = <-streams:
			case <-served: // the client has gone, perhaps after all streams came
				select {
				case s = <-streams:
				default:
					return
				}
			}
			p[s.Headers().Get(corev1.StreamType)] = s
		}
		run(p)
		for _, s := range p {
			s.Reset()
		}
		c.Close()
		<-served
		c.Wait(time.Minute)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/token"
}

// webSocket opens a WebSocket, or returns the answer that refuses it.
func (k *kubelet) webSocket(path string, protocols ...string) (*websocket.Conn, int, string) {
	k.t.Helper()
	dialer := websocket.Dialer{TLSClientConfig: k.client.Transport.(*http.Transport).TLSClientConfig.Clone(), Subprotocols: protocols}
	dialer.TLSClientConfig.NextProtos = nil
	ws, answer, err := dialer.DialContext(k.t.Context(), "wss"+strings.TrimPrefix(k.url, "https")+path, http.Header{"User": {"root"}})
	if err == nil {
		k.t.Cleanup(func() { ws.Close() })
		ws.SetReadDeadline(time.Now().Add(2 * time.Minute))
		return ws, http.StatusSwitchingProtocols, ""
	}
	if answer == nil {
		k.t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		k.t.Fatal(err)
	}
	return nil, answer.StatusCode, string(text)
}

func (k *kubelet) mustWebSocket(path string, protocols ...string) *websocket.Conn {
	k.t.Helper()
	ws, code, text := k.webSocket(path, protocols...)
	if ws == nil {
		k.t.Fatalf("%s: %d %s", path, code, text)
	}
	return ws
}

// collect reads to the close frame, and returns the data of each channel and how it ended.
func collect(ws *websocket.Conn, base64ed bool) ([5]string, error) {
	var data [5]strings.Builder
	for {
		_, message, err := ws.ReadMessage()
		if err != nil {
			return [5]string{data[0].String(), data[1].String(), data[2].String(), data[3].String(), data[4].String()}, err
		}
		number, rest := message[0], message[1:]
		if base64ed {
			number -= '0'
			if rest, err = base64.StdEncoding.DecodeString(string(rest)); err != nil {
				return [5]string{}, err
			}
		}
		data[number].Write(rest)
	}
}

func send(t *testing.T, ws *websocket.Conn, message string) {
	t.Helper()
	if err := ws.WriteMessage(websocket.BinaryMessage, []byte(message)); err != nil {
		t.Error(err)
	}
}

const (
	v5       = "v5.channel.k8s.io"
	execPath = "/exec/default/web/c?command=x&input=1&output=1&error=1"
)

// TestWebSocketExec: input, its end, outputs and the status are carried in each version.
func TestWebSocketExec(t *testing.T) {
	const failure = `{"metadata":{},"status":"Failure","message":"exit","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}`
	k := start(t, nil)
	k.runtime.stream = spdyRuntime(t, 4, func(p process) {
		in := make([]byte, 5)
		io.ReadFull(p["stdin"], in)
		fmt.Fprintf(p["stdout"], "got %s", in)
		rest, err := io.ReadAll(p["stdin"]) // the client of version 5 ends it
		fmt.Fprintf(p["stderr"], "then %q, %v", rest, err)
		p.exit(failure)
	})
	ws := k.mustWebSocket(execPath, "v4.channel.k8s.io", v5)
	if ws.Subprotocol() != v5 {
		t.Errorf("subprotocol %q", ws.Subprotocol())
	}
	if _, message, err := ws.ReadMessage(); err != nil || string(message) != "\x01" {
		t.Errorf("the first message is %q, %v", message, err)
	}
	for _, message := range []string{"", "\x00in", "\x05unknown", "\x01no input", "\x04{}", "\x00put", "\x00more", "\xff\x00", "\x00late"} {
		send(t, ws, message)
	}
	data, err := collect(ws, false)
	if data != [5]string{"", "got input", `then "more", <nil>`, failure, ""} || !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
		t.Errorf("the channels give %q, %v, want %q, %q, the failure and a normal end", data, err, "got input", `then "more", <nil>`)
	}

	k.runtime.stream = spdyRuntime(t, 4, func(p process) {
		in := make([]byte, 5)
		io.ReadFull(p["stdin"], in)
		fmt.Fprintf(p["stdout"], "got %s", in)
		p.exit(success)
	})
	for protocol, messages := range map[string][]string{
		"v4.channel.k8s.io": {"\x00in", "\xff\x00", "\x00put"}, "v4.base64.channel.k8s.io": {"0aW4=", "0cHV0"},
	} {
		ws := k.mustWebSocket(execPath, protocol)
		for _, message := range messages {
			if err := ws.WriteMessage(websocket.TextMessage, []byte(message)); err != nil {
				t.Error(err)
			}
		}
		data, err := collect(ws, strings.Contains(protocol, "base64"))
		if data != [5]string{"", "got input", "", success, ""} || !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
			t.Errorf("%s: the channels give %q, %v, want %q, success and a normal end", protocol, data, err, "got input")
		}
	}
}

// TestWebSocketTerminal: a terminal has no standard error, and gets its sizes.
func TestWebSocketTerminal(t *testing.T) {
	k := start(t, nil)
	k.runtime.stream = spdyRuntime(t, 4, func(p process) {
		var size struct{ Width, Height int }
		if err := json.NewDecoder(p["resize"]).Decode(&size); err != nil || p["stderr"] != nil {
			t.Error(err, p["stderr"])
		}
		fmt.Fprintf(p["stdout"], "%dx%d", size.Width, size.Height)
		p.exit(success)
	})
	ws := k.mustWebSocket("/attach/default/web/terminal?tty=1&input=1&output=1&error=1", v5)
	send(t, ws, "\x04{\"Width\":80,\"Height\":24}")
	if data, _ := collect(ws, false); data[1] != "80x24" || data[3] != success {
		t.Errorf("the channels give %q, want %q and success", data, "80x24")
	}
}

// TestWebSocketLargeOutput: much output arrives whole though the client sends and pings meanwhile.
func TestWebSocketLargeOutput(t *testing.T) {
	const size = 8 << 20
	k := start(t, nil)
	k.runtime.stream = spdyRuntime(t, 4, func(p process) {
		if n, err := io.Copy(p["stdout"], p["stdin"]); n != size || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
		p.exit(success)
	})
	ws := k.mustWebSocket(execPath, v5)
	pongs := 0
	ws.SetPongHandler(func(string) error { pongs++; return nil })
	go func() {
		w, err := ws.NextWriter(websocket.BinaryMessage) // one message, in many fragments
		if err == nil {
			_, err = io.Copy(w, io.MultiReader(strings.NewReader("\x00"), bytes.NewReader(make([]byte, size))))
			err = errors.Join(err, w.Close())
		}
		err = errors.Join(err, ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(time.Minute)), ws.WriteMessage(websocket.BinaryMessage, []byte("\xff\x00")))
		if err != nil {
			t.Error(err)
		}
	}()
	if data, err := collect(ws, false); len(data[1]) != size || data[3] != success || pongs != 1 {
		t.Errorf("%d bytes, %q, %v, %d pongs", len(data[1]), data[3], err, pongs)
	}
}

// TestWebSocketClientEnds: whatever ends the client's connection ends the command's streams.
func TestWebSocketClientEnds(t *testing.T) {
	frame := func(bytes ...byte) func(*websocket.Conn) error {
		return func(ws *websocket.Conn) error { _, err := ws.NetConn().Write(bytes); return err }
	}
	for name, end := range map[string]func(*websocket.Conn) error{
		"cut off":             func(ws *websocket.Conn) error { return ws.NetConn().Close() },
		"close frame":         func(ws *websocket.Conn) error { return ws.WriteMessage(websocket.CloseMessage, nil) },
		"wrong close signal":  func(ws *websocket.Conn) error { return ws.WriteMessage(websocket.BinaryMessage, []byte{255}) },
		"close of no channel": func(ws *websocket.Conn) error { return ws.WriteMessage(websocket.BinaryMessage, []byte{255, 9}) },
		"no mask":             frame(0x82, 2, 0, 'x'),
		"reserved bit":        frame(0xc2, 0x81, 0, 0, 0, 0, 0),
		"reserved opcode":     frame(0x83, 0x81, 0, 0, 0, 0, 0),
		"length beyond all":   frame(0x82, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0),
		"continues nothing":   frame(0x80, 0x81, 0, 0, 0, 0, 0),
		"huge, then cut off": func(ws *websocket.Conn) error {
			_, err := ws.NetConn().Write([]byte{0x82, 0xff, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 'x'})
			return errors.Join(err, ws.NetConn().Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := start(t, nil)
			ended := make(chan struct{})
			k.runtime.stream = spdyRuntime(t, 4, func(p process) {
				io.Copy(io.Discard, p["stdin"])
				close(ended)
			})
			ws := k.mustWebSocket(execPath, v5)
			if _, _, err := ws.ReadMessage(); err != nil {
				t.Fatal(err)
			}
			if err := end(ws); err != nil {
				t.Error(err)
			}
			select {
			case <-ended:
			case <-time.After(time.Minute):
				t.Error("the command's input does not end")
			}
		})
	}
}

// TestWebSocketWithoutStatus: a runtime that vanishes is no success, whenever it does.
func TestWebSocketWithoutStatus(t *testing.T) {
	k := start(t, nil)
	for want, stream := range map[string]string{
		"half": spdyRuntime(t, 4, func(p process) { io.WriteString(p["stdout"], "half") }),
		"":     runtimeStream(t, func(*http.Request, net.Conn, io.Reader) {}),
	} {
		k.runtime.stream = stream
		data, ended := collect(k.mustWebSocket(execPath, v5), false)
		var status metav1.Status
		if err := json.Unmarshal([]byte(data[3]), &status); err != nil || status.Reason != metav1.StatusReasonInternalError || data[1] != want {
			t.Errorf("the channels give %q (status: %v), end %v; want %q and InternalError", data, err, ended, want)
		}
	}
}

// TestWebSocketBackPressure: a command whose output is not read is stopped before much has piled up.
func TestWebSocketBackPressure(t *testing.T) {
	k := start(t, nil)
	written := make(chan int, 1)
	k.runtime.stream = spdyRuntime(t, 4, func(p process) {
		block, n := make([]byte, 32<<10), 0
		for n < 1<<30 {
			p["stdout"].SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
			m, err := p["stdout"].Write(block)
			n += m
			if err != nil {
				break
			}
		}
		written <- n
	})
	k.mustWebSocket(execPath, v5)
	if n := <-written; n > 128<<20 {
		t.Errorf("%d bytes were taken with nobody reading", n)
	}
}

// TestWebSocketRefused: refusals are responses, and nothing is run.
func TestWebSocketRefused(t *testing.T) {
	k := start(t, nil)
	refuse := func(path string, code int, text string, protocols ...string) {
		t.Helper()
		if _, got, body := k.webSocket(path, protocols...); got != code || body != text {
			t.Errorf("%s %v: %d %q, want %d %q", path, protocols, got, body, code, text)
		}
	}
	refuse(execPath, 501, "nothing to connect to", v5)
	k.runtime.stream = "http://127.0.0.1:1/token"
	refuse(execPath, 502, "the runtime's stream could not be reached", v5)
	refuse("/portForward/default/web", 502, "the runtime's stream could not be reached", "SPDY/3.1+portforward.k8s.io")
	k.runtime.stream = spdyRuntime(t, 4, func(process) { t.Error("a command was run") })
	refuse(execPath, 400, "only SPDY is spoken here\n", "v3.channel.k8s.io")
	refuse("/portForward/default/web", 400, "query parameter \"port\" is required", "v4.channel.k8s.io")
	refuse("/portForward/default/web?port=", 400, "query parameter \"port\" cannot be empty", "v4.channel.k8s.io")
	refuse("/portForward/default/web?port=0", 400, "port \"0\" must be > 0", "v4.channel.k8s.io")
	refuse("/portForward/default/web?port=80,x", 400, "unable to parse \"80,x\" as a port: strconv.ParseUint: parsing \"x\": invalid syntax", "v4.channel.k8s.io")
	refuse("/portForward/default/web?port=65536", 400, "unable to parse \"65536\" as a port: strconv.ParseUint: parsing \"65536\": value out of range")
	refuse("/portForward/default/web?port=80", 400, "only SPDY is spoken here\n", v5)
	for header, want := range map[string]string{"Sec-Websocket-Version": "unsupported version", "Sec-Websocket-Key": "not a websocket handshake"} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", k.url+execPath, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"User": {"root"}, "Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Protocol": {v5},
			"Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"AAAAAAAAAAAAAAAAAAAAAA=="}}
		r.Header.Set(header, "8")
		answer, err := k.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != http.StatusBadRequest || !strings.Contains(string(text), want) || answer.Header.Get("Sec-Websocket-Version") != "13" {
			t.Errorf("with %s set to 8: %s %s, %v; want 400, %q and the version 13", header, answer.Status, text, err, want)
		}
	}
}

// TestWebSocketPort: data and the error of a port are channels, each of which begins with the port; the connection ends with
// that of the port.
func TestWebSocketPort(t *testing.T) {
	k := start(t, nil)
	headers := make(chan http.Header, 10)
	k.runtime.stream = spdyRuntime(t, 2, func(p process) {
		headers <- p[corev1.StreamTypeData].Headers()
		said := make([]byte, 5)
		if _, err := io.ReadFull(p[corev1.StreamTypeData], said); err != nil {
			t.Errorf("the port reads %q, %v, want hello", said, err)
		}
		io.WriteString(p[corev1.StreamTypeData], "heard "+string(said))
		io.WriteString(p[corev1.StreamTypeError], "and failed")
		p[corev1.StreamTypeData].Close()
		p[corev1.StreamTypeError].Close()
	})
	for _, protocol := range []string{"v4.channel.k8s.io", "v4.base64.channel.k8s.io"} {
		base64ed := protocol != "v4.channel.k8s.io"
		ws := k.mustWebSocket("/portForward/default/web?port=258", "v5.channel.k8s.io", protocol)
		message := "\x00hello"
		if base64ed {
			message = "0" + base64.StdEncoding.EncodeToString([]byte("hello"))
		}
		send(t, ws, message)
		got, err := collect(ws, base64ed)
		want := [5]string{"\x02\x01heard hello", "\x02\x01and failed"}
		if ws.Subprotocol() != protocol || got != want || !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
			t.Errorf("%s: %s says %q, %v, want %q", protocol, ws.Subprotocol(), got, err, want)
		}
		if h := <-headers; h.Get(corev1.PortHeader) != "258" {
			t.Errorf("%s: the runtime gets %v, want the port 258", protocol, h)
		}
	}
}

// TestWebSocketTunnel: the messages are the bytes of SPDY, which the guard reads.
func TestWebSocketTunnel(t *testing.T) {
	k := start(t, nil)
	k.runtime.stream = spdyRuntime(t, 1, func(p process) {
		io.Copy(p["data"], p["data"])
		p["data"].Close()
	})
	const tunnel = "SPDY/3.1+portforward.k8s.io"
	ws := k.mustWebSocket("/portForward/default/web", tunnel)
	if ws.Subprotocol() != tunnel {
		t.Errorf("subprotocol %q", ws.Subprotocol())
	}
	c, err := spdystream.NewConnection(&tunnelled{Conn: ws.NetConn(), ws: ws}, false)
	if err != nil {
		t.Fatal(err)
	}
	go c.Serve(func(*spdystream.Stream) {})
	s, err := c.CreateStream(http.Header{"Streamtype": {"data"}, "Port": {"80"}}, nil, false)
	if err == nil {
		_, err = io.WriteString(s, "through the tunnel")
	}
	if err = errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(s); string(got) != "through the tunnel" || err != nil {
		t.Errorf("the tunnel returns %q, %v, want %q", got, err, "through the tunnel")
	}
	for name, message := range map[string]struct {
		kind int
		data string
	}{"no SPDY": {websocket.BinaryMessage, "GET / HTTP/1.1\r\n\r\n"}, "text": {websocket.TextMessage, "\x80\x03\x00\x06\x00\x00\x00\x04\x00\x00\x00\x01"}} {
		ws := k.mustWebSocket("/portForward/default/web", tunnel)
		if err := ws.WriteMessage(message.kind, []byte(message.data)); err != nil {
			t.Error(err)
		}
		if _, _, err := ws.ReadMessage(); errors.Is(err, os.ErrDeadlineExceeded) || err == nil {
			t.Errorf("%s: ReadMessage: error %v, want one before the deadline", name, err)
		}
	}
}

// tunnelled is a connection in the messages of a WebSocket.
type tunnelled struct {
	net.Conn
	ws   *websocket.Conn
	rest []byte
}

func (c *tunnelled) Read(p []byte) (n int, err error) {
	for len(c.rest) == 0 {
		if _, c.rest, err = c.ws.ReadMessage(); err != nil {
			return 0, io.EOF
		}
	}
	n = copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func (c *tunnelled) Write(p []byte) (int, error) {
	return len(p), c.ws.WriteMessage(websocket.BinaryMessage, p)
}

// TestWebSocketLimits: WebSockets are counted, need the right to create, and end when they are idle
// or the server stops.
func TestWebSocketLimits(t *testing.T) {
	const idle = 300 * time.Millisecond
	k := start(t, func(c *server.Config) { c.MaxStreams, c.Streams.Idle = 1, idle })
	k.want("GET", "reader", execPath, http.StatusForbidden, "Forbidden (user=reader, verb=create, resource=nodes, subresource(s)=[proxy])\n")
	k.runtime.stream = spdyRuntime(t, 4, func(p process) { io.Copy(io.Discard, p["stdin"]) })
	begin := time.Now()
	ws := k.mustWebSocket(execPath, v5)
	if _, err := collect(ws, false); errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) < idle {
		t.Errorf("it ended after %v, %v", time.Since(begin), err)
	}

	k = start(t, func(c *server.Config) { c.MaxStreams = 1 })
	k.runtime.stream = spdyRuntime(t, 4, func(p process) { io.Copy(io.Discard, p["stdin"]) })
	ws = k.mustWebSocket(execPath, v5)
	for _, path := range []string{execPath, "/portForward/default/web"} {
		if _, code, text := k.webSocket(path, v5, "SPDY/3.1+portforward.k8s.io"); code != http.StatusTooManyRequests {
			t.Errorf("%s: %d %s, want 429", path, code, text)
		}
	}
	k.stop()
	if _, err := collect(ws, false); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
}
