package router_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/planekit/planekit/examples/ingress/router"
	"go.uber.org/goleak"
	networkingv1 "k8s.io/api/networking/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start returns the address of a proxy that passes all requests to endpoints.
func start(t *testing.T, config router.Config, endpoints ...string) (*router.Proxy, string) {
	t.Helper()
	proxy, err := router.NewProxy(config)
	if err != nil {
		t.Fatal(err)
	}
	proxy.SetTable(router.NewTable([]*networkingv1.Ingress{ingress("all", 1, rule("", "Prefix / web"))}))
	proxy.SetService("default/web", router.Addresses{"80": endpoints})
	server := httptest.NewServer(proxy)
	t.Cleanup(func() { server.Close(); proxy.Close() })
	return proxy, server.Listener.Addr().String()
}

// serve returns the address of a backend.
func serve(t *testing.T, handle http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// refused returns an address where nothing listens.
func refused(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	return l.Addr().String()
}

// resets returns the address of a server that ends each connection once it has sent something, and how
// many there were.
func resets(t *testing.T) (string, *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var count atomic.Int32
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			count.Add(1)
			_, _ = c.Read(make([]byte, 1))
			c.Close()
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return l.Addr().String(), &count
}

func send(t *testing.T, r *http.Request) (int, string) {
	t.Helper()
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, strings.TrimSpace(string(body))
}

func request(t *testing.T, method, url, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Close = true
	return r
}

// TestRetry: a request goes to another endpoint only if the first got none of its body.
func TestRetry(t *testing.T) {
	echo := serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	_, at := start(t, router.Config{}, refused(t), echo)
	for i := range 6 {
		if code, body := send(t, request(t, "POST", "http://"+at, "hello")); code != 200 || body != "hello" {
			t.Errorf("request %d: %d %q", i, code, body)
		}
	}
	broken, count := resets(t)
	_, at = start(t, router.Config{}, broken, echo)
	failed := 0
	for range 4 {
		if code, _ := send(t, request(t, "POST", "http://"+at, "hello")); code == http.StatusBadGateway {
			failed++
		}
	}
	if failed != 2 || count.Load() != 2 { // every other one, once
		t.Errorf("%d of 4 requests with a body failed, after %d connections", failed, count.Load())
	}
	for range 4 {
		if code, body := send(t, request(t, "GET", "http://"+at, "")); code != 200 {
			t.Errorf("a request without a body: %d %s", code, body)
		}
	}
}

// TestFailures: what a client gets when there is no answer.
func TestFailures(t *testing.T) {
	proxy, at := start(t, router.Config{})
	for _, c := range []struct {
		method, path string
		change       func()
		code         int
	}{
		{"GET", "//../", func() {}, http.StatusBadRequest},
		{"GET", "/a/%2e%2e/b", func() {}, http.StatusBadRequest},
		{"GET", "/a/..%2fb", func() {}, http.StatusBadRequest},
		{"CONNECT", "", func() {}, http.StatusMethodNotAllowed},
		{"GET", "/", func() { proxy.SetService("default/web", router.Addresses{"80": {refused(t), refused(t)}}) }, http.StatusBadGateway},
		{"GET", "/", func() { proxy.SetService("default/web", router.Addresses{"80": nil}) }, http.StatusServiceUnavailable},
		{"GET", "/", func() { proxy.SetService("default/web", nil) }, http.StatusServiceUnavailable},
		{"GET", "/", func() { proxy.SetTable(router.NewTable(nil)) }, http.StatusNotFound},
	} {
		c.change()
		conn, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		target := c.path
		if c.method == "CONNECT" {
			target = "example.com:443"
		}
		fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n", c.method, target)
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		conn.Close()
		if err != nil || answer.StatusCode != c.code {
			t.Errorf("%s %s: %v %v, want %d", c.method, target, answer, err, c.code)
		}
	}
}

// TestHeaders: what an endpoint sees of a request.
func TestHeaders(t *testing.T) {
	backend := serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, r.Host, r.RequestURI)
		for _, name := range []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port", "Forwarded", "X-Own"} {
			fmt.Fprintf(w, "%s=%q\n", name, r.Header.Values(name))
		}
	})
	_, at := start(t, router.Config{}, backend)
	r := request(t, "GET", "http://"+at+"/a%2Fb//c?x=%zz;y", "")
	r.Host = "shop.example.com"
	r.Header = http.Header{"X-Forwarded-For": {"192.0.2.1"}, "X-Forwarded-Proto": {"https"}, "Forwarded": {"for=192.0.2.1"}, "X-Own": {"1"}}
	code, got := send(t, r)
	want := `shop.example.com /a%2Fb//c?x=%zz;y
X-Forwarded-For=["127.0.0.1"]
X-Forwarded-Host=["shop.example.com"]
X-Forwarded-Proto=["http"]
X-Forwarded-Port=["80"]
Forwarded=[]
X-Own=["1"]`
	if code != 200 || got != want {
		t.Errorf("%d\n%s\nwant\n%s", code, got, want)
	}
}

// TestWebsocket: a connection that is upgraded carries messages both ways.
func TestWebsocket(t *testing.T) {
	backend := serve(t, func(w http.ResponseWriter, r *http.Request) {
		c, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer c.Close()
		for {
			kind, message, err := c.ReadMessage()
			if err != nil || c.WriteMessage(kind, message) != nil {
				return
			}
		}
	})
	_, at := start(t, router.Config{}, refused(t), backend)
	c, answer, err := websocket.DefaultDialer.Dial("ws://"+at+"/chat", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	defer c.Close()
	for i := range 3 {
		text := fmt.Sprint("message ", i)
		if err := c.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if _, got, err := c.ReadMessage(); err != nil || string(got) != text {
			t.Fatalf("ReadMessage() = %q, %v, want %q", got, err, text)
		}
	}
}

// TestStorm changes the table and the endpoints all the time: each request gets an answer, and from the
// service that one of the tables names.
func TestStorm(t *testing.T) {
	say := func(text string) string {
		return serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) })
	}
	one, two := say("web"), say("web")
	proxy, at := start(t, router.Config{}, one)
	proxy.SetService("default/other", router.Addresses{"80": {say("other")}})
	tables := []*router.Table{
		router.NewTable([]*networkingv1.Ingress{ingress("all", 1, rule("", "Prefix / web"))}),
		router.NewTable([]*networkingv1.Ingress{ingress("all", 1, rule("", "Prefix / other"))}),
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(100 * time.Microsecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			proxy.SetTable(tables[i%2])
			proxy.SetService("default/web", router.Addresses{"80": [][]string{{one}, {two}, {one, two}}[i%3]})
		}
	})
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for range 100 {
		answer, err := client.Get("http://" + at)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if text := string(body); err != nil || answer.StatusCode != 200 || text != "web" && text != "other" {
			t.Fatalf("Get(%s) = %d %q, %v, want 200 with web or other", at, answer.StatusCode, text, err)
		}
	}
	close(stop)
	wg.Wait()
}

// TestRolledOut: a request whose endpoint is replaced while it connects goes to the new one.
func TestRolledOut(t *testing.T) {
	echo := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "new") })
	gone := refused(t)
	var proxy *router.Proxy
	proxy, at := start(t, router.Config{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == gone {
			proxy.SetService("default/web", router.Addresses{"80": {echo}})
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}}, gone)
	if code, body := send(t, request(t, "POST", "http://"+at, "hello")); code != 200 || body != "new" {
		t.Errorf("POST / = %d %q, want 200 and new", code, body)
	}
}
