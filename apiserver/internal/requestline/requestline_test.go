package requestline

import (
	"net/http"
	"net/url"
	"slices"
	"testing"
)

// TestRunningTakesCreate: whatever leads to a kubelet's way of running something
// takes the right to create, with any method and in any spelling that gets past
// Parse. Everything else keeps the verb of its method.
func TestRunningTakesCreate(t *testing.T) {
	methods := map[string]string{"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
	for path, runs := range map[string]bool{
		"/api/v1/nodes/n/proxy/exec/a/b/c":                 true,
		"/api/v1/nodes/n/proxy/exec":                       true,
		"/api/v1/nodes/n/proxy/exec/":                      true,
		"/api/v1/nodes/n/proxy/EXEC/a/b/c":                 true,
		"/api/v1/nodes/n/proxy/%65%78ec/a/b/c":             true,
		"/api/v1/nodes/n:10250/proxy/attach/a/b/c":         true,
		"/api/v1/nodes/https:n:10250/proxy/run/a/b/c":      true,
		"/api/v1/nodes/n/proxy/portForward/a/b":            true,
		"/api/v1/nodes/n/proxy/portforward/a/b":            true,
		"/api/v1/nodes/n/proxy/cri/exec/token":             true,
		"/api/v1/namespaces/x/nodes/n/proxy/exec/a/b/c":    true, // not served
		"/api/v1/nodes/n/proxy":                            false,
		"/api/v1/nodes/n/proxy/":                           false,
		"/api/v1/nodes/n/proxy/pods":                       false,
		"/api/v1/nodes/n/proxy/execs/a":                    false,
		"/api/v1/nodes/n/proxy/runningpods/":               false,
		"/api/v1/nodes/exec/proxy/pods":                    false,
		"/api/v1/nodes/n/status":                           false,
		"/api/v1/namespaces/d/pods/p/proxy/exec":           false, // a pod's own path
		"/apis/other.example/v1/nodes/n/proxy/exec/a/b/c":  false, // another group's nodes
		"/apis/other.example/v1/nodes/n/proxy/run/a/b/c/d": false,
	} {
		u, err := url.Parse(path)
		if err != nil {
			t.Fatal(err)
		}
		for method, verb := range methods {
			if runs {
				verb = "create"
			}
			info, err := Parse(method, u)
			if err != nil || info.Verb != verb {
				t.Errorf("%s %s: %s, %v, want %s", method, path, info.Verb, err, verb)
			}
		}
		for _, method := range []string{"OPTIONS", "CONNECT", "exec"} {
			if info, err := Parse(method, u); err == nil && slices.Contains([]string{"create", "get"}, info.Verb) {
				t.Errorf("Parse(%q, %q) has the verb %s, want an error or another verb than create and get", method, path, info.Verb)
			}
		}
	}
	for _, subresource := range []string{"exec", "attach", "portforward"} {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
			info, err := Parse(method, &url.URL{Path: "/api/v1/namespaces/d/pods/p/" + subresource})
			if err != nil || info.Verb != "create" {
				t.Errorf("Parse(%q) of the %s of a pod has the verb %s, %v, want create", method, subresource, info.Verb, err)
			}
		}
	}
	for _, path := range []string{
		"/api/v1/nodes/n/proxy//exec", "/api/v1/nodes/n/proxy/./exec", "/api/v1/nodes/n/proxy/x/../exec", "/api/v1/nodes/n/proxy/%2e/exec",
		"/api/v1/nodes/n/proxy/pods%2f..%2fexec", "/api/v1/nodes/n/proxy/%252e%252e/exec", "/api/v1/nodes/n/proxy/%5cexec", "/api/v1/nodes/n/proxy%2fexec",
		"/api/v1/nodes/n//proxy/exec", "/api/v1/nodes/n/proxy/ex%00ec",
	} {
		u, err := url.Parse(path)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := Parse("GET", u); err == nil {
			t.Errorf("%s is read as %+v", path, info)
		}
	}
}
