package nodeproxy_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
)

// TestLogBySocket: the log of a container comes in messages behind an empty one, binary or as base64 text, and ends with
// the code 1000. The kubelet sees no WebSocket.
func TestLogBySocket(t *testing.T) {
	n := startNode(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "first\n")
		http.NewResponseController(w).Flush()
		io.WriteString(w, "second\n")
	})
	for protocol, want := range map[string]struct {
		kind   int
		chosen string
		text   string
	}{
		"":                     {websocket.BinaryMessage, "", "first\nsecond\n"},
		"binary.k8s.io":        {websocket.BinaryMessage, "binary.k8s.io", "first\nsecond\n"},
		"base64.binary.k8s.io": {websocket.TextMessage, "base64.binary.k8s.io", "Zmlyc3QK"},
	} {
		dialer := websocket.Dialer{}
		if protocol != "" {
			dialer.Subprotocols = []string{protocol}
		}
		ws, response, err := dialer.Dial("ws://"+n.front.Listener.Addr().String()+"/api/v1/namespaces/default/pods/web/log?follow=true&container=a", http.Header{"User": {"jane"}})
		if err != nil {
			t.Fatalf("a log by WebSocket with %q = %v, %v, want a connection", protocol, response, err)
		}
		if ws.Subprotocol() != want.chosen {
			t.Errorf("the subprotocol is %q, want %q", ws.Subprotocol(), want.chosen)
		}
		var text strings.Builder
		for first := true; ; first = false {
			kind, data, err := ws.ReadMessage()
			if err != nil {
				if !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
					t.Errorf("the log by WebSocket with %q ends with %v, want a close with 1000", protocol, err)
				}
				break
			}
			if kind != want.kind || first && len(data) > 0 {
				t.Errorf("a message with %q is %d %q, want kind %d, and the first one empty", protocol, kind, data, want.kind)
			}
			text.Write(data)
		}
		ws.Close()
		if got := text.String(); !strings.HasPrefix(got, want.text) {
			t.Errorf("the log by WebSocket with %q is %q, want %q", protocol, got, want.text)
		}
		if seen := n.seen(); seen.Header.Get("Upgrade") != "" || seen.URL.Query().Get("follow") != "true" {
			t.Errorf("the kubelet saw %v with %v, want follow=true and no upgrade", seen.URL, seen.Header)
		}
	}
}
