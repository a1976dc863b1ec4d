package requestheader_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/anonymous"
	"github.com/planekit/planekit/authn/internal/certtest"
	"github.com/planekit/planekit/authn/requestheader"
	"github.com/planekit/planekit/authn/user"
	clientcerts "github.com/planekit/planekit/authn/x509"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func request(certificate *x509.Certificate, headers http.Header) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header = headers
	if certificate != nil {
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{certificate}}
	}
	return r
}

func Example() {
	front := certtest.New()
	proxies, err := requestheader.New(requestheader.Config{Roots: front.Pool, AllowedNames: []string{"front-proxy-client"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	headers := http.Header{"X-Remote-User": {"jane"}, "X-Remote-Group": {"dev", "ops"}}
	u, known, err := proxies.Authenticate(request(front.Client("front-proxy-client"), headers))
	fmt.Println(u.Name, u.Groups, known, err)
	// Output: jane [dev ops] true <nil>
}

// TestWhoIsBelieved: headers count only under the authority and its names.
func TestWhoIsBelieved(t *testing.T) {
	front, clients := certtest.New(), certtest.New()
	a := must(requestheader.New(requestheader.Config{Roots: front.Pool, AllowedNames: []string{"proxy", "other"}}))
	jane := http.Header{"X-Remote-User": {"jane"}}
	for name, test := range map[string]struct {
		certificate    *x509.Certificate
		headers        http.Header
		known, refused bool
	}{
		"proxy":           {certificate: front.Client("proxy"), headers: jane, known: true},
		"the other proxy": {certificate: front.Client("other"), headers: jane, known: true},
		"nobody":          {headers: jane},
		"another CA":      {certificate: clients.Client("proxy"), headers: jane},
		"another name":    {certificate: front.Client("stranger"), headers: jane, refused: true},
		"no name":         {certificate: front.Client(""), headers: jane, refused: true},
		"a server":        {certificate: front.Issue(pkix.Name{CommonName: "proxy"}, certtest.Servers).Leaf, headers: jane},
		"no user":         {certificate: front.Client("proxy"), headers: http.Header{"X-Remote-Group": {"dev"}}},
		"empty user":      {certificate: front.Client("proxy"), headers: http.Header{"X-Remote-User": {""}}},
		"two users":       {certificate: front.Client("proxy"), headers: http.Header{"X-Remote-User": {"jane", "root"}}, refused: true},
		"two UIDs":        {certificate: front.Client("proxy"), headers: http.Header{"X-Remote-User": {"jane"}, "X-Remote-Uid": {"1", "2"}}, refused: true},
	} {
		u, known, err := a.Authenticate(request(test.certificate, test.headers))
		if known != test.known || (err != nil) != test.refused || known && u.Name != "jane" {
			t.Errorf("%s: %+v, known %v, error %v", name, u, known, err)
		}
	}
}

// TestForgery: with the usual authenticators behind it, a client has the name in its own
// certificate or none, whatever headers it sends.
func TestForgery(t *testing.T) {
	front, clients := certtest.New(), certtest.New()
	chain := authn.Chain{
		must(requestheader.New(requestheader.Config{Roots: front.Pool, AllowedNames: []string{"proxy"}})),
		must(clientcerts.New(clientcerts.Config{Roots: clients.Pool})),
		anonymous.Authenticator{},
	}
	forged := http.Header{"X-Remote-User": {"root"}, "X-Remote-Group": {"system:masters"}}
	for name, test := range map[string]struct {
		certificate *x509.Certificate
		want        string // empty: refused
	}{
		"a client":         {clients.Client("joe"), "joe"},
		"named as a proxy": {clients.Client("proxy"), "proxy"},
		"no certificate":   {nil, user.Anonymous},
		"not a proxy":      {front.Client("joe"), ""},
	} {
		u, known, err := chain.Authenticate(request(test.certificate, forged))
		if known != (test.want != "") || (err == nil) != known || known && (u.Name != test.want || u.In(user.Masters)) {
			t.Errorf("%s: %+v, known %v, error %v", name, u, known, err)
		}
	}
}

func TestWhatIsRead(t *testing.T) {
	front := certtest.New()
	proxy := front.Client("proxy")
	a := must(requestheader.New(requestheader.Config{
		Roots: front.Pool, InsecureAnyName: true, UserHeaders: []string{"x-first", "X-Second"}, GroupHeaders: []string{"X-G", "X-H"},
		ExtraPrefixes: []string{"x-more-"},
	}))
	headers := http.Header{
		"X-First": {""}, "X-Second": {"jane"}, "X-Remote-User": {"root"}, "X-Remote-Uid": {"7"}, "X-G": {"a", ""}, "X-H": {"b"},
		"X-More-Example.com%2fscope": {"read", "write"}, "X-More-Bad%zz": {"c"},
	}
	u, known, err := a.Authenticate(request(proxy, headers))
	want := &user.Info{Name: "jane", UID: "7", Groups: []string{"a", "b"}, Extra: map[string][]string{
		"example.com/scope": {"read", "write"}, "bad%zz": {"c"},
	}}
	if !known || err != nil || !reflect.DeepEqual(u, want) {
		t.Errorf("%+v, %v, %v, want %+v", u, known, err, want)
	}
}

func TestStrip(t *testing.T) {
	a := must(requestheader.New(requestheader.Config{
		Roots: x509.NewCertPool(), InsecureAnyName: true, UserHeaders: []string{"x-who", "X-Also"}, GroupHeaders: []string{"X-G"},
		UIDHeaders: []string{"X-Id"}, ExtraPrefixes: []string{"x-more-", "X-Yet-"},
	}))
	h := http.Header{"X-Remote-User": {"a"}, "X-Mor": {"b"}}
	want := h.Clone()
	for _, name := range []string{"X-Who", "X-Also", "X-G", "X-Id", "X-More-A", "X-More-", "X-Yet-B"} {
		h.Set(name, "root")
	}
	if a.Strip(h); !reflect.DeepEqual(h, want) {
		t.Errorf("%v, want %v", h, want)
	}
}

func TestProxyIsVerifiedEveryTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		front := certtest.New()
		roots := front.Pool
		a := must(requestheader.New(requestheader.Config{CurrentRoots: func() *x509.CertPool { return roots }, AllowedNames: []string{"proxy"}}))
		r := request(front.Client("proxy"), http.Header{"X-Remote-User": {"jane"}})
		for step, change := range []func(){func() {}, func() { roots = nil }, func() { roots = certtest.New().Pool }, func() {
			roots = front.Pool
			time.Sleep(2 * time.Hour)
		}} {
			change()
			if _, known, err := a.Authenticate(r); known != (step == 0) || err != nil {
				t.Errorf("step %d: known %v, error %v", step, known, err)
			}
		}
	})
}

func TestNewRefuses(t *testing.T) {
	pool, names := x509.NewCertPool(), []string{"proxy"}
	for what, c := range map[string]requestheader.Config{
		"no roots":      {AllowedNames: names},
		"two roots":     {Roots: pool, CurrentRoots: func() *x509.CertPool { return pool }, AllowedNames: names},
		"no names":      {Roots: pool},
		"names and any": {Roots: pool, AllowedNames: names, InsecureAnyName: true},
		"empty header":  {Roots: pool, AllowedNames: names, UserHeaders: []string{" "}},
	} {
		if _, err := requestheader.New(c); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

func FuzzHeaders(f *testing.F) {
	front := certtest.New()
	proxy, client := front.Client("proxy"), certtest.New().Client("proxy")
	a := must(requestheader.New(requestheader.Config{Roots: front.Pool, AllowedNames: []string{"proxy"}}))
	f.Add("jane", "dev", "X-Remote-Extra-Scope", "read")
	f.Add("", "", "X-Remote-Extra-%", "")
	f.Fuzz(func(t *testing.T, name, group, header, value string) {
		headers := http.Header{"X-Remote-User": {name}, "X-Remote-Group": {group}}
		headers[http.CanonicalHeaderKey(header)] = append(headers[http.CanonicalHeaderKey(header)], value)
		u, known, err := a.Authenticate(request(proxy, headers))
		if known && (err != nil || u.Name == "" || u.Name != name && u.Name != value) || !known && u != nil {
			t.Errorf("Authenticate = %+v, %v, %v, want no error and the user %q or %q if known, else no user", u, known, err, name, value)
		}
		if u, known, err := a.Authenticate(request(client, headers)); known || u != nil || err != nil {
			t.Errorf("from another: %+v, %v, %v", u, known, err)
		}
		before := len(headers)
		if a.Strip(headers); len(headers) > before {
			t.Errorf("%d headers of %d", len(headers), before)
		}
		if _, known, err := a.Authenticate(request(proxy, headers)); known || err != nil {
			t.Errorf("stripped: %v, %v, %v", headers, known, err)
		}
	})
}

// BenchmarkAuthenticate is a request of a proxy, and one of a client with a
// certificate of its own, which every client's request goes through first.
func BenchmarkAuthenticate(b *testing.B) {
	front, clients := certtest.New(), certtest.New()
	a := must(requestheader.New(requestheader.Config{Roots: front.Pool, AllowedNames: []string{"proxy"}}))
	jane := http.Header{"X-Remote-User": {"jane"}, "X-Remote-Group": {"dev", "ops"}}
	for name, r := range map[string]*http.Request{
		"from=proxy": request(front.Client("proxy"), jane), "from=client": request(clients.Client("jane"), http.Header{}),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				a.Authenticate(r)
			}
		})
	}
}

// TestHeadersEndHere: a server behind this one gets no header in which a front proxy names the user, from any
// client, also where the headers have other names than usual.
func TestHeadersEndHere(t *testing.T) {
	front, clients := certtest.New(), certtest.New()
	proxies := must(requestheader.New(requestheader.Config{
		Roots: front.Pool, AllowedNames: []string{"proxy"}, UserHeaders: []string{"X-Who"}, GroupHeaders: []string{"X_Groups"},
		UIDHeaders: []string{"X-Id"}, ExtraPrefixes: []string{"X-More-"},
	}))
	chain := authn.Chain{
		authn.MeantFor([]string{"api"}, proxies),
		authn.MeantFor([]string{"api"}, must(clientcerts.New(clientcerts.Config{Roots: clients.Pool}))),
	}
	for want, certificate := range map[string]*x509.Certificate{"root": front.Client("proxy"), "joe": clients.Client("joe")} {
		var seen http.Header
		handler := authn.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			seen = r.Header
			if u, _ := user.FromContext(r.Context()); u.Name != want {
				t.Errorf("the user is %q, want %q", u.Name, want)
			}
		}), chain)
		handler.ServeHTTP(httptest.NewRecorder(), request(certificate, http.Header{
			"X-Who": {"root"}, "X_who": {"root"}, "X-Groups": {"system:masters"}, "X-Id": {"0"}, "X-More-Scope": {"all"}, "X_more-Scope": {"all"},
			"X-Remote-User": {"root"}, "Accept": {"text/plain"},
		}))
		if len(seen) != 1 || seen.Get("Accept") == "" {
			t.Errorf("a server behind gets %v of a request of %s, want Accept alone", seen, want)
		}
	}
}
