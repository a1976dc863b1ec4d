package apiserver_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"k8s.io/apimachinery/pkg/watch"
)

// socketDialer returns a dialer to s and the headers of its administrator.
func socketDialer(s *apiservertest.Server, protocols ...string) (*websocket.Dialer, http.Header) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.CA)
	return &websocket.Dialer{TLSClientConfig: &tls.Config{RootCAs: roots}, Subprotocols: protocols},
		http.Header{"Authorization": {"Bearer " + s.Token}, "Origin": {s.URL}}
}

// TestWatchBySocket: each event is a text message, whatever the subprotocol. The end has the code 1000.
func TestWatchBySocket(t *testing.T) {
	s := apiservertest.Start(t, apiservertest.WithResources(resources()...))
	a := &api{t, s.Client(), s.URL}
	a.create(configPath, configMap("a", ""))
	for _, protocols := range [][]string{nil, {"binary.k8s.io"}, {"base64.binary.k8s.io"}, {"base64url.bearer.authorization.k8s.io.YWJj", "base64.binary.k8s.io"}} {
		for _, path := range []string{configPath + "?watch=true&timeoutSeconds=1", "/api/v1/watch/configmaps?timeoutSeconds=1"} {
			dialer, header := socketDialer(s, protocols...)
			ws, response, err := dialer.Dial(strings.Replace(s.URL, "https", "wss", 1)+path, header)
			if err != nil {
				t.Fatalf("a watch by WebSocket of %s with %q = %v, %v, want a connection", path, protocols, response, err)
			}
			if got, want := ws.Subprotocol(), append([]string{""}, protocols...)[len(protocols)]; got != want {
				t.Errorf("the subprotocol is %q, want %q", got, want)
			}
			kind, data, err := ws.ReadMessage()
			var e event
			if err != nil || kind != websocket.TextMessage || json.Unmarshal(data, &e) != nil || e.Type != string(watch.Added) || !strings.Contains(string(e.Object), `"name":"a"`) {
				t.Errorf("the first message is %d %q, %v, want the text of ADDED", kind, data, err)
			}
			if _, data, err := ws.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
				t.Errorf("after the time of the watch comes %q, %v, want a close with 1000", data, err)
			}
			ws.Close()
		}
	}
	dialer, header := socketDialer(s)
	if _, response, err := dialer.Dial(strings.Replace(s.URL, "https", "wss", 1)+configPath+"?watch=true&labelSelector=%3D%3D", header); err == nil || response == nil || response.StatusCode != 400 {
		t.Errorf("a watch by WebSocket with a wrong selector = %v, %v, want 400", response, err)
	}
}

// TestWatchBySocketInProtobuf: a message is an event without the length that stands before it in a stream.
func TestWatchBySocketInProtobuf(t *testing.T) {
	s := apiservertest.Start(t, apiservertest.WithResources(resources()...))
	a := &api{t, s.Client(), s.URL}
	a.create(configPath, configMap("a", ""))
	dialer, header := socketDialer(s)
	header.Set("Accept", "application/vnd.kubernetes.protobuf;stream=watch")
	ws, _, err := dialer.Dial(strings.Replace(s.URL, "https", "wss", 1)+configPath+"?watch=true", header)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	kind, data, err := ws.ReadMessage()
	if err != nil || kind != websocket.BinaryMessage || !strings.HasPrefix(string(data), "\n\x05ADDED") {
		t.Errorf("the first message is %d %q, %v, want the protobuf of ADDED", kind, data, err)
	}
}

// TestWatchBySocketEndsWithItsClient: a watch ends when its client closes the connection.
func TestWatchBySocketEndsWithItsClient(t *testing.T) {
	s := apiservertest.Start(t, apiservertest.WithResources(resources()...))
	dialer, header := socketDialer(s)
	ws, _, err := dialer.Dial(strings.Replace(s.URL, "https", "wss", 1)+configPath+"?watch=true", header)
	if err != nil {
		t.Fatal(err)
	}
	ws.WriteMessage(websocket.TextMessage, []byte("ignored"))
	ws.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""))
	if _, data, err := ws.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
		t.Errorf("after its own end the client reads %q, %v, want a close with 1000", data, err)
	}
	ws.Close()
}
