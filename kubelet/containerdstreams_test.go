package kubelet_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// containerdForward: a WebSocket carries two ports of a pod, which are joined by a comma, as kube-apiserver does.
func containerdForward(t *testing.T, r *rig) {
	dial, stop := serveStreams(t, r)
	defer stop()
	r.api.create(actorPod("forward"))
	r.api.await(t, "forward", "running", running)
	port, end := answering(t)
	defer end()
	conn, _, err := dial(t.Context(), "/portForward/default/forward", url.Values{"port": {fmt.Sprintf("%d,%d", port, port)}})
	if err != nil {
		t.Fatalf("port-forward of two ports = %v, want a WebSocket", err)
	}
	defer conn.Close()
	conn.SetReadDeadline(time.Now().Add(time.Minute))
	for _, message := range []string{"\x00hello", "\x02again"} {
		if err := conn.WriteMessage(websocket.BinaryMessage, []byte(message)); err != nil {
			t.Fatal(err)
		}
	}
	number := string(binary.LittleEndian.AppendUint16(nil, uint16(port)))
	want := map[byte]string{0: number + "got hello", 1: number, 2: number + "got again", 3: number}
	got := map[byte]string{}
	for {
		_, message, err := conn.ReadMessage()
		if err != nil {
			if !websocket.IsCloseError(err, websocket.CloseNormalClosure) || !maps.Equal(got, want) {
				t.Errorf("port-forward of two ports = %q, %v, want %q and a close frame", got, err, want)
			}
			break
		}
		got[message[0]] += string(message[1:])
	}
	r.end(t, "forward")
}

// answering listens on a port that answers five bytes and closes the connection.
func answering(t *testing.T) (port int, stop func()) {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				said := make([]byte, 5)
				if _, err := io.ReadFull(conn, said); err == nil {
					fmt.Fprintf(conn, "got %s", said)
				}
			}()
		}
	}()
	return listener.Addr().(*net.TCPAddr).Port, func() { listener.Close() }
}
