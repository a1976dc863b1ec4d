package hookclient_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/internal/hookclient"
)

func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s %s", r.URL, r.Proto, body)
}

func bundle(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

func Example() {
	s := httptest.NewTLSServer(http.HandlerFunc(echo))
	defer s.Close()
	at := s.URL + "/convert/"
	c := hookclient.New(hookclient.Config{URL: &at, CABundle: bundle(s)})
	defer c.Close()
	answer, err := c.Post(context.Background(), []byte("hello"), 9500*time.Millisecond, 1<<20)
	fmt.Println(string(answer.Body), answer.Code, err)
	// Output: /convert?timeout=10s HTTP/1.1 hello 200 <nil>
}

// resolver resolves every service to a server.
type resolver struct{ host string }

func (r resolver) Resolve(_ context.Context, namespace, name string, port int32) (*url.URL, error) {
	if got := fmt.Sprint(namespace, name, port); got != "ns1" {
		return &url.URL{Host: r.host}, nil
	}
	return nil, errors.New("no such service")
}

func TestService(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(echo))
	defer s.Close()
	// The certificate is not for the service: the dialer has connected, and TLS refuses.
	c := hookclient.New(hookclient.Config{
		Service: &hookclient.Service{Namespace: "n", Name: "s", Path: new("/a//b/")}, CABundle: bundle(s),
		Resolver: resolver{strings.TrimPrefix(s.URL, "https://")},
	})
	defer c.Close()
	_, err := c.Post(t.Context(), nil, time.Second, 10)
	if err == nil || !strings.Contains(err.Error(), `Post "https://s.n.svc:443/a/b?timeout=1s"`) || !strings.Contains(err.Error(), "s.n.svc") {
		t.Error(err)
	}
}

func TestBadConfigs(t *testing.T) {
	for text, c := range map[string]hookclient.Config{
		"either service or URL":              {},
		"must be https":                      {URL: new("http://127.0.0.1")},
		"unable to parse bytes as PEM block": {URL: new("https://127.0.0.1"), CABundle: []byte("x")},
		"no valid certificate authority":     {URL: new("https://127.0.0.1"), CABundle: pem.EncodeToMemory(&pem.Block{Type: "KEY"})},
		"failed to parse certificate":        {URL: new("https://127.0.0.1"), CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE"})},
	} {
		if _, err := hookclient.New(c).Post(t.Context(), nil, time.Second, 1); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %s", err, text)
		}
	}
}

// TestLimits: an answer is read up to the limit, and a redirect is an answer.
func TestLimits(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, "https://example.com", http.StatusFound)
		case "/endless":
			for part := make([]byte, 1<<16); ; {
				if _, err := w.Write(part); err != nil {
					return
				}
			}
		case "/hang":
			<-r.Context().Done()
		}
	}))
	defer s.Close()
	post := func(path string, timeout time.Duration) (*hookclient.Answer, error) {
		at := s.URL + path
		c := hookclient.New(hookclient.Config{URL: &at, CABundle: bundle(s), Timeout: timeout})
		defer c.Close()
		return c.Post(t.Context(), nil, time.Second, 1<<20)
	}
	if answer, err := post("/redirect", 0); err != nil || answer.Code != http.StatusFound {
		t.Errorf("Post to /redirect = %+v, %v, want code 302", answer, err)
	}
	if _, err := post("/endless", 0); err == nil || !strings.Contains(err.Error(), "larger than 1048576 bytes") {
		t.Error(err)
	}
	if _, err := post("/hang", 10*time.Millisecond); err == nil || !strings.Contains(err.Error(), "Client.Timeout exceeded while awaiting headers") {
		t.Error(err)
	}
}
