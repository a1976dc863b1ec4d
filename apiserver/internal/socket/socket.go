// Package socket sends a response as messages of a WebSocket, for clients such as browsers that read
// watches and logs in that way. What the client sends is ignored, but for the end.
package socket

import (
	"bufio"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/websocket"
)

// The subprotocols of Kubernetes for a stream of bytes. Without one, messages are binary.
const (
	binaryProtocol = "binary.k8s.io"
	base64Protocol = "base64.binary.k8s.io"
	// tokenPrefix begins the subprotocol in which a browser sends a bearer token. It is never chosen.
	tokenPrefix = "base64url.bearer.authorization.k8s.io."
)

const (
	writeTimeout = 30 * time.Second // for one message
	maxReceived  = 4 << 10          // bytes of a message from the client
	pieceSize    = 2 << 10          // bytes of a message of Copy
)

// Requested reports whether r begins the handshake of a WebSocket.
func Requested(r *http.Request) bool { return websocket.IsWebSocketUpgrade(r) }

// A Conn is the connection to one client. It is used by one goroutine, but for Close.
type Conn struct {
	ws *websocket.Conn
	// text is set if Copy sends base64 text.
	text bool
}

// Accept answers the handshake of a client, with an error if it is wrong. ended is called when the client has
// closed the connection, and after Close.
func Accept(w http.ResponseWriter, r *http.Request, ended func()) (*Conn, error) {
	header := http.Header{}
	chosen := choose(websocket.Subprotocols(r))
	if chosen != "" {
		header.Set("Sec-Websocket-Protocol", chosen)
	}
	upgrader := websocket.Upgrader{
		ReadBufferSize: 1 << 10, WriteBufferSize: 4 << 10,
		// Credentials are in headers or in TLS, so that a page of another origin has none.
		CheckOrigin: func(*http.Request) bool { return true },
	}
	ws, err := upgrader.Upgrade(hijacker{w}, r, header)
	if err != nil {
		return nil, err
	}
	ws.SetReadLimit(maxReceived)
	go func() {
		defer ended()
		for {
			if _, _, err := ws.NextReader(); err != nil {
				return
			}
		}
	}()
	return &Conn{ws: ws, text: chosen == base64Protocol}, nil
}

// choose returns the subprotocol of the response: one that is known, or the only one.
func choose(offered []string) string {
	offered = slices.DeleteFunc(slices.Clone(offered), func(p string) bool { return strings.HasPrefix(p, tokenPrefix) })
	for _, p := range offered {
		if p == binaryProtocol || p == base64Protocol {
			return p
		}
	}
	if len(offered) == 1 {
		return offered[0]
	}
	return ""
}

// Send sends one message, as text or binary.
func (c *Conn) Send(data []byte, text bool) error {
	kind := websocket.BinaryMessage
	if text {
		kind = websocket.TextMessage
	}
	if err := c.ws.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	return c.ws.WriteMessage(kind, data)
}

// Copy sends what it reads until the end or the first failure, which it does not report: no client is left. An
// empty message comes first, as in Kubernetes, so that the client knows that the stream stands.
func (c *Conn) Copy(from io.Reader) {
	if c.Send(nil, c.text) != nil {
		return
	}
	buffer := make([]byte, pieceSize)
	for {
		n, err := from.Read(buffer)
		data := buffer[:n]
		if c.text {
			data = base64.StdEncoding.AppendEncode(nil, data)
		}
		if n > 0 && c.Send(data, c.text) != nil || err != nil {
			return
		}
	}
}

// Close says goodbye with the code for a normal end, and closes the connection.
func (c *Conn) Close() {
	goodbye := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
	_ = c.ws.WriteControl(websocket.CloseMessage, goodbye, time.Now().Add(writeTimeout)) // fails only if the client has gone
	c.ws.Close()
}

// hijacker finds the connection below wrapped ResponseWriters.
type hijacker struct{ http.ResponseWriter }

func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(h.ResponseWriter).Hijack()
}
