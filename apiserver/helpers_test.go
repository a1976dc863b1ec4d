package apiserver_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver/apiservertest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// api calls a server as an administrator and fails the test on surprises.
type api struct {
	t      testing.TB
	client *http.Client
	base   string
}

// start runs a server with the test resources and talks to it through memory.
func start(t testing.TB, options ...apiservertest.Option) *api {
	t.Helper()
	s := apiservertest.Start(t, append([]apiservertest.Option{apiservertest.WithResources(resources()...)}, options...)...)
	return &api{t, s.As("admin", "system:masters"), "http://memory"}
}

type answer struct {
	code   int
	header http.Header
	body   string
}

// do sends a request. Headers are given as "Name: value".
func (a *api) do(method, path, body string, headers ...string) answer {
	a.t.Helper()
	r, err := http.NewRequestWithContext(a.t.Context(), method, a.base+path, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	response, err := a.client.Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(data)}
}

// want fails the test unless the answer has the code and, if it is an error,
// its message contains text.
func (a *api) want(got answer, code int, text string) answer {
	a.t.Helper()
	if got.code != code || !strings.Contains(got.message(), text) {
		a.t.Fatalf("got %d %s\nwant %d %q", got.code, got.body, code, text)
	}
	return got
}

// message returns the message of a Status, or else the whole body.
func (r answer) message() string {
	var status metav1.Status
	if json.Unmarshal([]byte(r.body), &status) == nil && status.Kind == "Status" {
		return status.Message
	}
	return r.body
}

// into decodes the body.
func into[T any](t testing.TB, r answer) *T {
	t.Helper()
	obj := new(T)
	if err := json.Unmarshal([]byte(r.body), obj); err != nil {
		t.Fatalf("%v in %s", err, r.body)
	}
	return obj
}

const (
	configPath = "/api/v1/namespaces/default/configmaps"
	podPath    = "/api/v1/namespaces/default/pods"
	deployPath = "/apis/apps/v1/namespaces/default/deployments"

	mergePatch     = "Content-Type: application/merge-patch+json"
	jsonPatch      = "Content-Type: application/json-patch+json"
	strategicPatch = "Content-Type: application/strategic-merge-patch+json"
)

func configMap(name, more string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q}%s}`, name, more)
}

func pod(name, more string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q%s},"spec":{"containers":[{"name":"c","image":"nginx"}]}}`, name, more)
}

func deployment(name string, replicas int) string {
	return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":%q},"spec":{"replicas":%d,
		"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"nginx"}]}}}}`, name, replicas)
}

// create posts an object that must be accepted.
func (a *api) create(path, body string) answer {
	a.t.Helper()
	return a.want(a.do("POST", path, body), http.StatusCreated, "")
}
