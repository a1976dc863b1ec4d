package server_test

import (
	"testing"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
)

// TestWebSocketBadClose: a close signal for no channel ends the connection with a close frame, and that
// to the runtime too.
func TestWebSocketBadClose(t *testing.T) {
	k := start(t, nil)
	ended := make(chan error, 1)
	k.runtime.stream = spdyRuntime(t, 4, func(p process) {
		_, err := p[corev1.StreamTypeStdin].Read(make([]byte, 1))
		ended <- err
	})
	for _, message := range []string{"\xff", "\xff\x09", "\xff\x00\x00"} {
		ws := k.mustWebSocket(execPath, v5)
		send(t, ws, message)
		if _, err := collect(ws, false); !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
			t.Errorf("the message %q ends the connection with %v, want a close frame", message, err)
		}
		if err := <-ended; err == nil {
			t.Errorf("the message %q leaves the runtime's connection open", message)
		}
	}
}
