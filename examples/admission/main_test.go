package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestOwned(t *testing.T) {
	api, err := handler()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(api)
	defer server.Close()
	const pods = "/api/v1/namespaces/default/pods"
	const web = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[{"name":"web","image":"nginx:1.27"}]}}`
	owned := strings.Replace(web, `"name":"web"}`, `"name":"web","labels":{"owner":"jane"}}`, 1)
	const orphan = `{"metadata":{"labels":{"owner":null}}}`
	for _, step := range []struct {
		method, path, body string
		code               int
		want               string
	}{
		{"POST", pods, web, http.StatusForbidden, `pods \"web\" is forbidden: the label owner must say whose it is`},
		{"POST", pods, owned, http.StatusCreated, `"imagePullPolicy":"Always"`},
		{"PATCH", pods + "/web", orphan, http.StatusForbidden, "must say whose it is"},
		{"PATCH", pods + "/web", `{"metadata":{"labels":{"owner":"joe"}}}`, http.StatusOK, `"owner":"joe"`},
		{"DELETE", pods + "/web", "", http.StatusOK, `"name":"web"`},
	} {
		request, err := http.NewRequestWithContext(t.Context(), step.method, server.URL+step.path, strings.NewReader(step.body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer let-me-in")
		request.Header.Set("Content-Type", "application/json")
		if step.method == http.MethodPatch {
			request.Header.Set("Content-Type", "application/merge-patch+json")
		}
		answer, err := server.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != step.code || !strings.Contains(string(body), step.want) {
			t.Errorf("%s %s: %d %s %v, want %d with %s", step.method, step.path, answer.StatusCode, body, err, step.code, step.want)
		}
	}
}
