package probe_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/planekit/planekit/kubelet/probe"
)

// try makes one attempt at 127.0.0.1 with a second of time.
func try(t *testing.T, c *probe.Client, action corev1.ProbeHandler, ports ...corev1.ContainerPort) (probe.Result, string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	return c.Probe(ctx, probe.Target{Container: &corev1.Container{Name: "web", Ports: ports}, ID: "1", PodIP: "127.0.0.1"}, &action)
}

func portOf(address net.Addr) int32 { return int32(address.(*net.TCPAddr).Port) }

func httpAction(s *httptest.Server, path string, headers ...corev1.HTTPHeader) corev1.ProbeHandler {
	return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
		Path: path, Port: intstr.FromInt32(portOf(s.Listener.Addr())), HTTPHeaders: headers,
	}}
}

// handle answers as its paths say.
func handle(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/status":
		code := 0
		_, _ = fmt.Sscan(r.URL.RawQuery, &code)
		w.WriteHeader(code)
	case "/here":
		http.Redirect(w, r, "/status?200", http.StatusFound)
	case "/elsewhere":
		http.Redirect(w, r, "http://other.example/", http.StatusFound)
	case "/loop":
		http.Redirect(w, r, "/loop", http.StatusFound)
	case "/long":
		for range 1000 {
			_, _ = w.Write(make([]byte, 1000))
		}
	case "/endless":
		for r.Context().Err() == nil {
			_, _ = w.Write(make([]byte, 1000))
		}
	case "/hang":
		<-r.Context().Done()
	case "/headers":
		_, _ = fmt.Fprintf(w, "%s|%q|%q|%q", r.Host, r.Header["X-Custom"], r.Header["User-Agent"], r.Header["Accept"])
	}
}

func TestHTTP(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(handle))
	t.Cleanup(s.Close)
	for _, c := range []struct {
		path   string
		want   probe.Result
		output string
	}{
		{"/status?200", probe.Success, ""},
		{"status?200", probe.Success, ""},
		{"/status?299", probe.Success, ""},
		{"/status?399", probe.Warning, "Probe terminated redirects, Response body: "},
		{"/status?400", probe.Failure, "HTTP probe failed with statuscode: 400"},
		{"/status?503", probe.Failure, "HTTP probe failed with statuscode: 503"},
		{"/here", probe.Success, ""},
		{"/elsewhere", probe.Warning, "Probe terminated redirects, Response body: "},
		{"/loop", probe.Failure, "stopped after 10 redirects"},
		{"/long", probe.Success, ""},
		{"/endless", probe.Success, ""},
		{"/hang", probe.Failure, "context deadline exceeded"},
	} {
		result, output, err := try(t, &probe.Client{}, httpAction(s, c.path))
		if err != nil || result != c.want || !strings.Contains(output, c.output) {
			t.Errorf("%s: %v, %.80q, %v; want %v, %q", c.path, result, output, err, c.want, c.output)
		}
		if len(output) > 11<<10 {
			t.Errorf("%s: %d bytes of output", c.path, len(output))
		}
	}
}

func TestHTTPHeaders(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(handle))
	t.Cleanup(s.Close)
	for _, c := range []struct {
		headers []corev1.HTTPHeader
		want    string
	}{
		{nil, s.Listener.Addr().String() + `|[]|["kube-probe/1.36"]|["*/*"]`},
		{[]corev1.HTTPHeader{{Name: "host", Value: "web.example"}, {Name: "X-Custom", Value: "a"}, {Name: "x-custom", Value: "b"}},
			`web.example|["a" "b"]|["kube-probe/1.36"]|["*/*"]`},
		{[]corev1.HTTPHeader{{Name: "User-Agent", Value: "mine"}, {Name: "Accept", Value: ""}},
			s.Listener.Addr().String() + `|[]|["mine"]|[]`},
	} {
		if _, output, err := try(t, &probe.Client{}, httpAction(s, "/headers", c.headers...)); err != nil || output != c.want {
			t.Errorf("%v: %s, %v; want %s", c.headers, output, err, c.want)
		}
	}
}

// Certificates are not verified.
func TestHTTPS(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(handle))
	s.Config.ErrorLog = nil
	t.Cleanup(s.Close)
	action := httpAction(s, "/status?200")
	action.HTTPGet.Scheme = corev1.URISchemeHTTPS
	if result, output, err := try(t, &probe.Client{}, action); err != nil || result != probe.Success {
		t.Errorf("Probe over HTTPS = %v, %q, %v, want %v", result, output, err, probe.Success)
	}
}

func TestTCP(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := portOf(listener.Addr())
	action := corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("main")}}
	named := corev1.ContainerPort{Name: "main", ContainerPort: port}
	if result, output, err := try(t, &probe.Client{}, action, named); err != nil || result != probe.Success {
		t.Errorf("open port: %v, %q, %v", result, output, err)
	}
	_ = listener.Close()
	if result, output, err := try(t, &probe.Client{}, action, named); err != nil || result != probe.Failure || !strings.Contains(output, "connection refused") {
		t.Errorf("closed port: %v, %q, %v", result, output, err)
	}
}

func TestPorts(t *testing.T) {
	for _, c := range []struct {
		port intstr.IntOrString
		want string
	}{
		{intstr.FromString("other"), `container web has no port named "other"`},
		{intstr.FromInt32(0), "invalid port number: 0"},
		{intstr.FromInt32(70000), "invalid port number: 70000"},
		{intstr.FromString("-1"), "invalid port number: -1"},
	} {
		for _, action := range []corev1.ProbeHandler{
			{TCPSocket: &corev1.TCPSocketAction{Port: c.port}},
			{HTTPGet: &corev1.HTTPGetAction{Port: c.port}},
		} {
			if _, _, err := try(t, &probe.Client{}, action); err == nil || err.Error() != c.want {
				t.Errorf("%s: %v, want %s", c.port.String(), err, c.want)
			}
		}
	}
}

func TestGRPC(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, checks := grpc.NewServer(), health.NewServer()
	grpc_health_v1.RegisterHealthServer(server, checks)
	checks.SetServingStatus("away", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	silent := grpc.NewServer()
	go func() { _ = server.Serve(listener) }()
	go func() { _ = silent.Serve(bare) }()
	t.Cleanup(server.Stop)
	t.Cleanup(silent.Stop)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	away, missing := "away", "missing"
	for _, c := range []struct {
		name   string
		action corev1.GRPCAction
		want   probe.Result
		output string
	}{
		{"serving", corev1.GRPCAction{Port: portOf(listener.Addr())}, probe.Success, "service healthy"},
		{"not serving", corev1.GRPCAction{Port: portOf(listener.Addr()), Service: &away}, probe.Failure, `service unhealthy (responded with "NOT_SERVING")`},
		{"unknown service", corev1.GRPCAction{Port: portOf(listener.Addr()), Service: &missing}, probe.Failure, "error: health rpc probe failed"},
		{"no health protocol", corev1.GRPCAction{Port: portOf(bare.Addr())}, probe.Failure, "does not implement the grpc health protocol"},
		{"no server", corev1.GRPCAction{Port: portOf(closed.Addr())}, probe.Failure, "failed to connect"},
	} {
		result, output, err := try(t, &probe.Client{}, corev1.ProbeHandler{GRPC: &c.action})
		if err != nil || result != c.want || !strings.Contains(output, c.output) {
			t.Errorf("%s: %v, %q, %v; want %v, %q", c.name, result, output, err, c.want, c.output)
		}
	}
}

func TestExec(t *testing.T) {
	action := corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"cat", "/ready"}}}
	for _, c := range []struct {
		name    string
		output  string
		code    int32
		err     error
		want    probe.Result
		text    string
		problem string
	}{
		{name: "success", output: "yes", want: probe.Success, text: "yes"},
		{name: "failure", output: "no such file", code: 1, want: probe.Failure, text: "no such file"},
		{name: "timeout", err: fmt.Errorf("exec: %w", context.DeadlineExceeded), want: probe.Failure, text: `command timed out: ["cat" "/ready"] timed out after 1s`},
		{name: "broken", err: errors.New("no runtime"), want: probe.Failure, problem: "no runtime"},
	} {
		client := &probe.Client{Exec: func(_ context.Context, id string, command []string, timeout time.Duration) ([]byte, int32, error) {
			if id != "1" || strings.Join(command, " ") != "cat /ready" || timeout != time.Second {
				t.Errorf("exec in %q of %q for %v", id, command, timeout)
			}
			return []byte(c.output), c.code, c.err
		}}
		result, output, err := try(t, client, action)
		if result != c.want || output != c.text || fmt.Sprint(err) != cmpText(c.problem) {
			t.Errorf("%s: Probe = %v, %q, %v, want %v, %q, %s", c.name, result, output, err, c.want, c.text, cmpText(c.problem))
		}
	}
	if _, _, err := try(t, &probe.Client{}, action); err == nil {
		t.Error("no error without Exec")
	}
}

func cmpText(problem string) string {
	if problem == "" {
		return "<nil>"
	}
	return problem
}
