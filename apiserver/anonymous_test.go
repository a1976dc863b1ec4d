package apiserver_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"testing"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/storage/memstore"
)

// TestAnonymousGetsOneStream: over HTTP/2, a client that is anonymous or refused needs a
// new connection for each request. A known client keeps its connection, and so do all
// clients over HTTP/1.1.
func TestAnonymousGetsOneStream(t *testing.T) {
	api, err := apiserver.New(apiserver.Config{
		Store: memstore.New(), Authorizer: authz.InsecureAlwaysAllow(),
		Authenticator: authn.Func(func(r *http.Request) (*user.Info, bool, error) {
			switch as := r.Header.Get("Authorization"); as {
			case "forged":
				return nil, false, errors.New("bad signature")
			case "none":
				return nil, false, nil
			case "anonymous":
				return &user.Info{Name: user.Anonymous, Groups: []string{user.Unauthenticated}}, true, nil
			default:
				return &user.Info{Name: as}, true, nil
			}
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(api)
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	for _, test := range []struct {
		as      string
		version int
		code    int
		kept    bool
	}{
		{"jane", 2, 200, true},
		{"anonymous", 2, 200, false},
		{"forged", 2, 401, false},
		{"none", 2, 401, false},
		{"anonymous", 1, 200, true},
		{"forged", 1, 401, true},
	} {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}, ForceAttemptHTTP2: test.version == 2}
		for i := range 4 {
			reused := false
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }})
			r, err := http.NewRequestWithContext(ctx, "GET", server.URL+"/version", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", test.as)
			answer, err := transport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
			if answer.ProtoMajor != test.version || answer.StatusCode != test.code || reused != (test.kept && i > 0) {
				t.Errorf("%s, request %d: %s %s, on a connection that was there: %v, want %d over %d, kept %v",
					test.as, i+1, answer.Proto, answer.Status, reused, test.code, test.version, test.kept)
			}
		}
		transport.CloseIdleConnections()
	}
}
