package server_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/planekit/planekit/kubelet/server"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestEveryRouteNeedsCredentials: every route but health, and what is no route.
func TestEveryRouteNeedsCredentials(t *testing.T) {
	k := start(t, nil)
	k.want("GET", "", "/healthz", 200, "ok")
	for path, subresources := range map[string]string{
		"/": "proxy", "/pods": "pods proxy", "/stats": "stats", logs: "proxy", "/exec/default/web/c?command=x&output=1": "proxy", "/exec/default/web/uid-web/c": "proxy",
		"/attach/default/web/c": "proxy", "/portForward/default/web": "proxy", "/metrics": "metrics", "/healthz/": "healthz proxy", "/healthz/../pods": "proxy",
		"//healthz": "proxy", "/nothing": "proxy",
	} {
		for _, method := range []string{"GET", "POST", "DELETE", "OPTIONS"} {
			k.want(method, "", path, http.StatusUnauthorized, "Unauthorized\n")
			k.want(method, "forged", path, http.StatusUnauthorized, "Unauthorized\n")
		}
		k.want("POST", "reader", path, http.StatusForbidden, "Forbidden (user=reader, verb=create, resource=nodes, subresource(s)=["+subresources+"])\n")
	}
	k.want("GET", "reader", "/nothing", 404, "404 page not found\n")
	k.want("OPTIONS", "root", "/pods", http.StatusMethodNotAllowed, "method not allowed\n")
}

// TestRights: what every path takes, however it is written. What runs something takes
// the right to create, and so does what could be read as another path.
func TestRights(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	k := start(t, func(c *server.Config) {
		c.Authorize = func(_ context.Context, _ string, _ []string, verb, subresource string) (bool, error) {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, verb+" "+subresource)
			return false, nil
		}
	})
	k.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for path, want := range map[string]string{
		"/":                      "get proxy",
		"/pods":                  "get pods, get proxy",
		"/pods/":                 "get pods, get proxy",
		"/runningpods/":          "get pods, get proxy",
		"/healthz/log":           "get healthz, get proxy",
		"/configz":               "get configz, get proxy",
		"/stats/summary":         "get stats",
		"/stats":                 "get stats",
		"/statsx":                "get proxy",
		"/metrics/cadvisor":      "get metrics",
		"/logs/syslog":           "get log",
		"/spec":                  "get spec",
		"/checkpoint/a/b/c":      "get checkpoint",
		"/containerLogs/a/b/c":   "get proxy",
		"/exec/a/b/c":            "create proxy",
		"/exec":                  "create proxy",
		"/exec/":                 "create proxy",
		"/%65xec/a/b/c":          "create proxy",
		"/attach/a/b/c":          "create proxy",
		"/run/a/b/c":             "create proxy",
		"/portForward/a/b":       "create proxy",
		"/cri/exec/token":        "create proxy",
		"//exec/a/b/c":           "create proxy",
		"/stats//exec/a/b/c":     "create proxy",
		"/./exec/a/b/c":          "create proxy",
		"/stats/../exec/a/b/c":   "create proxy",
		"/stats/%2e%2e/exec/a/b": "create proxy",
		"/stats%2f..%2fexec/a/b": "create proxy",
		"/exec/a/b/..%2f..%2f..%2f..%2fstats%2fsummary": "create proxy",
		"/stats%5c..%5cexec":                            "create proxy",
	} {
		for method, verb := range map[string]string{"GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "POST": "create"} {
			asked = nil
			answer := k.ask(method, "jane", path)
			answer.Body.Close()
			mu.Lock()
			got := strings.Join(asked, ", ")
			mu.Unlock()
			if want := strings.ReplaceAll(want, "get", verb); got != want || answer.StatusCode != http.StatusForbidden {
				t.Errorf("%s %s: %d, asked for %s, want %s", method, path, answer.StatusCode, got, want)
			}
		}
	}
}

// TestFinerRights: one of the rights is enough.
func TestFinerRights(t *testing.T) {
	k := start(t, func(c *server.Config) {
		c.Authorize = func(_ context.Context, name string, _ []string, _, subresource string) (bool, error) {
			return name == subresource, nil
		}
	})
	for who, code := range map[string]int{"pods": 200, "proxy": 200, "stats": 403, "healthz": 403} {
		answer := k.ask("GET", who, "/pods")
		answer.Body.Close()
		if answer.StatusCode != code {
			t.Errorf("GET /pods as %s: %d, want %d", who, answer.StatusCode, code)
		}
	}
	answer := k.ask("GET", "proxy", "/stats/summary")
	answer.Body.Close()
	if answer.StatusCode != http.StatusForbidden {
		t.Errorf("stats by proxy: %d", answer.StatusCode)
	}
}

// TestAuthorizerFails: a request whose authorization fails is neither allowed nor forbidden, and
// the answer does not contain the reason.
func TestAuthorizerFails(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		k := start(t, func(c *server.Config) {
			c.Authorize = func(context.Context, string, []string, string, string) (bool, error) {
				return allowed, errors.New("dial tcp 10.0.0.1:6443: connection refused")
			}
		})
		k.want("GET", "reader", "/pods", http.StatusInternalServerError, "Authorization error (user=reader, verb=get, resource=nodes, subresource=pods)\n")
		k.want("GET", "meter", "/stats/summary", http.StatusInternalServerError, "Authorization error (user=meter, verb=get, resource=nodes, subresource=stats)\n")
		k.want("GET", "", "/healthz", 200, "ok")
	}
}

// TestNoDebugging: a server without logs and streams says so to users with the right to them.
func TestNoDebugging(t *testing.T) {
	k := start(t, func(c *server.Config) { c.NoDebugging = true })
	for _, path := range []string{"/containerLogs/default/web/c", "/exec/default/web/c", "/attach/default/web/c", "/portForward/default/web", "/run/default/web/c"} {
		k.want("POST", "root", path, http.StatusMethodNotAllowed, "Debug endpoints are disabled.\n")
		k.want("GET", "", path, http.StatusUnauthorized, "Unauthorized\n")
	}
	if answer := k.ask("GET", "root", "/pods"); answer.StatusCode != http.StatusOK {
		t.Errorf("/pods: %s", answer.Status)
	}
}

func TestPods(t *testing.T) {
	k := start(t, nil)
	answer := k.ask("GET", "reader", "/pods")
	defer answer.Body.Close()
	var list corev1.PodList
	if err := json.NewDecoder(answer.Body).Decode(&list); err != nil {
		t.Fatal(err)
	}
	if list.Kind != "PodList" || len(list.Items) != 1 || list.Items[0].Name != "web" {
		t.Errorf("GET /pods = %v, want a PodList of web alone", &list)
	}
}

func TestNewRefuses(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if _, err := server.New(server.Config{Listener: listener}); err == nil {
		t.Error("a server without a certificate was accepted")
	}
	for name, spoil := range map[string]func(*server.Config){
		"listener":       func(c *server.Config) { c.Listener = nil },
		"authentication": func(c *server.Config) { c.Authenticate = nil },
		"authorization":  func(c *server.Config) { c.Authorize = nil },
		"pods":           func(c *server.Config) { c.Pods = nil },
		"runtime":        func(c *server.Config) { c.Runtime = nil },
		"log root":       func(c *server.Config) { c.LogRoot = "logs" },
	} {
		start(t, func(c *server.Config) {
			without := *c
			spoil(&without)
			if _, err := server.New(without); err == nil {
				t.Errorf("a server with a bad %s was accepted", name)
			}
		})
	}
}

// TestReadOnly: a server without credentials shows what there is, and neither runs commands nor has logs
// or the configuration.
func TestReadOnly(t *testing.T) {
	k := start(t, func(c *server.Config) {
		c.ReadOnly, c.TLS, c.Authenticate, c.Authorize = true, nil, nil, nil
		c.Configuration = func() any { return "secret" }
	})
	k.url = strings.Replace(k.url, "https:", "http:", 1)
	for _, test := range []struct {
		method, path string
		want         int
	}{
		{"GET", "/healthz", 200}, {"GET", "/pods", 200}, {"GET", "/stats/summary", 200}, {"GET", "/metrics/resource", 200}, {"GET", "/metrics/cadvisor", 200},
		{"POST", "/pods", 405}, {"GET", "/configz", 404}, {"GET", "/containerLogs/default/web/c", 405},
		{"POST", "/exec/default/web/c?command=id&output=1", 405}, {"GET", "/exec/default/web/c?command=id&output=1", 405},
		{"POST", "/attach/default/web/c?output=1", 405}, {"POST", "/portForward/default/web", 405}, {"POST", "/run/default/web/c?cmd=id", 405},
		{"GET", "/%65xec/default/web/c?command=id", 405}, {"GET", "//exec/default/web/c?command=id", 307}, {"GET", "/logs/", 404},
	} {
		k.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		answer := k.ask(test.method, "", test.path)
		answer.Body.Close()
		if answer.StatusCode != test.want {
			t.Errorf("%s %s: %s, want %d", test.method, test.path, answer.Status, test.want)
		}
	}
	if _, err := server.New(server.Config{ReadOnly: true, Authenticate: func(*http.Request) (string, []string, error) { return "", nil, nil }}); err == nil {
		t.Error("a server without credentials that asks for them was accepted")
	}
}

// TestRefusedTLS: if net/http refuses the TLS settings, Run fails and the listener is closed.
func TestRefusedTLS(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var s *server.Server
	k := start(t, func(c *server.Config) {
		refused := *c
		refused.Listener, refused.TLS = listener, c.TLS.Clone()
		refused.TLS.CipherSuites = []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384} // not for HTTP/2
		if s, err = server.New(refused); err != nil {
			t.Fatal(err)
		}
	})
	defer k.stop()
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "CipherSuites") {
		t.Error(err)
	}
	if conn, err := net.Dial("tcp", listener.Addr().String()); err == nil {
		conn.Close()
		t.Error("the listener is open")
	}
}
