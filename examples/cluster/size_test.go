package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// mostBytes is the largest size of the program, stripped. The goal is 60 MB; docs/benchmarks/cluster.md says what it is made of.
// What makes it larger says here by how much.
const mostBytes = 71_300_000

// TestSize builds the program as make build does.
func TestSize(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cluster")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-tags=grpcnotrace", "-ldflags=-s -w", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the program by %v: %v, want no error\n%s", build.Args, err, out)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", info.Size())
	if runtime.GOOS == "linux" && runtime.GOARCH == "amd64" && info.Size() > mostBytes {
		t.Errorf("the program has %d bytes, want at most %d", info.Size(), mostBytes)
	}
}
