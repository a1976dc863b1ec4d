package walk

import (
	"bytes"
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

// servers starts both servers, without controllers, so that objects change by requests alone.
func servers(t *testing.T) (theirs, ours *side) {
	t.Helper()
	bin, err := stock.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	reference := stock.NewServer(t, bin, "--disable-admission-plugins", "ServiceAccount", "--feature-gates", "CBORServingAndStorage=true",
		"--enable-priority-and-fairness=false", "--max-requests-inflight=0", "--max-mutating-requests-inflight=0")
	theirs = &side{name: "kube-apiserver", url: reference.URL, token: reference.Token,
		client: &http.Client{CheckRedirect: stay, Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 100,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}}
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
	ours = &side{name: "planekit", url: access.Host, client: &http.Client{CheckRedirect: stay, Transport: &http.Transport{
		DisableCompression: true, MaxIdleConnsPerHost: 100,
		DialContext: access.Dial, TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}}}}
	t.Cleanup(func() {
		theirs.client.CloseIdleConnections()
		ours.client.CloseIdleConnections()
	})
	return theirs, ours
}

func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

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
	// body is the same for both, unless current is set: then it is made of the object that each server has.
	body    []byte
	current *change
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
	if len(r.body) > 0 {
		s += " " + strings.ToValidUTF8(string(r.body[:min(len(r.body), 200)]), "?")
	}
	if r.current != nil {
		s += " (" + r.current.name + ")"
	}
	return s
}

// send sends r and returns the response; of a watch, what comes within its time.
func (s *side) send(t *testing.T, r request) answer {
	t.Helper()
	body := r.body
	if r.current != nil {
		body = r.current.of(t, s, r)
	}
	url := s.url + r.path
	if r.query != "" {
		url += "?" + r.query
	}
	q, err := http.NewRequestWithContext(t.Context(), r.method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatalf("%v: %v", r, err)
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
	timer := time.AfterFunc(30*time.Second, s.client.CloseIdleConnections)
	defer timer.Stop()
	got, err := s.client.Do(q)
	if err != nil {
		t.Fatalf("%v at %s: %v", r, s.name, err)
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
