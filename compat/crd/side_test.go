package crd

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/crd"
)

// side is one of two servers that get the same requests.
type side struct {
	t      *testing.T
	client *http.Client
	base   string
	token  string
	// put is the body of a PUT without one.
	put      string
	warnings []string // of the last answer
}

// do sends a request and returns the answer and its code.
func (s *side) do(method, path, body string, headers ...string) (map[string]any, int) {
	s.t.Helper()
	if method == "PUT" && body == "" {
		body = s.put
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.base+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "test")
	if s.token != "" {
		r.Header.Set("Authorization", "Bearer "+s.token)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	response, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	s.warnings = response.Header.Values("Warning")
	data, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	var out map[string]any
	if json.Unmarshal(data, &out) != nil {
		out = map[string]any{"text": string(data)}
	}
	return out, response.StatusCode
}

func (s *side) want(code int, method, path, body string) map[string]any {
	s.t.Helper()
	out, got := s.do(method, path, body)
	if got != code {
		s.t.Fatalf("%s %s: %d %v", method, path, got, out)
	}
	return out
}

// install creates a definition and waits until its objects are served.
func (s *side) install(definition string) {
	s.t.Helper()
	const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	made := s.want(http.StatusCreated, "POST", path, definition)
	name := made["metadata"].(map[string]any)["name"].(string)
	plural, group, _ := strings.Cut(name, ".")
	await(s.t, name, func() bool {
		for _, version := range []string{"v1", "v2"} {
			if _, code := s.do("GET", "/apis/"+group+"/"+version+"/namespaces/none/"+plural, ""); code != http.StatusOK {
				return false
			}
		}
		return true
	})
}

// serveDefinitions serves the definitions of s until the test ends.
func serveDefinitions(t *testing.T, s *apiservertest.Server) {
	t.Helper()
	d, err := crd.New(crd.Config{Server: s.Server})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	<-d.Ready()
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s was not established", what)
		}
	}
}
