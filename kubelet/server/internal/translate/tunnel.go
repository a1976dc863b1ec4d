package translate

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/gorilla/websocket"
	"github.com/planekit/planekit/internal/upgraded"
)

// tunnelPrefix and tunnelSuffix are those of subprotocols that tunnel SPDY. Between them, and with
// the suffix, is the name of the protocol that SPDY's streams have.
const (
	tunnelPrefix = spdy + "+"
	tunnelSuffix = ".k8s.io"
)

// Tunnelled returns the protocols of SPDY that subprotocols tunnel.
func Tunnelled(subprotocols []string) []string {
	var protocols []string
	for _, name := range subprotocols {
		if inner, ok := strings.CutPrefix(name, tunnelPrefix); ok && strings.HasSuffix(inner, tunnelSuffix) {
			protocols = append(protocols, inner)
		}
	}
	return protocols
}

// Tunnel connects a client to an SPDY connection to the runtime's address. Protocols are those of
// SPDY that the client offers.
func (t *Translator) Tunnel(w http.ResponseWriter, r *http.Request, to *url.URL, protocols []string) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	answer, ok := t.dial(ctx, w, to, protocols)
	if !ok {
		return
	}
	// The guard sees the frames of SPDY, as it does without a tunnel.
	upgraded.Guard(answer, t.Limits, cancel)
	backend := answer.Body.(io.ReadWriteCloser)
	defer backend.Close()
	ws, err := t.accept(w, r, tunnelPrefix+answer.Header.Get(protocolVersion), nil)
	if err != nil {
		t.Log.V(1).Info("handshake failed", "error", err.Error())
		return
	}
	defer ws.Close()
	defer context.AfterFunc(ctx, func() {
		backend.Close()
		ws.Close()
	})()

	received := make(chan struct{})
	go func() {
		defer close(received)
		defer cancel()
		t.Log.V(1).Info("tunnel ended", "reason", untunnel(backend, ws).Error())
	}()
	if err = tunnel(ws, backend); err == nil {
		err = finish(ctx, ws, received)
	}
	if err != nil {
		t.Log.V(1).Info("tunnel failed", "error", err.Error())
	}
	cancel()
	<-received
}

// tunnel sends the bytes of the runtime in messages until they end.
func tunnel(ws *websocket.Conn, from io.Reader) error {
	_, err := io.CopyBuffer(messages{ws}, struct{ io.Reader }{from}, make([]byte, pieceSize))
	return err
}

// messages writes messages.
type messages struct{ ws *websocket.Conn }

func (m messages) Write(p []byte) (int, error) {
	if err := m.ws.WriteMessage(websocket.BinaryMessage, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// errText is the error of a message that cannot be a part of SPDY.
var errText = errors.New("a message is not binary")

// untunnel writes the client's messages to the runtime until one of both connections ends.
func untunnel(to io.Writer, ws *websocket.Conn) error {
	buffer := make([]byte, pieceSize)
	for {
		kind, message, err := ws.NextReader()
		if err != nil {
			return err
		}
		if kind != websocket.BinaryMessage {
			return errText
		}
		if _, err := io.CopyBuffer(struct{ io.Writer }{to}, message, buffer); err != nil {
			return err
		}
	}
}
