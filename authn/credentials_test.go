package authn_test

import (
	"bufio"
	"crypto/tls"
	stdx509 "crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/anonymous"
	"github.com/planekit/planekit/authn/basicauth"
	"github.com/planekit/planekit/authn/internal/certtest"
	"github.com/planekit/planekit/authn/requestheader"
	"github.com/planekit/planekit/authn/tokenfile"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authn/x509"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// cluster is a server over TLS with the usual authenticators. It answers with the
// user, the groups and the names of the headers that came through.
type cluster struct {
	*httptest.Server
	clients, front *certtest.Authority
}

func serve(t *testing.T) *cluster {
	c := &cluster{clients: certtest.New(), front: certtest.New()}
	chain := authn.Chain{
		must(requestheader.New(requestheader.Config{Roots: c.front.Pool, AllowedNames: []string{"proxy"}})),
		must(x509.New(x509.Config{Roots: c.clients.Pool})),
		must(tokenfile.Read([]byte("t0ken,robot,1\n"))),
		must(basicauth.Read([]byte("s3cret,jane,2\n"))),
		anonymous.Authenticator{},
	}
	c.Server = httptest.NewUnstartedServer(authn.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u, _ := user.FromContext(r.Context())
		fmt.Fprint(w, u.Name, " ", strings.Join(u.Groups, ","))
		for name := range r.Header {
			if name == "Authorization" || strings.HasPrefix(name, "X-") {
				fmt.Fprint(w, " ", name)
			}
		}
	}), chain))
	c.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	c.EnableHTTP2 = true
	c.StartTLS()
	t.Cleanup(c.Close)
	return c
}

// get asks with a certificate, if there is one.
func (c *cluster) get(t *testing.T, certificate *tls.Certificate, headers http.Header) (int, string) {
	t.Helper()
	transport := c.Client().Transport.(*http.Transport).Clone()
	defer transport.CloseIdleConnections()
	if certificate != nil {
		transport.TLSClientConfig.Certificates = []tls.Certificate{*certificate}
	}
	r := must(http.NewRequestWithContext(t.Context(), "GET", c.URL, nil))
	r.Header = headers
	response, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode, string(must(io.ReadAll(response.Body)))
}

// TestCertificatesOverTLS: a bad certificate is 401 and never the anonymous user.
func TestCertificatesOverTLS(t *testing.T) {
	c := serve(t)
	jane := pkix.Name{CommonName: "jane", Organization: []string{"dev"}}
	past := func(t *stdx509.Certificate) {
		t.NotBefore, t.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
	}
	future := func(t *stdx509.Certificate) {
		t.NotBefore, t.NotAfter = time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
	}
	for name, test := range map[string]struct {
		certificate *tls.Certificate
		code        int
		body        string
	}{
		"good":          {ptr(c.clients.Issue(jane)), 200, "jane dev,system:authenticated"},
		"none":          {nil, 200, "system:anonymous system:unauthenticated"},
		"expired":       {ptr(c.clients.Issue(jane, past)), 401, ""},
		"not yet valid": {ptr(c.clients.Issue(jane, future)), 401, ""},
		"wrong CA":      {ptr(certtest.New().Issue(jane)), 401, ""},
		"for servers":   {ptr(c.clients.Issue(jane, certtest.Servers)), 401, ""},
		"no usage":      {ptr(c.clients.Issue(jane, func(t *stdx509.Certificate) { t.ExtKeyUsage = []stdx509.ExtKeyUsage{stdx509.ExtKeyUsageCodeSigning} })), 401, ""},
		"empty name":    {ptr(c.clients.Issue(pkix.Name{Organization: []string{"system:masters"}})), 401, ""},
	} {
		code, body := c.get(t, test.certificate, nil)
		if code != test.code || code == 200 && body != test.body || code == 401 && !strings.Contains(body, `"reason":"Unauthorized"`) {
			t.Errorf("%s: GET = %d %s, want %d %s and Unauthorized if 401", name, code, body, test.code, test.body)
		}
	}
}

func ptr[T any](v T) *T { return &v }

// TestTwoAuthorizations: several headers are never one, whatever they say and
// whatever else the client has to show.
func TestTwoAuthorizations(t *testing.T) {
	c := serve(t)
	jane := c.clients.Issue(pkix.Name{CommonName: "jane"})
	for name, test := range map[string]struct {
		values []string
		code   int
	}{
		"one":                  {[]string{"Bearer t0ken"}, 200},
		"good and good":        {[]string{"Bearer t0ken", "Bearer t0ken"}, 401},
		"good and bad":         {[]string{"Bearer t0ken", "Bearer guess"}, 401},
		"bad and good":         {[]string{"Bearer guess", "Bearer t0ken"}, 401},
		"bearer and basic":     {[]string{"Bearer t0ken", "Basic amFuZTpzM2NyZXQ="}, 401},
		"empty and good":       {[]string{"", "Bearer t0ken"}, 401},
		"joined":               {[]string{"Bearer t0ken, Bearer t0ken"}, 401},
		"joined without space": {[]string{"Bearer t0ken,Basic amFuZTpzM2NyZXQ="}, 401},
		"broken in two":        {[]string{"Bearer", "t0ken"}, 401},
		"unknown scheme":       {[]string{"Digest t0ken"}, 401},
		"no scheme":            {[]string{"t0ken"}, 401},
	} {
		if code, body := c.get(t, nil, http.Header{"Authorization": test.values}); code != test.code {
			t.Errorf("%s: GET = %d %s, want %d", name, code, body, test.code)
		}
		if len(test.values) > 1 {
			if code, body := c.get(t, &jane, http.Header{"Authorization": test.values}); code != 401 {
				t.Errorf("%s, with a certificate: %d %s", name, code, body)
			}
		}
	}
	// The same in the words of HTTP/1.1, where the name's spelling is the client's.
	connection := must(tls.Dial("tcp", c.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true}))
	defer connection.Close()
	fmt.Fprint(connection, "GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t0ken\r\naUTHORIZATION: Bearer t0ken\r\n\r\n")
	if response := must(http.ReadResponse(bufio.NewReader(connection), nil)); response.StatusCode != 401 {
		t.Errorf("two spellings: %s", response.Status)
	}
}

// TestRemoteHeaders: they count under the authority and the name of the front proxy, and are
// removed for every client.
func TestRemoteHeaders(t *testing.T) {
	c := serve(t)
	forged := func(more ...string) http.Header {
		h := http.Header{"X-Remote-User": {"root"}, "X-Remote-Group": {"system:masters"}, "X-Remote-Extra-A": {"b"}, "X-Remote-Uid": {"0"}, "X_remote_user": {"root"}, "X-Other": {"c"}}
		for i := 0; i < len(more); i += 2 {
			h.Set(more[i], more[i+1])
		}
		return h
	}
	named := func(a *certtest.Authority, name string) *tls.Certificate {
		return ptr(a.Issue(pkix.Name{CommonName: name}))
	}
	for name, test := range map[string]struct {
		certificate *tls.Certificate
		headers     http.Header
		code        int
		body        string
	}{
		"proxy":                   {named(c.front, "proxy"), forged(), 200, "root system:masters,system:authenticated X-Other"},
		"proxy without headers":   {named(c.front, "proxy"), nil, 401, ""},
		"another name":            {named(c.front, "joe"), forged(), 401, ""},
		"a client":                {named(c.clients, "joe"), forged(), 200, "joe system:authenticated X-Other"},
		"a client named proxy":    {named(c.clients, "proxy"), forged(), 200, "proxy system:authenticated X-Other"},
		"a stranger named proxy":  {named(certtest.New(), "proxy"), forged(), 401, ""},
		"a proxy's server":        {ptr(c.front.Issue(pkix.Name{CommonName: "proxy"}, certtest.Servers)), forged(), 401, ""},
		"no certificate":          {nil, forged(), 200, "system:anonymous system:unauthenticated X-Other"},
		"a token":                 {nil, forged("Authorization", "Bearer t0ken"), 200, "robot system:authenticated X-Other"},
		"a bad token":             {nil, forged("Authorization", "Bearer guess"), 401, ""},
		"a password":              {nil, forged("Authorization", "Basic amFuZTpzM2NyZXQ="), 200, "jane system:authenticated X-Other"},
		"a certificate and token": {named(c.clients, "joe"), forged("Authorization", "Bearer t0ken"), 200, "joe system:authenticated X-Other"},
	} {
		code, body := c.get(t, test.certificate, test.headers)
		if code != test.code || code == 200 && body != test.body || code == 401 && !strings.Contains(body, `"reason":"Unauthorized"`) {
			t.Errorf("%s: GET = %d %s, want %d %s and Unauthorized if 401", name, code, body, test.code, test.body)
		}
	}
}

// TestUnauthenticatedClientsGetOneStream: over HTTP/2 the connection ends after a refusal or an
// anonymous request.
func TestUnauthenticatedClientsGetOneStream(t *testing.T) {
	c := serve(t)
	client := c.Client()
	for _, test := range []struct {
		token string
		fresh bool
	}{{"t0ken", true}, {"t0ken", false}, {"guess", false}, {"guess", true}, {"", true}, {"", true}, {"t0ken", true}, {"t0ken", false}} {
		r := must(http.NewRequestWithContext(t.Context(), "GET", c.URL, nil))
		if test.token != "" {
			r.Header.Set("Authorization", "Bearer "+test.token)
		}
		trace, reused := traced(r)
		response := must(client.Do(trace))
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if response.ProtoMajor != 2 || *reused == test.fresh {
			t.Errorf("%s: %s, on the connection of before: %v", test.token, response.Proto, *reused)
		}
	}
}

// traced returns r with a trace of whether it used an existing connection.
func traced(r *http.Request) (*http.Request, *bool) {
	reused := new(bool)
	return r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { *reused = info.Reused },
	})), reused
}
