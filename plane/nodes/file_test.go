package nodes_test

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/server"
	"github.com/planekit/planekit/kubelet/staticpods"
	"github.com/planekit/planekit/plane/nodes"
)

func writeFile(t *testing.T, fields string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubelet.yaml")
	text := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" + fields + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestFile: a file changes the kubelet, its server and the source of its static pods.
func TestFile(t *testing.T) {
	path := writeFile(t, "maxPods: 3\nstaticPodPath: manifests\ntlsMinVersion: VersionTLS13\nenableDebuggingHandlers: false\naddress: 127.0.0.1")
	file, err := nodes.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	k, serve, first, second := kubelet.Config{}, server.Config{TLS: &tls.Config{}}, staticpods.Config{}, staticpods.Config{Path: "/own"}
	file.Kubelet(&k)
	file.Server(&serve)
	file.StaticPods(&first)
	file.StaticPods(&second)
	if pods := k.Capacity["pods"]; pods.Value() != 3 {
		t.Errorf("pods %v", pods)
	}
	if serve.TLS.MinVersion != tls.VersionTLS13 || !serve.NoDebugging {
		t.Errorf("server %x %v", serve.TLS.MinVersion, serve.NoDebugging)
	}
	if want := filepath.Join(filepath.Dir(path), "manifests"); first.Path != want || second.Path != "/own" {
		t.Errorf("static pods from %s and %s", first.Path, second.Path)
	}
	if !file.Has("maxPods") || file.Has("podCIDR") || !file.HasStaticPods() {
		t.Error("fields are missing")
	}
	if got := file.Warnings(); len(got) != 1 || !strings.HasPrefix(got[0], "address has no effect") {
		t.Error(got)
	}
}

// TestNoFile: without a file, nothing changes.
func TestNoFile(t *testing.T) {
	var file *nodes.File
	k, serve, static := kubelet.Config{}, server.Config{TLS: &tls.Config{}}, staticpods.Config{}
	file.Kubelet(&k)
	file.Server(&serve)
	file.StaticPods(&static)
	file.TLS(serve.TLS)
	if !reflect.ValueOf(k).IsZero() || serve.NoDebugging || serve.TLS.MinVersion != 0 || static.Path != "" {
		t.Errorf("a nil File makes Kubelet %+v, NoDebugging %v, MinVersion %d and Path %q, want zero values",
			k, serve.NoDebugging, serve.TLS.MinVersion, static.Path)
	}
	if file.Has("maxPods") || file.HasStaticPods() || file.Warnings() != nil {
		t.Error("it has fields")
	}
}

func TestFileRefused(t *testing.T) {
	for fields, want := range map[string]string{"maxPod: 3": `unknown field "maxPod"`, "maxPods: -3": "maxPods"} {
		if _, err := nodes.ReadFile(writeFile(t, fields)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ReadFile() of %q: %v, want an error with %q", fields, err, want)
		}
	}
	if _, err := nodes.ReadFile("missing"); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Error(err)
	}
}
