package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPodNetworkIsKept: the choice outlasts the process, and other services'
// addresses are not chosen.
func TestPodNetworkIsKept(t *testing.T) {
	dir := t.TempDir()
	kept := func() string {
		data, err := os.ReadFile(filepath.Join(dir, "pod-cidr"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(data))
	}
	run := func(want string, arguments ...string) {
		t.Helper()
		start(t, dir, append(arguments, "--storage", "memory", "--nodes", "0")...).stop()
		if got := kept(); got != want {
			t.Errorf("%v: pods have %s, want %s", arguments, got, want)
		}
	}
	run("10.245.0.0/16", "--service-cluster-ip-range", "10.244.0.0/16")
	run("10.245.0.0/16")
	run("10.9.0.0/16", "--cluster-cidr", "10.9.0.0/16")
	run("10.9.0.0/16", "--cluster-cidr", "auto")
	if err := os.WriteFile(filepath.Join(dir, "pod-cidr"), []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	run("10.244.0.0/16")
}
