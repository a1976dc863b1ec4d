package apiserver_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/apiserver"
)

// TestSlowStreamsAreCut: bodies that do not come are cut one by one where HTTP/2
// has many of them on a connection, which goes on serving its other requests.
func TestSlowStreamsAreCut(t *testing.T) {
	borrowed := httptest.NewTLSServer(nil)
	certificates := borrowed.TLS.Certificates
	borrowed.Close()
	synctest.Test(t, func(t *testing.T) {
		listener := &one{conns: make(chan net.Conn), closed: make(chan struct{})}
		wired(t, func(c *apiserver.Config) {
			c.Listener, c.InsecurePlainHTTP = listener, false
			c.TLS = &tls.Config{Certificates: certificates}
		})
		dials := 0
		transport := &http.Transport{
			ForceAttemptHTTP2: true,
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // time is not that of the certificate here
			DialContext: func(context.Context, string, string) (net.Conn, error) {
				dials++
				ours, theirs := net.Pipe()
				listener.conns <- theirs
				return ours, nil
			},
		}
		defer transport.CloseIdleConnections()
		send := func(method string, body io.Reader) int {
			r, err := http.NewRequestWithContext(t.Context(), method, "https://memory"+configPath, body)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("X-User", "jane")
			r.Header.Set("Content-Type", "application/json")
			response, err := transport.RoundTrip(r)
			if err != nil {
				t.Error(err)
				return 0
			}
			_, _ = io.Copy(io.Discard, response.Body)
			response.Body.Close()
			if response.ProtoMajor != 2 {
				t.Error(response.Proto)
			}
			return response.StatusCode
		}
		began := time.Now()
		if code := send("POST", strings.NewReader(configMap("a", ""))); code != 201 {
			t.Errorf("create: %d", code)
		}
		var slow sync.WaitGroup
		for range 10 {
			slow.Go(func() {
				body, end := io.Pipe()
				defer end.Close()
				if code, took := send("POST", body), time.Since(began); code != 408 || took != 10*time.Second {
					t.Errorf("%d after %v", code, took)
				}
			})
		}
		synctest.Wait()
		if code := send("GET", nil); code != 200 || time.Since(began) != 0 {
			t.Errorf("list: %d after %v", code, time.Since(began))
		}
		slow.Wait()
		if code := send("POST", strings.NewReader(configMap("b", ""))); code != 201 || dials != 1 {
			t.Errorf("create after %d connections: %d", dials, code)
		}
	})
}
