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
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/aggregate"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/kinds/apiregistration"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var metricsV1 = schema.GroupVersion{Group: "metrics.example.com", Version: "v1"}

func Example() {
	all := newCopies() // local copies, informers in a program
	service := &apiregistration.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1.metrics.example.com"}, Spec: apiregistration.APIServiceSpec{
		Group: metricsV1.Group, Version: metricsV1.Version, Service: &apiregistration.ServiceReference{Namespace: "kube-system", Name: "metrics"},
	}}
	all.apiServices.Put(service)
	aggregator, err := aggregate.New(aggregate.Config{
		APIServices: all.apiServices, Services: all.services, EndpointSlices: all.slices, Endpoints: all.endpoints, Status: all,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- aggregator.Run(ctx) }()
	<-aggregator.Ready()
	fmt.Println(aggregator.GroupVersions()[0].GroupVersion, aggregator.Handler(metricsV1) != nil)
	cancel()
	fmt.Println(<-ended)
	// Output:
	// metrics.example.com/v1 true
	// <nil>
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
	*copies
	server     *apiservertest.Server
	aggregator *aggregate.Aggregator
	other      *httptest.Server
}

// discovery holds the resources of the other server.
const discovery = `{"kind":"APIResourceList","groupVersion":"metrics.example.com/v1","resources":[` +
	`{"name":"nodes","singularName":"node","namespaced":true,"kind":"Node","verbs":["get","list"],"shortNames":["mn"],"categories":["all"]},` +
	`{"name":"nodes/status","namespaced":true,"kind":"Node","verbs":["get"]},` +
	`{"name":"nodes/scale","namespaced":true,"group":"autoscaling","version":"v1","kind":"Scale","verbs":["get"]}]}`

// start has behind answer what is passed on. The other server's discovery and
// OpenAPI index are there for the test's checks.
func start(t *testing.T, behind http.HandlerFunc) *setup {
	t.Helper()
	ca, front := newAuthority(t), newAuthority(t)
	s := &setup{copies: newCopies()}
	s.other = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Remote-User") != "system:kube-aggregator" {
			behind(w, r)
			return
		}
		if !slices.Equal(r.Header["X-Remote-Group"], []string{"system:masters"}) {
			t.Errorf("checked by %v", r.Header)
		}
		switch r.URL.Path {
		case "/apis/metrics.example.com/v1":
			io.WriteString(w, discovery)
		case "/openapi/v3":
			io.WriteString(w, `{"paths":{"apis/metrics.example.com/v1":{"serverRelativeURL":"/openapi/v3/apis/metrics.example.com/v1?hash=ABC"}}}`)
		default:
			http.NotFound(w, r)
		}
	}))
	s.other.TLS = &tls.Config{
		Certificates: []tls.Certificate{ca.pair("metrics.kube-system.svc", x509.ExtKeyUsageServerAuth)},
		ClientCAs:    front.pool(), ClientAuth: tls.RequireAndVerifyClientCert,
	}
	s.other.EnableHTTP2 = true
	s.other.Config.ErrorLog = log.New(io.Discard, "", 0) // some handshakes are to fail
	s.other.StartTLS()
	t.Cleanup(s.other.Close)
	s.add(s.other.Listener.Addr().(*net.TCPAddr), ca.pem())
	proxy := front.pair("front-proxy-client", x509.ExtKeyUsageClientAuth)
	s.aggregator = run(t, aggregate.Config{
		APIServices: s.apiServices, Services: s.services, EndpointSlices: s.slices, Endpoints: s.endpoints, Status: s,
		Certificate: func() (*tls.Certificate, error) { return &proxy, nil },
	})
	s.server = apiservertest.Start(t, apiservertest.WithResources(apiserver.Resource{
		Version: "v1", Kind: "ConfigMap", Plural: "configmaps", Namespaced: true,
		New:     func() runtime.Object { return &corev1.ConfigMap{} },
		NewList: func() runtime.Object { return &corev1.ConfigMapList{} },
	}), apiservertest.WithConfig(func(c *apiserver.Config) { c.Aggregator = s.aggregator }))
	return s
}

// run runs an aggregator until the test ends.
func run(t *testing.T, c aggregate.Config) *aggregate.Aggregator {
	t.Helper()
	a, err := aggregate.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	<-a.Ready()
	return a
}

// eventually waits until done is.
func eventually(t *testing.T, done func() bool, failed func()) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); !done(); <-tick.C {
		if time.Now().After(deadline) {
			failed()
			t.FailNow()
		}
	}
}

// condition waits until the APIService says what is wanted: its status and
// reason.
func (c *copies) condition(t *testing.T, want string) (have apiregistration.APIServiceCondition) {
	t.Helper()
	eventually(t, func() bool {
		if object, ok := c.apiServices.Get(name); ok && len(object.Status.Conditions) == 1 {
			have = object.Status.Conditions[0]
		}
		return string(have.Status)+" "+have.Reason == want
	}, func() { t.Errorf("the condition is %+v, want %q", have, want) })
	return have
}

// ready waits until requests are passed on: a condition counts a moment after it
// was written.
func (s *setup) ready(t *testing.T) {
	t.Helper()
	s.condition(t, "True Passed")
	eventually(t, func() bool {
		v := s.aggregator.GroupVersions()
		return len(v) > 0 && !v[0].Stale
	}, func() { t.Error("it stays stale") })
}

// answers waits until a request gets the code that is wanted.
func (s *setup) answers(t *testing.T, what string, want int) (body string) {
	t.Helper()
	var code int
	eventually(t, func() bool {
		code, body = s.do(t, s.server.Client(), "GET", nodesPath, "")
		return code == want
	}, func() { t.Errorf("%s: %d %s, want %d", what, code, body, want) })
	return body
}

// shows waits until the document at path is as want wants it. The documents follow
// what requests are answered by: a probe must have run in between.
func (s *setup) shows(t *testing.T, path, header, what string, want func(body string) bool) {
	t.Helper()
	var code int
	var body string
	eventually(t, func() bool {
		code, body = s.do(t, s.server.Client(), "GET", path, "", header)
		return code == 200 && want(body)
	}, func() {
		t.Errorf("%s: GET %s = %d %s, want 200 with a body that the caller wants", what, path, code, body)
	})
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
	s.ready(t)
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

// TestUnavailable: a server that is not there, or not the one that is meant, is
// not asked; the client gets kube-aggregator's 503, and other groups are served.
func TestUnavailable(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })
	s.answers(t, "well", 200)
	s.condition(t, "True Passed")
	good, _ := s.apiServices.Get(name)
	for what, change := range map[string]func(*apiregistration.APIServiceSpec){
		"another CA":    func(x *apiregistration.APIServiceSpec) { x.CABundle = newAuthority(t).pem() },
		"garbage as CA": func(x *apiregistration.APIServiceSpec) { x.CABundle = []byte("garbage") },
		"another name":  func(x *apiregistration.APIServiceSpec) { x.Service.Name = "same" }, // not in the certificate
	} {
		bad := good.DeepCopy()
		change(&bad.Spec)
		s.apiServices.Put(bad)
		s.condition(t, "False FailedDiscoveryCheck")
		if body := s.answers(t, what, 503); body != "service unavailable\n" {
			t.Errorf("%s: the body is %q, want %q", what, body, "service unavailable\n")
		}
		s.apiServices.Put(good)
		s.condition(t, "True Passed")
		s.answers(t, "well again after "+what, 200)
	}
	insecure := good.DeepCopy()
	insecure.Spec.CABundle, insecure.Spec.InsecureSkipTLSVerify, insecure.Spec.Service.Name = nil, true, "same"
	s.apiServices.Put(insecure)
	s.answers(t, "any server", 200)
	s.apiServices.Delete(name)
	s.answers(t, "gone", 404)
	s.apiServices.Put(good)
	s.answers(t, "back", 200)
	s.other.CloseClientConnections()
	s.other.Listener.Close()
	s.slices.Put(slice("metrics", s.port)) // look again
	c := s.condition(t, "False FailedDiscoveryCheck")
	if !strings.HasPrefix(c.Message, "failing or missing response from https://127.0.0.1:") || !strings.Contains(c.Message, "/apis/metrics.example.com/v1: Get ") {
		t.Errorf("message: %s", c.Message)
	}
	s.answers(t, "down", 503)
	// Losses from before it was deleted are forgotten.
	want := []aggregate.Availability{{Name: name, Losses: map[string]uint64{"FailedDiscoveryCheck": 1}}}
	eventually(t, func() bool { return reflect.DeepEqual(s.aggregator.Availability(), want) }, func() {
		t.Errorf("Availability() = %v, want %v", s.aggregator.Availability(), want)
	})
	if code, body := s.do(t, s.server.Client(), "GET", "/api/v1/configmaps", ""); code != 200 {
		t.Errorf("own group: %d %s", code, body)
	}
}

// TestNotYetAvailable: a server of which it is not written that it is available is
// not asked, though it would answer.
func TestNotYetAvailable(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })
	s.answers(t, "well", 200)
	s.mu.Lock()
	s.refuse = errors.New("no room")
	s.mu.Unlock()
	have, _ := s.apiServices.Get(name)
	unsaid := have.DeepCopy()
	unsaid.Status.Conditions = nil
	s.apiServices.Put(unsaid)
	s.answers(t, "unsaid", 503)
}

const aggregated = "Accept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"

// TestDiscoveryMerges: what another server has is in the old documents and in the
// new one, with its resources, and stale while it is not there.
func TestDiscoveryMerges(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "seen at "+r.URL.RequestURI()) })
	s.answers(t, "well", 200)
	for _, c := range []struct{ path, header, want string }{
		{"/apis", "A: b", `"preferredVersion":{"groupVersion":"metrics.example.com/v1","version":"v1"}`},
		{"/apis", aggregated, `{"resource":"nodes","responseKind":{"group":"metrics.example.com","version":"v1","kind":"Node"},"scope":"Namespaced",` +
			`"singularResource":"node","verbs":["get","list"],"shortNames":["mn"],"categories":["all"],"subresources":[` +
			`{"subresource":"status","responseKind":{"group":"metrics.example.com","version":"v1","kind":"Node"},"verbs":["get"]},` +
			`{"subresource":"scale","responseKind":{"group":"autoscaling","version":"v1","kind":"Scale"},"verbs":["get"]}]}],"freshness":"Current"}`},
		{"/api", aggregated, `"kind":"APIGroupDiscoveryList"`},
		{"/apis/metrics.example.com", "A: b", `"kind":"APIGroup"`},
		{"/apis/metrics.example.com/v1", "A: b", "seen at /apis/metrics.example.com/v1"},
		{"/openapi/v3", "A: b", `"apis/metrics.example.com/v1":{"serverRelativeURL":"/openapi/v3/apis/metrics.example.com/v1?hash=ABC"}`},
		{"/openapi/v3/apis/metrics.example.com/v1?hash=ABC", "A: b", "seen at /openapi/v3/apis/metrics.example.com/v1?hash=ABC"},
		{"/", "A: b", `"/apis/metrics.example.com/v1"`},
	} {
		s.shows(t, c.path, c.header, "a server that is there", func(body string) bool { return strings.Contains(body, c.want) })
	}
	s.slices.Delete("kube-system/metrics")
	s.answers(t, "without endpoints", 503)
	s.shows(t, "/apis", aggregated, "without endpoints", func(body string) bool {
		return strings.Contains(body, `"resource":"nodes"`) && strings.Contains(body, `"freshness":"Stale"`)
	})
	s.apiServices.Delete(name)
	s.answers(t, "without the APIService", 404)
	s.shows(t, "/apis", aggregated, "without the APIService", func(body string) bool { return !strings.Contains(body, "metrics") })
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://elsewhere/", http.StatusFound)
	})
	s.answers(t, "a redirect", http.StatusFound)
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
	s.ready(t)
	response, err := s.server.Client().Get(s.server.URL + nodesPath + "?watch=true")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	line := make([]byte, 6)
	if _, err := io.ReadFull(response.Body, line); err != nil || string(line) != "first\n" {
		t.Errorf("the first line of the watch is %q, %v, want %q", line, err, "first\n")
	}
}

// TestHeadersBetweenHops: a client that has the proxy drop headers, or that names a user in trailers, is still who it is.
func TestHeadersBetweenHops(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, r.Header["X-Remote-User"], r.Header["X-Remote-Group"], r.Trailer)
	})
	s.ready(t)
	for _, headers := range []string{
		"Connection: X-Remote-User, X-Remote-Group\r\nX-Remote-User: root\r\nContent-Length: 0\r\n\r\n",
		"Connection: close\r\nConnection: x-remote-user\r\nContent-Length: 0\r\n\r\n",
		"Transfer-Encoding: chunked\r\nTrailer: X-Remote-User, X-Remote-Group\r\n\r\n2\r\n{}\r\n0\r\nX-Remote-User: root\r\nX-Remote-Group: evil\r\n\r\n",
	} {
		conn, err := tls.Dial("tcp", strings.TrimPrefix(s.server.URL, "https://"), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\n%s", nodesPath, s.server.Token, headers)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if want := "[admin] [system:masters system:authenticated] map[]"; response.StatusCode != 200 || err != nil || string(body) != want {
			t.Errorf("POST with %q = %d %q, %v, want %q", headers, response.StatusCode, body, err, want)
		}
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
	s.ready(t)
	conn, err := tls.Dial("tcp", strings.TrimPrefix(s.server.URL, "https://"), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST %s/a/exec HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n", nodesPath, s.server.Token)
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, nil)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("ReadResponse = %+v, %v, want the status 101", response, err)
	}
	fmt.Fprintln(conn, "hello")
	if text, err := reader.ReadString('\n'); err != nil || text != "hello\n" {
		t.Errorf("the echo is %q, %v, want %q", text, err, "hello\n")
	}
}
