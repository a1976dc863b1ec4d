package aggregate_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/aggregate"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var metricsV1 = schema.GroupVersion{Group: "metrics.example.com", Version: "v1"}

func Example() {
	aggregator, err := aggregate.New(aggregate.Config{
		Services: func() iter.Seq[aggregate.Service] {
			return slices.Values([]aggregate.Service{{GroupVersion: metricsV1, Namespace: "kube-system", Name: "metrics", Port: 443}})
		},
		Resolve: func(context.Context, aggregate.Service) (*url.URL, error) { return url.Parse("https://10.0.0.7:8443") },
	})
	fmt.Println(aggregator.GroupVersions(), err)
	// Output: [metrics.example.com/v1] <nil>
}

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t}
	a.cert, a.key = a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

func (a *authority) sign(template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(1), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

func (a *authority) pair(name string, usage x509.ExtKeyUsage) tls.Certificate {
	cert, key := a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, ExtKeyUsage: []x509.ExtKeyUsage{usage}})
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// setup is an API server in front of another one.
type setup struct {
	server  *apiservertest.Server
	service atomic.Pointer[aggregate.Service] // nil: there is none
	resolve atomic.Pointer[error]             // not nil: it cannot be found
}

func start(t *testing.T, behind http.HandlerFunc) *setup {
	t.Helper()
	ca, front := newAuthority(t), newAuthority(t)
	other := httptest.NewUnstartedServer(behind)
	other.TLS = &tls.Config{
		Certificates: []tls.Certificate{ca.pair("metrics.kube-system.svc", x509.ExtKeyUsageServerAuth)},
		ClientCAs:    front.pool(), ClientAuth: tls.RequireAndVerifyClientCert,
	}
	other.EnableHTTP2 = true
	other.StartTLS()
	t.Cleanup(other.Close)
	proxy := front.pair("front-proxy-client", x509.ExtKeyUsageClientAuth)
	s := &setup{}
	s.service.Store(&aggregate.Service{GroupVersion: metricsV1, Namespace: "kube-system", Name: "metrics", Port: 443, CABundle: ca.pem()})
	aggregator, err := aggregate.New(aggregate.Config{
		Services: func() iter.Seq[aggregate.Service] {
			return func(yield func(aggregate.Service) bool) {
				if service := s.service.Load(); service != nil {
					yield(*service)
				}
			}
		},
		Resolve: func(context.Context, aggregate.Service) (*url.URL, error) {
			if err := s.resolve.Load(); err != nil {
				return nil, *err
			}
			return url.Parse(other.URL)
		},
		Certificate: func() (*tls.Certificate, error) { return &proxy, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(aggregator.Close)
	s.server = apiservertest.Start(t, apiservertest.WithResources(apiserver.Resource{
		Version: "v1", Kind: "ConfigMap", Plural: "configmaps", Namespaced: true,
		New:     func() runtime.Object { return &corev1.ConfigMap{} },
		NewList: func() runtime.Object { return &corev1.ConfigMapList{} },
	}), apiservertest.WithConfig(func(c *apiserver.Config) { c.Aggregator = aggregator }))
	return s
}

func (s *setup) do(t *testing.T, client *http.Client, method, path, body string, headers ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header[name] = append(r.Header[name], value)
	}
	response, err := client.Transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(data)
}

const nodesPath = "/apis/metrics.example.com/v1/nodes"

func TestWhoAsksIsPassedOn(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintln(w, r.Method, r.URL.RequestURI(), string(body), r.Header["X-Remote-User"], r.Header["X-Remote-Group"],
			r.Header["X-Remote-Extra-Evil"], r.Header["X_remote_user"], r.Header["Authorization"], r.Header["Impersonate-User"])
	})
	code, body := s.do(t, s.server.Client(), "POST", nodesPath+"?a=b", "hello", "X-Remote-User: root", "X-Remote-Group: evil", "X-Remote-Extra-Evil: yes", "X_remote_user: root")
	if want := "POST " + nodesPath + "?a=b hello [admin] [system:masters system:authenticated] [] [] [] []\n"; code != 200 || body != want {
		t.Errorf("%d %q, want %q", code, body, want)
	}
	code, body = s.do(t, s.server.Client(), "GET", nodesPath, "", "Impersonate-User: jane", "Impersonate-Group: system:masters")
	if code != 200 || !strings.Contains(body, "[jane]") || strings.Contains(body, "admin") {
		t.Errorf("impersonated: %d %s", code, body)
	}
	if code, body := s.do(t, s.server.As("joe"), "GET", nodesPath, ""); code != 403 {
		t.Errorf("joe: %d %s", code, body)
	}
	if code, _ := s.do(t, s.server.Anonymous(), "GET", nodesPath, ""); code != 401 {
		t.Errorf("anonymous: %d", code)
	}
}

func TestUnavailable(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })
	want := func(what string, code int) {
		t.Helper()
		if got, body := s.do(t, s.server.Client(), "GET", nodesPath, ""); got != code {
			t.Errorf("%s: %d %s, want %d", what, got, body, code)
		}
	}
	want("well", 200)
	lost := errors.New("no endpoints")
	s.resolve.Store(&lost)
	want("not found", 503)
	s.resolve.Store(nil)
	good := s.service.Load()
	for what, change := range map[string]func(*aggregate.Service){
		"another CA":    func(x *aggregate.Service) { x.CABundle = newAuthority(t).pem() },
		"garbage as CA": func(x *aggregate.Service) { x.CABundle = []byte("garbage") },
		"another name":  func(x *aggregate.Service) { x.Name = "other" },
	} {
		bad := *good
		change(&bad)
		s.service.Store(&bad)
		want(what, 503)
	}
	insecure := *good
	insecure.CABundle, insecure.InsecureSkipTLSVerify = nil, true
	s.service.Store(&insecure)
	want("any server", 200)
	s.service.Store(nil)
	want("gone", 404)
	s.service.Store(good)
	want("back", 200)
	if code, body := s.do(t, s.server.Client(), "GET", "/api/v1/configmaps", ""); code != 200 {
		t.Errorf("own group: %d %s", code, body)
	}
}

func TestDiscoveryMerges(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "resources at "+r.URL.Path) })
	const aggregated = "Accept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
	for _, c := range []struct{ path, header, want string }{
		{"/apis", "A: b", `"preferredVersion":{"groupVersion":"metrics.example.com/v1","version":"v1"}`},
		{"/apis", aggregated, `"kind":"APIGroupList"`},
		{"/api", aggregated, `"kind":"APIGroupDiscoveryList"`},
		{"/apis/metrics.example.com", "A: b", `"kind":"APIGroup"`},
		{"/apis/metrics.example.com/v1", "A: b", "resources at /apis/metrics.example.com/v1"},
		{"/", "A: b", `"/apis/metrics.example.com/v1"`},
	} {
		if code, body := s.do(t, s.server.Client(), "GET", c.path, "", c.header); code != 200 || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d %s, want %s", c.path, code, body, c.want)
		}
	}
	s.service.Store(nil)
	if _, body := s.do(t, s.server.Client(), "GET", "/apis", "", aggregated); !strings.Contains(body, "APIGroupDiscoveryList") {
		t.Errorf("without services: %s", body)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://elsewhere/", http.StatusFound)
	})
	if code, _ := s.do(t, s.server.Client(), "GET", nodesPath, ""); code != http.StatusFound {
		t.Errorf("%d", code)
	}
}

func TestWatchesStream(t *testing.T) {
	leave := make(chan struct{})
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "first\n")
		w.(http.Flusher).Flush()
		select {
		case <-leave:
		case <-r.Context().Done():
		}
	})
	defer close(leave)
	response, err := s.server.Client().Get(s.server.URL + nodesPath + "?watch=true")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	line := make([]byte, 6)
	if _, err := io.ReadFull(response.Body, line); err != nil || string(line) != "first\n" {
		t.Errorf("%q, %v", line, err)
	}
}

func TestUpgrade(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 1 || r.Header.Get("Upgrade") != "echo" {
			http.Error(w, "no upgrade", http.StatusBadRequest)
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		text, _ := rw.ReadString('\n')
		io.WriteString(conn, text)
	})
	conn, err := tls.Dial("tcp", strings.TrimPrefix(s.server.URL, "https://"), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST %s/a/exec HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n", nodesPath, s.server.Token)
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, nil)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%+v, %v", response, err)
	}
	fmt.Fprintln(conn, "hello")
	if text, err := reader.ReadString('\n'); err != nil || text != "hello\n" {
		t.Errorf("%q, %v", text, err)
	}
}
