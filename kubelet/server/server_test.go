package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
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
	for _, path := range []string{
		"/", "/pods", "/stats", logs, "/exec/default/web/c?command=x&output=1", "/exec/default/web/uid-web/c",
		"/attach/default/web/c", "/portForward/default/web", "/metrics", "/healthz/", "/healthz/../pods", "//healthz", "/nothing",
	} {
		for _, method := range []string{"GET", "POST", "DELETE", "OPTIONS"} {
			k.want(method, "", path, http.StatusUnauthorized, "Unauthorized\n")
			k.want(method, "forged", path, http.StatusUnauthorized, "Unauthorized\n")
		}
		k.want("GET", "nobody", path, http.StatusForbidden, "Forbidden (user=nobody, verb=get, resource=nodes, subresource(s)=[proxy])\n")
		k.want("POST", "reader", path, http.StatusForbidden, "Forbidden (user=reader, verb=create, resource=nodes, subresource(s)=[proxy])\n")
	}
	k.want("GET", "reader", "/nothing", 404, "404 page not found\n")
	k.want("OPTIONS", "root", "/pods", http.StatusMethodNotAllowed, "method not allowed\n")
}

// TestAuthorizerFails: who cannot be judged is neither let in nor forbidden, and is
// told nothing of why.
func TestAuthorizerFails(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		k := start(t, func(c *server.Config) {
			c.Authorize = func(context.Context, string, []string, string, string) (bool, error) {
				return allowed, errors.New("dial tcp 10.0.0.1:6443: connection refused")
			}
		})
		k.want("GET", "reader", "/pods", http.StatusInternalServerError, "Authorization error (user=reader, verb=get, resource=nodes, subresource=proxy)\n")
		k.want("GET", "meter", "/stats/summary", http.StatusInternalServerError, "Authorization error (user=meter, verb=get, resource=nodes, subresource=stats)\n")
		k.want("GET", "", "/healthz", 200, "ok")
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
		t.Errorf("%+v", list)
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
