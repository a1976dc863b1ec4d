package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/client/kubeconfig"
)

// TestKubeconfigKeepsOthers starts a cluster again whose kubeconfig has had users
// added to it, and one that is given a kubeconfig there was.
func TestKubeconfigKeepsOthers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	before := kubeconfig.Config{
		Clusters:       map[string]kubeconfig.Cluster{"work": {Server: "https://work"}, "planekit": {Server: "https://gone"}},
		Users:          map[string]kubeconfig.User{"jane": {Token: "s3cret"}},
		Contexts:       map[string]kubeconfig.Context{"work": {Cluster: "work", User: "jane"}},
		CurrentContext: "work",
	}
	if err := before.Write(file); err != nil {
		t.Fatal(err)
	}
	cluster := start(t, t.TempDir(), "--storage", "memory", "--nodes", "0", "--kubeconfig", file)
	after, err := kubeconfig.Load(cluster.config)
	if err != nil {
		t.Fatal(err)
	}
	if after.Users["jane"].Token != "s3cret" || after.Clusters["work"].Server != "https://work" || after.Contexts["work"].User != "jane" {
		t.Errorf("others are gone: %+v", after)
	}
	ours := after.Contexts[after.CurrentContext]
	if server := after.Clusters[ours.Cluster].Server; !strings.HasPrefix(server, "https://127.0.0.1:") || len(after.Users[ours.User].ClientKeyData) == 0 {
		t.Errorf("the current context %q leads to %q", after.CurrentContext, server)
	}
	cluster.client(t)
}

// TestKubeconfigOfAnotherKind checks that a file that is no kubeconfig is not overwritten.
func TestKubeconfigOfAnotherKind(t *testing.T) {
	const text = "kind: Diary\n"
	file := written(t, "diary", text)
	o, err := parse("--data-dir", t.TempDir(), "--listen", "127.0.0.1:0", "--runtime", "fake", "--storage", "memory", "--nodes", "0", "--kubeconfig", file)
	if err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), o, os.Stderr, logr.Discard()); err == nil || !strings.Contains(err.Error(), "not a v1 Config") {
		t.Errorf("run with --kubeconfig of kind Diary = %v, want an error with %q", err, "not a v1 Config")
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != text {
		t.Errorf("after run ReadFile(%s) = %q, %v, want %q", file, data, err, text)
	}
}
