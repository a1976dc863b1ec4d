package kubeconfig

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/client"
)

// script writes a plugin that records each of its runs in a file beside it. It returns the plugin's
// entry in a kubeconfig.
func script(t *testing.T, body string) (raw map[string]any, runs func() int) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "plugin")
	text := "#!/bin/sh\necho run >> " + dir + "/runs\nn=$(wc -l < " + dir + "/runs)\n" + body + "\n"
	if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return map[string]any{"apiVersion": "client.authentication.k8s.io/v1", "command": file, "interactiveMode": "Never"}, func() int {
		data, _ := os.ReadFile(filepath.Join(dir, "runs"))
		return strings.Count(string(data), "run")
	}
}

// says returns a script that prints a credential with the status.
func says(status string) string {
	return `printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":` + status + `}' $n`
}

func execConfigOf(server *httptest.Server, raw map[string]any) *Config {
	return &Config{
		CurrentContext: "c",
		Clusters:       map[string]Cluster{"c": {Server: server.URL, InsecureSkipTLSVerify: true}},
		Users:          map[string]User{"c": {Exec: raw}},
		Contexts:       map[string]Context{"c": {Cluster: "c", User: "c"}},
	}
}

// TestPluginCredential sends requests with the credential of a plugin: it runs once for many
// requests, again when its token is refused, and again when it expires.
func TestPluginCredential(t *testing.T) {
	good := "token-1"
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Header.Get("Authorization") != "Bearer "+good {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprintf(w, "%q", body)
	}))
	defer server.Close()
	soon := time.Now().Add(execEarly / 2).UTC().Format(time.RFC3339)
	for name, test := range map[string]struct {
		status string
		runs   [3]int // after New and two requests, after a refusal, and after two more requests
	}{
		"for good":  {`{"token":"token-%d"}`, [3]int{1, 2, 2}},
		"for a bit": {`{"token":"token-1","expirationTimestamp":"` + soon + `"}`, [3]int{3, 5, 7}},
	} {
		raw, runs := script(t, says(test.status))
		good = "token-1"
		config, _, err := execConfigOf(server, raw).Client("")
		if err != nil {
			t.Fatalf("%s: Client: %v", name, err)
		}
		api, err := client.New(config)
		if err != nil {
			t.Fatal(err)
		}
		ask := func(want bool) {
			answer, err := api.Do(t.Context(), client.Request{Method: "POST", Path: "/x", Body: []byte("body")})
			if ok := err == nil; ok != want || ok && string(answer.Body) != `"body"` {
				t.Errorf("%s: Do(POST /x): %v, body %q, want success: %v, with the body %q", name, err, answer.Body, want, `"body"`)
			}
		}
		ask(true)
		ask(true)
		if runs() != test.runs[0] {
			t.Errorf("%s: run %d times, want %d", name, runs(), test.runs[0])
		}
		good = "token-2"
		ask(name == "for good")
		if runs() != test.runs[1] {
			t.Errorf("%s: run %d times after a refusal, want %d", name, runs(), test.runs[1])
		}
		api.Close()
	}
}

// TestPluginFails runs plugins that fail. Their output must not get into errors.
func TestPluginFails(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	for name, test := range map[string]struct{ body, want string }{
		"exit":        {"echo s3cret; exit 3", "exit status 3"},
		"nothing":     {"true", "did not write the JSON"},
		"garbage":     {"echo s3cret", "did not write the JSON"},
		"another":     {`echo '{"apiVersion":"v1","kind":"Pod"}'`, "did not write an ExecCredential"},
		"empty":       {says(`{}`), "neither a token nor a certificate"},
		"no status":   {says(`null`), "neither a token nor a certificate"},
		"half a pair": {says(`{"clientCertificateData":"s3cret"}`), "clientCertificateData"},
		"without end": {"yes s3cret", "more than 1048576 bytes"},
	} {
		raw, _ := script(t, test.body)
		_, _, err := execConfigOf(server, raw).Client("")
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	for want, raw := range map[string]map[string]any{
		"command must be set": {"apiVersion": "client.authentication.k8s.io/v1"},
		"apiVersion must be":  {"command": "x"},
		"interactiveMode":     {"apiVersion": "client.authentication.k8s.io/v1", "command": "x", "interactiveMode": "Always"},
		"get it from example": {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-plugin", "installHint": "get it from example"},
	} {
		if _, _, err := execConfigOf(server, raw).Client(""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestPluginThatHangs: a plugin is stopped after its time, and its children do not delay that.
func TestPluginThatHangs(t *testing.T) {
	// Its child keeps the output open for as long as the test runs.
	raw, _ := script(t, `while test -e "$0"; do sleep 0.1; done & wait`)
	p, err := newPlugin(raw, &Cluster{})
	if err != nil {
		t.Fatal(err)
	}
	p.timeout = 100 * time.Millisecond
	if _, err := p.credential(context.Background(), nil); err == nil || !strings.Contains(err.Error(), "did not end within 100ms") {
		t.Error(err)
	}
}

// TestPluginEnvironment passes the plugin its arguments and environment.
func TestPluginEnvironment(t *testing.T) {
	raw, _ := script(t, `test "$1 $PLACE" = "a here" && echo "$KUBERNETES_EXEC_INFO" | grep -q '"interactive":false' && `+says(`{"token":"x"}`))
	raw["args"] = []any{"a"}
	raw["env"] = []any{map[string]any{"name": "PLACE", "value": "here"}}
	p, err := newPlugin(raw, &Cluster{})
	if err != nil {
		t.Fatal(err)
	}
	if known, err := p.credential(t.Context(), nil); err != nil || known.token != "x" {
		t.Errorf("credential = %v, %v, want the token x", known, err)
	}
}
