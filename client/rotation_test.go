package client

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/pki"
)

// pipes is a listener of connections within the process.
type pipes struct {
	accepted chan net.Conn
	closed   chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accepted:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.accepted <- there:
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestRetiredConnectionsEnd: a request that does not end keeps a connection of an earlier certificate for
// 30 seconds, and not longer.
func TestRetiredConnectionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		authority, err := pki.New()
		if err != nil {
			t.Fatal(err)
		}
		serving, err := authority.Serving("server", "example.com")
		if err != nil {
			t.Fatal(err)
		}
		var certificates []*tls.Certificate
		for range 2 {
			pair, err := authority.Client("c", "jane")
			if err != nil {
				t.Fatal(err)
			}
			certificate := pair.TLS()
			certificates = append(certificates, &certificate)
		}
		listener := &pipes{make(chan net.Conn), make(chan struct{})}
		server := &http.Server{
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/watch" {
					w.WriteHeader(http.StatusOK)
					w.(http.Flusher).Flush()
					<-r.Context().Done()
					return
				}
				io.WriteString(w, r.TLS.PeerCertificates[0].SerialNumber.String())
			}),
			TLSConfig: &tls.Config{Certificates: []tls.Certificate{serving.TLS()}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authority.Pool()},
		}
		served := make(chan error)
		go func() { served <- server.ServeTLS(listener, "", "") }()
		defer func() {
			server.Close()
			<-served
		}()

		var current atomic.Pointer[tls.Certificate]
		current.Store(certificates[0])
		transport := newRotating(&tls.Config{RootCAs: authority.Pool(), ServerName: "example.com"}, current.Load)
		transport.dial = listener.dial
		get := func(path string) *http.Response {
			t.Helper()
			answer, err := (&http.Client{Transport: transport}).Get("https://example.com" + path)
			if err != nil {
				t.Fatal(err)
			}
			return answer
		}
		watch := get("/watch")
		began := time.Now()
		ended := make(chan time.Duration, 1)
		go func() {
			io.Copy(io.Discard, watch.Body)
			watch.Body.Close()
			ended <- time.Since(began)
		}()
		time.Sleep(time.Hour) // a watch of the current certificate goes on
		current.Store(certificates[1])
		answer := get("/")
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || string(text) != certificates[1].Leaf.SerialNumber.String() {
			t.Errorf("the server sees %s (%v), not the new certificate", text, err)
		}
		if took := <-ended; took != time.Hour+drainAfter {
			t.Errorf("the watch ended after %v", took)
		}
		synctest.Wait()
		if len(transport.retired) != 0 {
			t.Error("the earlier connections are kept")
		}
		transport.CloseIdleConnections()
	})
}
