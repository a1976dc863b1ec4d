package nodeproxy_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/apiserver/nodeproxy"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const podPath = "/api/v1/namespaces/default/pods/web/"

func say(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) }
}

// ask returns the code and the body; a Status is cut down to its message. A request for streams asks for an upgrade.
func (n *node) ask(t *testing.T, method, path string, header http.Header) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, n.front.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if header != nil {
		r.Header = header
	} else if sub := strings.TrimPrefix(path, podPath); sub != path && !strings.HasPrefix(sub, "log") && !strings.HasPrefix(sub, "proxy") {
		r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"SPDY/3.1"}}
	}
	answer, err := n.front.Client().Transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	var status metav1.Status
	if json.Unmarshal(body, &status) == nil && status.Kind == "Status" {
		// apimachinery's errors of these two reasons have none; kubectl debug reads those of a 404 without looking.
		bare := status.Reason == metav1.StatusReasonBadRequest || status.Reason == metav1.StatusReasonServiceUnavailable
		if (status.Details == nil) != bare {
			t.Errorf("%s = %s, want details: %v", path, body, !bare)
		}
		if int(status.Code) != answer.StatusCode || status.Status != metav1.StatusFailure {
			t.Errorf("%s: code %d, %+v", path, answer.StatusCode, status)
		}
		return answer.StatusCode, status.Message
	}
	return answer.StatusCode, string(body)
}

func TestLog(t *testing.T) {
	n := startNode(t, say("a line\n"))
	for query, want := range map[string]string{
		"?container=a":    "/containerLogs/default/web/a?",
		"?container=init": "/containerLogs/default/web/init?",
		"?container=b&follow=true&previous&timestamps=1&tailLines=5&limitBytes=9&sinceSeconds=7": "/containerLogs/default/web/b?follow=true&limitBytes=9&previous=true&sinceSeconds=7&tailLines=5&timestamps=true",
		"?container=b&follow=false&sinceTime=2026-01-02T03:04:05Z&stream=Stderr":                 "/containerLogs/default/web/b?sinceTime=2026-01-02T03%3A04%3A05Z&stream=Stderr",
	} {
		if code, body := n.ask(t, "GET", podPath+"log"+query, nil); code != 200 || body != "a line\n" {
			t.Errorf(`GET of the log with %q = %d %q, want 200 "a line\n"`, query, code, body)
		}
		if got := n.seen(); got.Method != "GET" || got.URL.Path+"?"+got.URL.RawQuery != want {
			t.Errorf("%s: the kubelet saw %s, want %s", query, got.URL, want)
		}
	}
	for query, want := range map[string]string{
		"":                             "400 a container name must be specified for pod web, choose one of: [init a b]",
		"?container=x":                 "400 container x is not valid for pod web",
		"?container=a&tailLines=-1":    `422 PodLogOptions "web" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0`,
		"?container=a&limitBytes=0":    `422 PodLogOptions "web" is invalid: limitBytes: Invalid value: 0: must be greater than 0`,
		"?container=a&sinceSeconds=0":  `422 PodLogOptions "web" is invalid: sinceSeconds: Invalid value: 0: must be greater than 0`,
		"?container=a&tailLines=many":  `400 strconv.ParseInt: parsing "many": invalid syntax`,
		"?container=a&stream=Sideways": `422 PodLogOptions "web" is invalid: stream: Unsupported value: "Sideways": supported values: "All", "Stdout", "Stderr"`,
	} {
		if code, body := n.ask(t, "GET", podPath+"log"+query, nil); fmt.Sprint(code, " ", body) != want {
			t.Errorf("%s: %d %s, want %s", query, code, body, want)
		}
	}
	_, body := n.ask(t, "GET", podPath+"log?container=a&sinceSeconds=1&sinceTime=2026-01-02T03:04:05Z", nil)
	if !strings.Contains(body, "at most one of `sinceTime` or `sinceSeconds` may be specified") {
		t.Error(body)
	}
}

// TestLogFlows: a line is seen before the next one is written, and the kubelet
// hears when the client has enough.
func TestLogFlows(t *testing.T) {
	gone := make(chan struct{})
	n := startNode(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "one\n")
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(gone)
	})
	ctx, cancel := context.WithCancel(t.Context())
	r, _ := http.NewRequestWithContext(ctx, "GET", n.front.URL+podPath+"log?container=a&follow=true", nil)
	answer, err := n.front.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if line, err := bufio.NewReader(answer.Body).ReadString('\n'); err != nil || line != "one\n" {
		t.Errorf(`the first line of the log = %q, %v, want "one\n"`, line, err)
	}
	cancel()
	<-gone
}

func TestKubeletErrors(t *testing.T) {
	code := 0
	n := startNode(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "https://elsewhere.invalid/")
		w.WriteHeader(code)
		io.WriteString(w, "said the kubelet\n")
	})
	for sent, want := range map[int]string{
		400: "400 said the kubelet", 404: "404 said the kubelet", 500: "500 said the kubelet", 501: "501 said the kubelet",
		401: "500 Internal error occurred: the kubelet refused the API server: said the kubelet",
		403: "500 Internal error occurred: the kubelet refused the API server: said the kubelet",
		302: "500 Internal error occurred: the kubelet answered with code 302",
	} {
		code = sent
		if got, body := n.ask(t, "GET", podPath+"log?container=a", nil); fmt.Sprint(got, " ", body) != want {
			t.Errorf("the kubelet sent %d: %d %s, want %s", sent, got, body, want)
		}
	}
	// No redirect is followed or passed on.
	code = 307
	for _, path := range []string{podPath + "exec?container=a", podPath + "portforward", "/api/v1/nodes/node-1/proxy/logs"} {
		if got, body := n.ask(t, "POST", path, nil); got != 502 || !strings.Contains(body, "attempted to redirect") {
			t.Errorf("POST %s = %d %s, want 502 and attempted to redirect", path, got, body)
		}
	}
}

func TestNodesThatCannotBeReached(t *testing.T) {
	n := startNode(t, say("reached"))
	want := func(code int, message string) {
		t.Helper()
		for _, path := range []string{"log?container=a", "exec?container=a&command=x", "attach?container=a", "portforward"} {
			if got, body := n.ask(t, "GET", podPath+path, nil); got != code || !strings.Contains(body, message) {
				t.Errorf("%s: %d %s, want %d %s", path, got, body, code, message)
			}
		}
	}
	addresses, pool := n.object.Status.Addresses, x509.NewCertPool()
	n.object.Status.Addresses = nil
	want(503, "no preferred addresses found")
	n.object.Status.Addresses, n.object.Status.DaemonEndpoints.KubeletEndpoint.Port = addresses, 0
	want(503, "node node-1 does not say where its kubelet listens")
	n.object = nodeAt(t, n.kubelet.Listener.Addr())
	n.serve(t, testPod("node-2"))
	want(404, `nodes "node-2" not found`)

	// A kubelet whose certificate is another authority's hears nothing.
	n.proxy = newProxy(t, n, &tls.Config{RootCAs: pool, Certificates: n.kubelet.TLS.Certificates})
	n.serve(t, testPod("node-1"))
	want(503, "certificate signed by unknown authority")
	if n.seen() != nil {
		t.Error("a kubelet that was not verified was asked")
	}

	n.serve(t, testPod(""))
	if code, body := n.ask(t, "GET", podPath+"log?container=a", nil); code != 204 || body != "" {
		t.Errorf("GET of the log of a pod on no node = %d %q, want 204 without a body", code, body)
	}
	if code, body := n.ask(t, "POST", podPath+"exec?container=a", nil); code != 400 || body != "pod web does not have a host assigned" {
		t.Errorf("exec in a pod on no node: %d %q", code, body)
	}
}

func TestNewRefuses(t *testing.T) {
	nodes := nodeproxy.NodesFunc(func(context.Context, string) (*corev1.Node, error) { return nil, nil })
	for name, c := range map[string]nodeproxy.Config{
		"no nodes":     {TLS: &tls.Config{RootCAs: x509.NewCertPool()}},
		"no TLS":       {Nodes: nodes},
		"no roots":     {Nodes: nodes, TLS: &tls.Config{}},
		"no verifying": {Nodes: nodes, TLS: &tls.Config{RootCAs: x509.NewCertPool(), InsecureSkipVerify: true}},
	} {
		if _, err := nodeproxy.New(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// upgrading answers an upgrade and then echoes.
func upgrading(t *testing.T) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", r.Header.Get("Upgrade"))
		io.Copy(conn, rw)
	}
}

func TestUpgrade(t *testing.T) {
	n := startNode(t, upgrading(t))
	for path, want := range map[string]string{
		podPath + "exec?container=a&command=sh&command=-c&stdin=true&stdout=true&tty=false": "/exec/default/web/uid-1/a?command=sh&command=-c&input=1&output=1",
		podPath + "attach?container=b&stdout=true&stderr=true&tty=true":                     "/attach/default/web/uid-1/b?error=1&output=1&tty=1",
		podPath + "portforward":                   "/portForward/default/web/uid-1?",
		podPath + "portforward?ports=80&ports=81": "/portForward/default/web/uid-1?port=80&port=81",
		podPath + "portforward?ports=80,81":       "/portForward/default/web/uid-1?port=80&port=81",
		"/api/v1/nodes/node-1/proxy/exec/x/y":     "/exec/x/y?",
	} {
		conn, err := net.Dial("tcp", n.front.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(2 * time.Minute))
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: api\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n"+
			"Authorization: Bearer secret\r\nImpersonate-User: root\r\nX-Remote-User: root\r\nX-Remote-Extra-Key: k\r\n"+
			"Content-Length: 0\r\n\r\n", path)
		reader := bufio.NewReader(conn)
		answer, err := http.ReadResponse(reader, nil)
		if err != nil || answer.StatusCode != 101 {
			t.Fatalf("POST %s = %v, %v, want the code 101", path, answer, err)
		}
		fmt.Fprint(conn, "ping\n")
		if line, err := reader.ReadString('\n'); err != nil || line != "ping\n" {
			t.Errorf(`POST %s: the stream reads %q, %v, want "ping\n"`, path, line, err)
		}
		conn.Close()
		got := n.seen()
		if got.Method != "POST" || got.URL.Path+"?"+got.URL.RawQuery != want || got.Header.Get("X-Stream-Protocol-Version") != "v4.channel.k8s.io" {
			t.Errorf("%s: the kubelet saw %s %s %v, want %s", path, got.Method, got.URL, got.Header, want)
		}
		for _, name := range []string{"Authorization", "Impersonate-User", "X-Remote-User", "X-Remote-Extra-Key"} {
			if got.Header.Get(name) != "" {
				t.Errorf("%s: %s was passed on", path, name)
			}
		}
		if len(got.TLS.PeerCertificates) == 0 {
			t.Errorf("%s: no client certificate was shown", path)
		}
	}
}

// TestUpgradeRequired: without an upgrade, a stream is refused before the kubelet is asked.
func TestUpgradeRequired(t *testing.T) {
	n := startNode(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("the kubelet is asked for %s", r.URL) })
	for _, path := range []string{"exec?container=a&command=x&stdout=true", "exec?container=a", "attach?container=a&stdout=true", "portforward", "portforward?ports=80"} {
		answer, err := http.Get(n.front.URL + podPath + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), `"message":"Upgrade request required"`) {
			t.Errorf("GET %s = %d %s, %v, want 400 and Upgrade request required", path, answer.StatusCode, body, err)
		}
	}
}

// TestWebSockets checks that a kubelet is offered what the client offers, without the user's token.
func TestWebSockets(t *testing.T) {
	n := startNode(t, upgrading(t))
	for path, protocols := range map[string][2]string{
		"exec?container=a&command=x": {"v5.channel.k8s.io", "v5.channel.k8s.io"},
		"attach?container=a": {
			"v4.channel.k8s.io, base64url.bearer.authorization.k8s.io.c2VjcmV0, v5.channel.k8s.io", "v4.channel.k8s.io, v5.channel.k8s.io",
		},
		"portforward": {"SPDY/3.1+portforward.k8s.io", "SPDY/3.1+portforward.k8s.io"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", n.front.URL+podPath+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Protocol": {protocols[0]}}
		answer, err := n.front.Client().Transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if got := n.seen().Header.Get("Sec-WebSocket-Protocol"); answer.StatusCode != http.StatusSwitchingProtocols || got != protocols[1] {
			t.Errorf("%s: %s, the kubelet was offered %q", path, answer.Status, got)
		}
	}
}

func TestNodeProxy(t *testing.T) {
	n := startNode(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Method, " ", r.URL) })
	port := fmt.Sprint(n.object.Status.DaemonEndpoints.KubeletEndpoint.Port)
	for path, want := range map[string]string{
		"node-1/proxy/":                           "PUT /",
		"node-1/proxy/pods/?a=b":                  "PUT /pods/?a=b",
		"node-1:" + port + "/proxy/metrics/x":     "PUT /metrics/x",
		"https:node-1:" + port + "/proxy/healthz": "PUT /healthz",
		"node-1:22/proxy/":                        "only the kubelet's port",
		"http:node-1:/proxy/":                     "only the kubelet's port",
		"a:b:c:d/proxy/":                          "invalid node request",
	} {
		if _, body := n.ask(t, "PUT", "/api/v1/nodes/"+path, nil); !strings.Contains(body, want) || strings.HasPrefix(want, "PUT") && body != want {
			t.Errorf("%s: %s, want %s", path, body, want)
		}
	}
}

// reachAnywhere makes the API server lead to pods at any address, also of this machine.
func (n *node) reachAnywhere(t *testing.T) {
	t.Helper()
	p, err := nodeproxy.New(nodeproxy.Config{
		Nodes: nodeproxy.NodesFunc(func(context.Context, string) (*corev1.Node, error) { return n.object, nil }),
		TLS:   &tls.Config{RootCAs: x509.NewCertPool()}, MayDial: anywhere,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	n.proxy = p
	n.serve(t, testPod("node-1"))
	t.Cleanup(func() { n.front.Close() })
}

func TestPodProxy(t *testing.T) {
	n := startNode(t, say(""))
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, "/there", http.StatusFound)
			return
		}
		fmt.Fprint(w, r.Method, " ", r.URL, " ", r.Header.Get("Authorization"))
	}))
	defer backend.Close()
	_, port, _ := net.SplitHostPort(backend.Listener.Addr().String())
	path := "/api/v1/namespaces/default/pods/web:" + port + "/proxy"

	// The machine itself is out of bounds.
	if code, body := n.ask(t, "GET", path+"/", nil); code != 400 || body != "address not allowed" {
		t.Errorf("GET %s/ = %d %s, want 400 address not allowed", path, code, body)
	}
	n.reachAnywhere(t)
	secret := func() http.Header { return http.Header{"Authorization": {"Bearer secret"}} }
	for path, want := range map[string]string{
		path + "/":        "200 DELETE / ",
		path + "/a/b?c=d": "200 DELETE /a/b?c=d ",
		"/api/v1/namespaces/default/pods/http:web:" + port + "/proxy/x": "200 DELETE /x ",
		"/api/v1/namespaces/default/pods/ftp:web:1/proxy/x":             `400 scheme "ftp" must be http or https`,
		"/api/v1/namespaces/default/pods/web:0/proxy/x":                 `400 port "0" must be between 1 and 65535`,
		"/api/v1/namespaces/default/pods/web:http/proxy/x":              `400 port "http" must be between 1 and 65535`,
	} {
		if code, body := n.ask(t, "DELETE", path, secret()); fmt.Sprint(code, " ", body) != want {
			t.Errorf("%s: %d %s, want %s", path, code, body, want)
		}
	}
	if code, _ := n.ask(t, "GET", path+"/away", nil); code != 302 {
		t.Errorf("a pod's redirect became %d", code)
	}
	pod := testPod("node-1")
	pod.Status.PodIP = ""
	n.serve(t, pod)
	if code, body := n.ask(t, "GET", path+"/", nil); code != 503 || body != "pod web has no address" {
		t.Errorf("GET %s/ = %d %s, want 503 pod web has no address", path, code, body)
	}
}
