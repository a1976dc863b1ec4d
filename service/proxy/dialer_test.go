package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/service/proxy"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// userWorld has services whose endpoints are sockets of this process.
type userWorld struct {
	*testing.T
	services *localcache.Map[*corev1.Service]
	slices   *localcache.Map[*discoveryv1.EndpointSlice]
}

func newUserWorld(t *testing.T) *userWorld {
	return &userWorld{t, localcache.NewMap[*corev1.Service](), localcache.NewMap[*discoveryv1.EndpointSlice]()}
}

// run runs a component until the test ends.
func (w *userWorld) run(run func(context.Context) error, ready <-chan struct{}) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1) // one answer
	go func() { done <- run(ctx) }()
	var ended atomic.Bool
	stop = func() {
		if cancel(); !ended.Swap(true) {
			if err := <-done; err != nil {
				w.Error(err)
			}
		}
	}
	w.Cleanup(stop)
	<-ready
	return stop
}

// put makes a service whose endpoints are addresses of this process.
func (w *userWorld) put(name string, protocol corev1.Protocol, change func(*corev1.Service), addresses ...string) {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.7", Ports: []corev1.ServicePort{{Name: "p", Port: 80, Protocol: protocol}}}}
	if change != nil {
		change(s)
	}
	for i, a := range addresses {
		at := netip.MustParseAddrPort(a)
		w.slices.Put(&discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint(name, i), Labels: map[string]string{discoveryv1.LabelServiceName: name}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports:       []discoveryv1.EndpointPort{{Name: new("p"), Port: new(int32(at.Port())), Protocol: &protocol}},
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{at.Addr().String()}}},
		})
	}
	w.services.Put(s)
}

func (w *userWorld) httpServer(name string) string {
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, name) }))
	w.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func TestDialer(t *testing.T) {
	w := newUserWorld(t)
	w.put("web", corev1.ProtocolTCP, nil, w.httpServer("a"), w.httpServer("b"))
	address := w.httpServer("headless")
	_, port, _ := net.SplitHostPort(address)
	w.put("headless", corev1.ProtocolTCP, func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone }, address)
	w.put("elsewhere", corev1.ProtocolTCP, func(s *corev1.Service) {
		s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, "127.0.0.1"
	})
	w.put("empty", corev1.ProtocolTCP, func(s *corev1.Service) { s.Spec.ClusterIP = "10.96.0.8" })
	d, err := proxy.NewDialer(proxy.DialerConfig{Services: w.services, EndpointSlices: w.slices})
	if err != nil {
		t.Fatal(err)
	}
	w.run(d.Run, d.Ready())
	transport := &http.Transport{DialContext: d.DialContext, DisableKeepAlives: true}
	ask := func(host string) (string, error) {
		answer, err := (&http.Client{Transport: transport}).Get("http://" + host)
		if err != nil {
			return "", err
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		return string(body), err
	}
	for _, host := range []string{"web", "web.default", "web.default.svc", "web.default.svc.cluster.local", "web.default.svc.cluster.local.", "10.96.0.7"} {
		seen := map[string]bool{}
		for range 200 {
			answer, err := ask(host)
			if err != nil {
				t.Fatal(err)
			}
			if seen[answer] = true; len(seen) == 2 {
				break
			}
		}
		if !seen["a"] || !seen["b"] {
			t.Errorf("%s: %v answer", host, seen)
		}
	}
	for host, want := range map[string]string{"headless:" + port: "headless", "elsewhere:" + port: "headless", address: "headless"} {
		if answer, err := ask(host); answer != want || err != nil {
			t.Errorf("GET of %s = %q, %v, want %q", host, answer, err, want)
		}
	}
	for _, host := range []string{"empty", "10.96.0.8", "web:81", "10.96.0.7:81", "headless:1"} {
		if _, err := ask(host); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("GET of %s: %v, want %v", host, err, syscall.ECONNREFUSED)
		}
	}
	if c, err := d.DialContext(t.Context(), "tcp", "web:p"); err != nil {
		t.Error("a port by its name:", err)
	} else {
		c.Close()
	}
}

// freePort returns a port of 127.0.0.1 that is free for now.
func freePort(t *testing.T, network string) int32 {
	t.Helper()
	if network == "udp" {
		c, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return int32(c.LocalAddr().(*net.UDPAddr).Port)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return int32(l.Addr().(*net.TCPAddr).Port)
}

func (w *userWorld) listeners(grace time.Duration) (stop func()) {
	l, err := proxy.NewListeners(proxy.ListenersConfig{Services: w.services, EndpointSlices: w.slices,
		Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}, Grace: grace, Log: logr.Discard()})
	if err != nil {
		w.Fatal(err)
	}
	return w.run(l.Run, l.Ready())
}

func TestNodePortListeners(t *testing.T) {
	w := newUserWorld(t)
	port := freePort(t, "tcp")
	nodePort := func(s *corev1.Service) { s.Spec.Type, s.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, port }
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); _, _ = io.Copy(c, c) }()
		}
	}()
	w.put("web", corev1.ProtocolTCP, nodePort, echo.Addr().String())
	stop := w.listeners(patience)
	address := fmt.Sprint("127.0.0.1:", port)
	dial := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	say := func(c net.Conn) error {
		buf := make([]byte, 5)
		if _, err := io.WriteString(c, "hello"); err != nil {
			return err
		}
		_, err := io.ReadFull(c, buf)
		return err
	}
	old := dial()
	if err := say(old); err != nil {
		t.Fatal(err)
	}
	// Without endpoints new connections fail, and the old one goes on.
	w.slices.Delete("default/web0")
	deadline := time.Now().Add(patience)
	try := func() error {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return err // a connection that is reset at once
		}
		defer c.Close()
		return say(c)
	}
	for try() == nil {
		if time.Now().After(deadline) {
			t.Fatal("connections without endpoints succeed")
		}
	}
	if err := say(old); err != nil {
		t.Error(err)
	}
	// The end closes the port at once, and waits for the connection.
	ended := make(chan struct{})
	go func() { stop(); close(ended) }()
	for deadline := time.Now().Add(patience); ; {
		c, err := net.Dial("tcp", address)
		if err != nil {
			break
		}
		c.Close()
		if time.Now().After(deadline) {
			t.Fatal("the port is still open")
		}
	}
	if err := say(old); err != nil {
		t.Error(err)
	}
	// An end of what the client says reaches the server, whose end comes back.
	if err := old.(*net.TCPConn).CloseWrite(); err != nil {
		t.Error(err)
	}
	if rest, err := io.ReadAll(old); len(rest) > 0 || err != nil {
		t.Errorf("at the end: %q, %v", rest, err)
	}
	<-ended
}

func TestNodePortDatagrams(t *testing.T) {
	w := newUserWorld(t)
	port := freePort(t, "udp")
	server := func(name string) string {
		c, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		go func() {
			buf := make([]byte, 10)
			for {
				_, from, err := c.ReadFrom(buf)
				if err != nil {
					return
				}
				_, _ = c.WriteTo([]byte(name), from)
			}
		}()
		return c.LocalAddr().String()
	}
	nodePort := func(s *corev1.Service) {
		s.Spec.Type, s.Spec.Ports[0].NodePort, s.Spec.SessionAffinity = corev1.ServiceTypeNodePort, port, corev1.ServiceAffinityClientIP
	}
	w.put("dns", corev1.ProtocolUDP, nodePort, server("a"))
	w.listeners(0)
	c, err := net.Dial("udp", fmt.Sprint("127.0.0.1:", port))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ask := func(want string) {
		t.Helper()
		for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
			buf := make([]byte, 10)
			_ = c.SetDeadline(time.Now().Add(100 * time.Millisecond))
			_, _ = io.WriteString(c, "?")
			if n, err := c.Read(buf); err == nil && string(buf[:n]) == want {
				return
			}
		}
		t.Fatalf("no answer of %s", want)
	}
	ask("a")
	w.put("dns", corev1.ProtocolUDP, nodePort, server("b")) // which replaces the slice of a
	ask("b")
}
