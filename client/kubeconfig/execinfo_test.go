package kubeconfig

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestPluginClusterInfo: a plugin that requests cluster information receives the cluster as in the
// kubeconfig; another plugin does not.
func TestPluginClusterInfo(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	dir := t.TempDir()
	for name, data := range map[string]string{
		"ca.crt": string(authority),
		"plugin": "#!/bin/sh\nprintf %s \"$KUBERNETES_EXEC_INFO\" > " + dir + "/told\n" + strings.ReplaceAll(says(`{"token":"x"}`), "$n", "") + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	const config = `
current-context: c
contexts: [{name: c, context: {cluster: c, user: %s}}]
clusters:
- name: c
  cluster:
    server: %s
    tls-server-name: example.com
    certificate-authority: ca.crt
    extensions:
    - {name: other, extension: {a: 1}}
    - name: client.authentication.k8s.io/exec
      extension: {audience: 12345678901234567890, kind: any}
users:
- name: told
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: ./plugin
      provideClusterInfo: true
      env: [{name: KUBERNETES_EXEC_INFO, value: lies}]
- name: untold
  user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: ./plugin}}
`
	cluster := fmt.Sprintf(`{"server":%q,"tls-server-name":"example.com","certificate-authority-data":%q,"config":{"audience":12345678901234567890,"kind":"any"}}`,
		server.URL, base64.StdEncoding.EncodeToString(authority))
	for user, want := range map[string]string{
		"told":   `{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{"cluster":` + cluster + `,"interactive":false}}`,
		"untold": `{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{"interactive":false}}`,
	} {
		file := filepath.Join(dir, user)
		if err := os.WriteFile(file, fmt.Appendf(nil, config, user, server.URL), 0o600); err != nil {
			t.Fatal(err)
		}
		k, err := Load(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := k.Client(""); err != nil {
			t.Fatal(user, err)
		}
		told, err := os.ReadFile(filepath.Join(dir, "told"))
		if err != nil || string(told) != want {
			t.Errorf("%s: %s, %v\nwant %s", user, told, err, want)
		}
		// The written file is read back.
		text, err := k.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Parse(text); err != nil || !reflect.DeepEqual(compacted(t, again), compacted(t, k)) {
			t.Errorf("%s\n%+v, %v, want %+v", text, again, err, k)
		}
	}
}

func compacted(t *testing.T, c *Config) string {
	t.Helper()
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestPluginPath: a command with a separator is relative to the folder of the file that names it;
// any other is looked up by its name.
func TestPluginPath(t *testing.T) {
	dir := t.TempDir()
	for command, want := range map[string]string{
		"./plugin": filepath.Join(dir, "plugin"), "bin/plugin": filepath.Join(dir, "bin/plugin"), "../plugin": filepath.Join(filepath.Dir(dir), "plugin"),
		"/bin/plugin": "/bin/plugin", "plugin": "plugin",
	} {
		file := filepath.Join(dir, "config")
		if err := os.WriteFile(file, fmt.Appendf(nil, "users: [{name: u, user: {exec: {command: %q}}}, {name: v, user: {token: x}}]", command), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, load := range []func() (*Config, error){func() (*Config, error) { return Load(file) }, func() (*Config, error) { return LoadAll(filepath.Join(dir, "none"), file) }} {
			k, err := load()
			if err != nil {
				t.Fatal(err)
			}
			if got := k.Users["u"].Exec["command"]; got != want {
				t.Errorf("%s is %s, want %s", command, got, want)
			}
		}
	}
	// Parsed data has no folder.
	k, err := Parse([]byte("users: [{name: u, user: {exec: {command: ./plugin}}}]"))
	if err != nil || k.Users["u"].Exec["command"] != "./plugin" {
		t.Errorf("Parse = %+v, %v, want the command ./plugin of the user u", k, err)
	}
}

// TestPluginWithoutAuthority: a plugin does not run for a cluster whose authority cannot be read.
func TestPluginWithoutAuthority(t *testing.T) {
	raw := map[string]any{"apiVersion": "client.authentication.k8s.io/v1", "command": "x", "provideClusterInfo": true}
	_, err := newPlugin(raw, &Cluster{CertificateAuthority: filepath.Join(t.TempDir(), "gone")})
	if err == nil || !strings.Contains(err.Error(), "certificate-authority") {
		t.Error(err)
	}
}
