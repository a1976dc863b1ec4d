package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane/planetest"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSmall: the program is meant to be read at a glance.
func TestSmall(t *testing.T) {
	lines := 0
	for _, file := range []string{"main.go", "controller.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines += bytes.Count(source, []byte("\n"))
	}
	if lines > 350 {
		t.Errorf("the program has %d lines", lines)
	}
}

// network leads from the addresses of endpoints to servers of the test: endpoint slices have no loopback
// addresses.
type network struct {
	mu      sync.Mutex
	servers map[string]string // guarded by mu
}

func (n *network) dial(ctx context.Context, protocol, address string) (net.Conn, error) {
	n.mu.Lock()
	to := n.servers[address]
	n.mu.Unlock()
	return new(net.Dialer).DialContext(ctx, protocol, to)
}

// pod starts a server at an address, and port 8080, that answers with its address.
func (n *network) pod(t *testing.T, address string) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, address, " ", r.Header.Get("X-Forwarded-Proto"))
	}))
	t.Cleanup(server.Close)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.servers[address+":8080"] = server.Listener.Addr().String()
	return server
}

// program is the program under test, on a control plane.
type program struct {
	*testing.T
	plane       *planetest.Plane
	network     *network
	http, https string
}

// start runs the program until the test ends.
func start(t *testing.T) *program {
	p := &program{T: t, plane: planetest.Start(t), network: &network{servers: map[string]string{}}}
	ctx, stop := context.WithCancel(t.Context())
	at, ended := make(chan string, 2), make(chan error, 1)
	o := options{
		kubeconfig: p.plane.KubeconfigFile(), http: "127.0.0.1:0", https: "127.0.0.1:0", addresses: []string{"192.0.2.1", "in.example.com"},
		dial: p.network.dial, log: logr.Discard(),
	}
	go func() { ended <- run(ctx, o, func(scheme string, a net.Addr) { at <- scheme + " " + a.String() }) }()
	for range 2 {
		select {
		case text := <-at:
			if scheme, address, _ := strings.Cut(text, " "); scheme == "http" {
				p.http = address
			} else {
				p.https = address
			}
		case err := <-ended:
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return p
}

func (p *program) create(ingresses ...*networkingv1.Ingress) {
	p.Helper()
	for _, in := range ingresses {
		if _, err := typed.Ingresses(p.plane.Client()).Create(p.Context(), in); err != nil {
			p.Fatal(err)
		}
	}
}

// setEndpoints makes addresses the ready endpoints of the service web.
func (p *program) setEndpoints(addresses ...string) {
	p.Helper()
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080))}},
	}
	for _, a := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}})
	}
	api := typed.EndpointSlices(p.plane.Client())
	if _, err := api.Update(p.Context(), slice); err != nil {
		if _, err := api.Create(p.Context(), slice); err != nil {
			p.Fatal(err)
		}
	}
}

// get returns the answer to a request, and the certificate's serial number.
func (p *program) get(url string) (code int, body string, serial int64, err error) {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			to := p.http
			if strings.HasSuffix(address, ":443") {
				to = p.https
			}
			return new(net.Dialer).DialContext(ctx, network, to)
		},
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true,
	}
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport}).Get(url)
	if err != nil {
		return 0, "", 0, err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if answer.TLS != nil {
		serial = answer.TLS.PeerCertificates[0].SerialNumber.Int64()
		if answer.ProtoMajor != 2 {
			p.Errorf("HTTPS with %s", answer.Proto)
		}
	}
	return answer.StatusCode, string(data), serial, err
}

// await waits for an answer.
func (p *program) await(url string, wantCode int, wantBody string, wantSerial int64) {
	p.Helper()
	planetest.Eventually(p, func() error {
		code, body, serial, err := p.get(url)
		if err == nil && (code != wantCode || !strings.Contains(body, wantBody) || serial != wantSerial) {
			err = fmt.Errorf("%s: %d %q, certificate %d", url, code, body, serial)
		}
		return err
	})
}

// awaitEvent waits for an event about an Ingress or a class.
func (p *program) awaitEvent(ingress, reason, message string) {
	p.Helper()
	planetest.Eventually(p, func() error {
		events, _, err := typed.Events(p.plane.Client()).List(p.Context(), "default", metav1.ListOptions{})
		var all []string
		for _, e := range events {
			if strings.HasPrefix(e.InvolvedObject.Kind, "Ingress") && e.InvolvedObject.Name == ingress && e.Reason == reason && strings.Contains(e.Message, message) {
				return nil
			}
			all = append(all, e.InvolvedObject.Name+" "+e.Reason+" "+e.Message)
		}
		return fmt.Errorf("the events are %q: %v", all, err)
	})
}

func (p *program) class(file string) {
	p.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		p.Fatal(err)
	}
	class := &networkingv1.IngressClass{Spec: networkingv1.IngressClassSpec{Parameters: &networkingv1.IngressClassParametersReference{Kind: "Unknown", Name: "a"}}}
	if err := yaml.UnmarshalStrict(text, class); err != nil {
		p.Fatal(err)
	}
	if _, err := typed.IngressClasses(p.plane.Client()).Create(p.Context(), class); err != nil {
		p.Fatal(err)
	}
	planetest.Eventually(p, func() error { // admission reads a cache
		if _, ok := p.plane.Caches.IngressClasses.Get(class.Name); !ok {
			return fmt.Errorf("no class %s", class.Name)
		}
		return nil
	})
}

// newIngress returns an Ingress of a host whose path leads to a named port of the service web.
func newIngress(name, host, path string) *networkingv1.Ingress {
	return &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{
			Host: host,
			IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{
				Path: path, PathType: new(networkingv1.PathTypePrefix),
				Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Name: "http"}}},
			}}}},
		}}},
	}
}

// newSecret returns a secret with a self-signed certificate.
func newSecret(t *testing.T, serial int64) *corev1.Secret {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"shop.example.com"}}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "cert"}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{
			corev1.TLSCertKey:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
			corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		},
	}
}

// TestIngress runs the program on a control plane: an Ingress of the default class is served over HTTP
// and HTTPS, certificates change and break, endpoints roll, and what has no effect is said.
func TestIngress(t *testing.T) {
	p := start(t)
	services, secrets := typed.Services(p.plane.Client()), typed.Secrets(p.plane.Client())
	p.class("class.yaml")
	if _, err := services.Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}); err != nil {
		t.Fatal(err)
	}
	p.network.pod(t, "10.1.0.1")
	p.setEndpoints("10.1.0.1")
	shop := newIngress("shop", "shop.example.com", "/")
	shop.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"shop.example.com"}, SecretName: "cert"}}
	others, bucket := newIngress("others", "others.example.com", "/"), newIngress("bucket", "shop.example.com", "/static")
	others.Spec.IngressClassName = new("others")
	bucket.Spec.Rules[0].HTTP.Paths[0].Backend = networkingv1.IngressBackend{Resource: &corev1.TypedLocalObjectReference{Kind: "Bucket", Name: "b"}}
	p.create(shop, others, bucket)
	p.await("http://shop.example.com/", 200, "10.1.0.1 http", 0)
	p.await("http://others.example.com/", 404, "", 0)
	p.awaitEvent("planekit", "UnsupportedParameters", "spec.parameters has no effect")
	p.awaitEvent("bucket", "UnsupportedBackend", "Bucket b")
	p.awaitEvent("shop", "InvalidCertificate", "there is no secret cert")

	secret := newSecret(t, 1)
	if _, err := secrets.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	p.await("https://shop.example.com/", 200, "10.1.0.1 https", 1)
	if _, err := secrets.Update(t.Context(), newSecret(t, 2)); err != nil {
		t.Fatal(err)
	}
	p.await("https://shop.example.com/", 200, "10.1.0.1 https", 2)
	secret.Data[corev1.TLSPrivateKeyKey] = newSecret(t, 3).Data[corev1.TLSPrivateKeyKey]
	if _, err := secrets.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	p.awaitEvent("shop", "InvalidCertificate", "private key does not match public key")
	p.await("https://shop.example.com/", 200, "10.1.0.1 https", 2)
	if _, _, _, err := p.get("https://others.example.com/"); err == nil {
		t.Error("a name without a certificate was answered")
	}

	served, err := typed.Ingresses(p.plane.Client()).Get(t.Context(), "default", "shop")
	if err != nil || served.Spec.IngressClassName == nil || *served.Spec.IngressClassName != "planekit" {
		t.Errorf("Get(default/shop) = %+v, %v, want the class planekit", served, err)
	}
	planetest.Eventually(t, func() error {
		served, err := typed.Ingresses(p.plane.Client()).Get(t.Context(), "default", "shop")
		if got := fmt.Sprint(served.Status.LoadBalancer.Ingress); got != "[{192.0.2.1  []} { in.example.com []}]" {
			return fmt.Errorf("the status is %s: %v", got, err)
		}
		return nil
	})
	t.Run("rollout", p.rollout)
	p.setEndpoints()
	p.await("http://shop.example.com/", 503, "no ready endpoint", 0)

	request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.http, http.NoBody)
	request.Header.Set("X-Huge", strings.Repeat("x", 1<<20))
	answer, err := http.DefaultTransport.RoundTrip(request)
	if err == nil {
		answer.Body.Close()
		if answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("a huge header: %s", answer.Status)
		}
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// rollout replaces all pods of the service while clients ask: no request fails, though each pod ends
// right after it was taken out.
func (p *program) rollout(t *testing.T) {
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for {
				select {
				case <-stop:
					return
				default:
				}
				request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.http+"/", http.NoBody)
				request.Host = "shop.example.com"
				answer, err := client.Do(request)
				if err != nil {
					t.Error(err)
					return
				}
				body, err := io.ReadAll(answer.Body)
				answer.Body.Close()
				if err != nil || answer.StatusCode != 200 {
					t.Errorf("GET / of shop.example.com = %s %q, %v, want 200", answer.Status, body, err)
					return
				}
			}
		})
	}
	before, server := "10.1.0.1", (*httptest.Server)(nil)
	for i := 2; i < 8; i++ {
		address := fmt.Sprint("10.1.0.", i)
		next := p.network.pod(t, address)
		p.setEndpoints(before, address)
		p.await("http://shop.example.com/", 200, address, 0) // it is ready, as clients see it
		p.setEndpoints(address)
		if server != nil {
			server.Close()
		}
		before, server = address, next
	}
	close(stop)
	clients.Wait()
}
