package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestWidgets(t *testing.T) {
	api, err := handler()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(api)
	defer server.Close()
	url := server.URL + "/apis/example.com/v1/namespaces/default/widgets"
	const widget = `{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "one"}, "color": "red"}`
	for _, step := range []struct {
		method, path, token, body string
		code                      int
		want                      string
	}{
		{"POST", "", "let-me-in", widget, http.StatusCreated, `"color":"red"`},
		{"POST", "", "let-me-in", widget, http.StatusConflict, `widgets.example.com \"one\" already exists`},
		{"GET", "", "let-me-in", "", http.StatusOK, `"kind":"WidgetList"`},
		{"DELETE", "/one", "let-me-in", "", http.StatusOK, `"status":"Success"`},
		{"GET", "/one", "let-me-in", "", http.StatusNotFound, `widgets.example.com \"one\" not found`},
		{"GET", "", "guessed", "", http.StatusUnauthorized, "Unauthorized"},
	} {
		request, err := http.NewRequest(step.method, url+step.path, strings.NewReader(step.body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+step.token)
		request.Header.Set("Content-Type", "application/json")
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

// TestExplained: the OpenAPI document, which kubectl explain reads, has the type's descriptions.
func TestExplained(t *testing.T) {
	api, err := handler()
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "/openapi/v3/apis/example.com/v1", http.NoBody)
	r.Header.Set("Authorization", "Bearer let-me-in")
	w := httptest.NewRecorder()
	api.ServeHTTP(w, r)
	for _, want := range (Widget{}).SwaggerDoc() {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%d: the document lacks %q", w.Code, want)
		}
	}
}
