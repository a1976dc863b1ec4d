// Package translate connects WebSocket clients to a container runtime that speaks SPDY/3.1.
//
// [Translator.Command] serves exec and attach in the subprotocols of package channel: each stream
// of the command is a channel of the client's connection and an SPDY stream of the runtime's.
// [Translator.Tunnel] serves port-forward in subprotocols such as SPDY/3.1+portforward.k8s.io, whose
// messages are the bytes of an SPDY connection.
//
// # Model
//
// The runtime is asked first, so that its refusals are ordinary responses to the client. Messages
// are copied in pieces and never collected: their size is not limited, and a side that does not
// read blocks the other. Pings are answered while messages are read, so not while the command does
// not read its input.
//
// At the end of a command the client gets its output, then its status, then a close frame. The
// connection stays open for a minute, or until the client has closed it, because bytes that are
// still on the way would be lost otherwise. If the client's connection ends first, that of the
// runtime ends too.
package translate

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/gorilla/websocket"
	"github.com/planekit/planekit/internal/upgraded"
)

const (
	spdy            = "SPDY/3.1"
	protocolVersion = "X-Stream-Protocol-Version"
	// pieceSize is the size of the pieces in which data are copied, in bytes.
	pieceSize = 32 << 10
	// maxRefusal limits the text of a runtime's refusal, in bytes.
	maxRefusal = 64 << 10
	// lingerTimeout is the time that a client has to close its connection after the close frame.
	lingerTimeout = time.Minute
	// closeTimeout limits the write of a close frame.
	closeTimeout = 10 * time.Second
)

// Translator translates the streams of a runtime.
type Translator struct {
	// Transport reaches the runtime. It must support upgrades.
	Transport http.RoundTripper
	// Limits bounds the life of connections.
	Limits upgraded.Limits
	// Log is the log. The zero Logger discards it.
	Log logr.Logger
}

// IsWebSocket reports whether r begins a WebSocket.
func IsWebSocket(r *http.Request) bool { return websocket.IsWebSocketUpgrade(r) }

// Offered returns the subprotocols that a client offers, or nil if r does not begin a WebSocket.
func Offered(r *http.Request) []string {
	if !IsWebSocket(r) {
		return nil
	}
	var offered []string
	for _, line := range r.Header.Values("Sec-Websocket-Protocol") {
		for name := range strings.SplitSeq(line, ",") {
			offered = append(offered, strings.TrimSpace(name))
		}
	}
	return offered
}

// dial upgrades a connection to the runtime to SPDY, or answers why it cannot.
func (t *Translator) dial(ctx context.Context, w http.ResponseWriter, to *url.URL, protocols []string) (*http.Response, bool) {
	request := (&http.Request{
		Method: http.MethodPost, URL: to, Host: to.Host,
		Header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {spdy}, protocolVersion: protocols},
	}).WithContext(ctx)
	answer, err := t.Transport.RoundTrip(request)
	if err != nil {
		t.Log.V(1).Info("stream failed", "error", err.Error())
		refuse(w, "the runtime's stream could not be reached", http.StatusBadGateway)
		return nil, false
	}
	_, writable := answer.Body.(io.ReadWriteCloser)
	if answer.StatusCode == http.StatusSwitchingProtocols && writable && strings.EqualFold(answer.Header.Get("Upgrade"), spdy) {
		return answer, true
	}
	defer answer.Body.Close()
	if answer.StatusCode < http.StatusBadRequest {
		refuse(w, "the runtime did not upgrade the connection to "+spdy, http.StatusBadGateway)
		return nil, false
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxRefusal))
	if err != nil {
		t.Log.V(1).Info("stream failed", "error", err.Error())
	}
	if kind := answer.Header.Get("Content-Type"); kind != "" {
		w.Header().Set("Content-Type", kind)
	}
	w.WriteHeader(answer.StatusCode)
	w.Write(text)
	return nil, false
}

// refuse answers with a text, without a newline at its end: API servers show it to their clients.
func refuse(w http.ResponseWriter, text string, code int) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	io.WriteString(w, text)
}

// accept answers a client's handshake, with an error if it is wrong. The connection has a guard that
// calls end, unless end is nil.
func (t *Translator) accept(w http.ResponseWriter, r *http.Request, subprotocol string, end func()) (*websocket.Conn, error) {
	upgrader := websocket.Upgrader{
		ReadBufferSize: 4 << 10, WriteBufferSize: 4 << 10,
		Subprotocols: []string{subprotocol},
		// Credentials are in headers or in TLS, so that a page of another origin has none.
		CheckOrigin: func(*http.Request) bool { return true },
		Error: func(w http.ResponseWriter, _ *http.Request, code int, reason error) {
			w.Header().Set("Sec-Websocket-Version", "13")
			http.Error(w, reason.Error(), code)
		},
	}
	h := &hijacker{ResponseWriter: w}
	ws, err := upgrader.Upgrade(h, r, nil)
	if err != nil {
		return nil, err
	}
	if end != nil {
		h.conn.Conn = upgraded.GuardConn(h.conn.Conn, "websocket", t.Limits, end)
	}
	return ws, nil
}

// hijacker is a ResponseWriter whose connection can be replaced.
type hijacker struct {
	http.ResponseWriter
	conn *replaceable
}

type replaceable struct{ net.Conn }

// Hijack takes over the connection.
func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffers, err := http.NewResponseController(h.ResponseWriter).Hijack()
	h.conn = &replaceable{conn}
	return h.conn, buffers, err
}

// finish sends a close frame and waits until the client has ended the connection. Received is closed
// then.
func finish(ctx context.Context, ws *websocket.Conn, received <-chan struct{}) error {
	message := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
	if err := ws.WriteControl(websocket.CloseMessage, message, time.Now().Add(closeTimeout)); err != nil {
		return err
	}
	timeout := time.NewTimer(lingerTimeout)
	defer timeout.Stop()
	select {
	case <-received:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timeout.C:
		return errors.New("the client did not close its connection")
	}
}
