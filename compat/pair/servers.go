package pair

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/admission/unsupported"
	"github.com/planekit/planekit/compat/stock"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/planetest"
)

// Side is one of the two servers.
type Side struct {
	Name string

	url, token string
	client     *http.Client
}

// Reference starts a kube-apiserver without controllers, so that objects change by requests alone.
// Its programs are in bin; they are built if it is empty.
func Reference(t *testing.T, bin string) *Side {
	t.Helper()
	if bin == "" {
		var err error
		if bin, err = stock.Build(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	server := stock.NewServer(t, bin, "--disable-admission-plugins", "ServiceAccount", "--feature-gates", "CBORServingAndStorage=true", "--allow-privileged")
	return newSide(t, "kube-apiserver", server.URL, server.Token, &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}})
}

// Planekit starts a plane like it.
func Planekit(t *testing.T) *Side {
	t.Helper()
	access := planetest.Start(t, planetest.CustomResources(), planetest.With(func(c *plane.Config) {
		c.NoControllers, c.NoScheduler, c.BareNamespaces = true, true, true
		c.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}
		c.Admission.Disable, c.Admission.Unsupported = []string{"ServiceAccount"}, []unsupported.Row{}
	})).REST("admin", "system:masters")
	pair, err := tls.X509KeyPair(access.CertData, access.KeyData)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(access.CAData)
	return newSide(t, "planekit", access.Host, "", &http.Transport{
		DialContext: access.Dial, TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}})
}

func newSide(t *testing.T, name, url, token string, transport *http.Transport) *Side {
	t.Helper()
	transport.DisableCompression, transport.MaxIdleConnsPerHost = true, 100
	s := &Side{Name: name, url: url, token: token, client: &http.Client{CheckRedirect: stay, Transport: transport}}
	t.Cleanup(s.client.CloseIdleConnections)
	return s
}

func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// most is how long a response may take.
const most = 20 * time.Second

// Answer is a response as it came.
type Answer struct {
	Code   int
	Header http.Header
	Body   []byte
}

// Request is sent to both servers.
type Request struct {
	Method, Path, Query string
	Accept, ContentType string
	Body                []byte
	// About names the body where it is made of the object that each server has.
	About string
	// Header holds further headers.
	Header map[string]string
}

func (r Request) String() string {
	s := r.Method + " " + r.Path
	if r.Query != "" {
		s += "?" + r.Query
	}
	if r.Accept != "" {
		s += " Accept: " + r.Accept
	}
	if r.ContentType != "" {
		s += " Content-Type: " + r.ContentType
	}
	if len(r.Body) > 0 && r.About == "" {
		s += " " + strings.ToValidUTF8(string(r.Body[:min(len(r.Body), 200)]), "?")
	}
	if r.About != "" {
		s += " (" + r.About + ")"
	}
	return s
}

// Send sends r and returns the response; of a watch, what comes within its time.
func (s *Side) Send(t *testing.T, r Request) Answer {
	t.Helper()
	url := s.url + r.Path
	if r.Query != "" {
		url += "?" + r.Query
	}
	ctx, cancel := context.WithTimeout(t.Context(), most)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, r.Method, url, bytes.NewReader(r.Body))
	if err != nil {
		t.Fatalf("send %v: %v, want a response", r, err)
	}
	if s.token != "" {
		q.Header.Set("Authorization", "Bearer "+s.token)
	}
	q.Header.Set("User-Agent", "walk/1")
	if r.Accept != "" {
		q.Header.Set("Accept", r.Accept)
	}
	if r.ContentType != "" {
		q.Header.Set("Content-Type", r.ContentType)
	}
	for name, value := range r.Header {
		q.Header.Set(name, value)
	}
	got, err := s.client.Do(q)
	if err != nil {
		if s.Name == "planekit" || ctx.Err() != nil {
			t.Errorf("%v at %s: %v", r, s.Name, err)
		}
		return Answer{} // kube-apiserver panics in some requests for discovery
	}
	defer got.Body.Close()
	if got.StatusCode == http.StatusSwitchingProtocols {
		return Answer{Code: got.StatusCode, Header: got.Header}
	}
	data, err := io.ReadAll(got.Body)
	if err != nil {
		t.Errorf("%v at %s: %v", r, s.Name, err)
	}
	return Answer{Code: got.StatusCode, Header: got.Header, Body: data}
}
