package walk

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/admission/unsupported"
	"github.com/planekit/planekit/compat/stock"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/planetest"
)

// side is one of the two servers.
type side struct {
	name, url, token string
	client           *http.Client
}

// reference starts a kube-apiserver without controllers, so that objects change by requests alone.
func reference(t *testing.T) *side {
	t.Helper()
	bin := *programs
	if bin == "" {
		var err error
		if bin, err = stock.Build(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	server := stock.NewServer(t, bin, "--disable-admission-plugins", "ServiceAccount", "--feature-gates", "CBORServingAndStorage=true")
	return newSide(t, "kube-apiserver", server.URL, server.Token, &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}})
}

// planekit starts a plane like it.
func planekit(t *testing.T) *side {
	t.Helper()
	access := planetest.Start(t, planetest.CustomResources(), planetest.With(func(c *plane.Config) {
		c.NoControllers, c.NoScheduler, c.BareNamespaces = true, true, true
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

func newSide(t *testing.T, name, url, token string, transport *http.Transport) *side {
	t.Helper()
	transport.DisableCompression, transport.MaxIdleConnsPerHost = true, 100
	s := &side{name: name, url: url, token: token, client: &http.Client{CheckRedirect: stay, Transport: transport}}
	t.Cleanup(s.client.CloseIdleConnections)
	return s
}

func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// most is how long a response may take.
const most = 20 * time.Second

// answer is a response as it came.
type answer struct {
	code   int
	header http.Header
	body   []byte
}

// request is sent to both servers.
type request struct {
	method, path, query string
	accept, contentType string
	body                []byte
	// about names the body where it is made of the object that each server has.
	about string
	// header holds further headers.
	header map[string]string
}

func (r request) String() string {
	s := r.method + " " + r.path
	if r.query != "" {
		s += "?" + r.query
	}
	if r.accept != "" {
		s += " Accept: " + r.accept
	}
	if r.contentType != "" {
		s += " Content-Type: " + r.contentType
	}
	if len(r.body) > 0 && r.about == "" {
		s += " " + strings.ToValidUTF8(string(r.body[:min(len(r.body), 200)]), "?")
	}
	if r.about != "" {
		s += " (" + r.about + ")"
	}
	return s
}

// send sends r and returns the response; of a watch, what comes within its time.
func (s *side) send(t *testing.T, r request) answer {
	t.Helper()
	url := s.url + r.path
	if r.query != "" {
		url += "?" + r.query
	}
	ctx, cancel := context.WithTimeout(t.Context(), most)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, r.method, url, bytes.NewReader(r.body))
	if err != nil {
		t.Fatalf("send %v: %v, want a response", r, err)
	}
	if s.token != "" {
		q.Header.Set("Authorization", "Bearer "+s.token)
	}
	q.Header.Set("User-Agent", "walk/1")
	if r.accept != "" {
		q.Header.Set("Accept", r.accept)
	}
	if r.contentType != "" {
		q.Header.Set("Content-Type", r.contentType)
	}
	for name, value := range r.header {
		q.Header.Set(name, value)
	}
	got, err := s.client.Do(q)
	if err != nil {
		if s.name == "planekit" || ctx.Err() != nil {
			t.Errorf("%v at %s: %v", r, s.name, err)
		}
		return answer{} // kube-apiserver panics in some requests for discovery
	}
	defer got.Body.Close()
	if got.StatusCode == http.StatusSwitchingProtocols {
		return answer{code: got.StatusCode, header: got.Header}
	}
	data, err := io.ReadAll(got.Body)
	if err != nil {
		t.Errorf("%v at %s: %v", r, s.name, err)
	}
	return answer{code: got.StatusCode, header: got.Header, body: data}
}
