package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// most is what the program may weigh without an etcd in it, in bytes, stripped. The bar is
// 30 MB, and the program is 0.65 MB above it: 0.15 since request bodies are bounded before they
// are decoded, 0.5 with flow control and its two kinds. most keeps it from growing further
// unnoticed.
const most = 30_800_000

// TestSize builds the program as make apiserver does; it says that it has no
// etcd. Nothing in it may look methods up by names that the compiler does not
// know: the linker would keep every exported method of every type then, 4 to
// 5 MB of them.
func TestSize(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program")
	}
	path := filepath.Join(t.TempDir(), "apiserver")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-tags=noembed,noprofile,grpcnotrace", "-ldflags=-s -w -dumpdep", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	// What the linker keeps, and why: a line for each edge of the graph.
	edges, err := build.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, edges)
	}
	if !bytes.Contains(edges, []byte("main.main -> ")) {
		t.Fatal("the linker does not say what it keeps")
	}
	var callers []string
	for edge := range strings.Lines(string(edges)) {
		if from, _, _ := strings.Cut(edge, " "); strings.Contains(edge, "<ReflectMethod>") && !slices.Contains(callers, from) {
			callers = append(callers, from)
		}
	}
	if callers != nil {
		t.Errorf("methods are looked up by name in %v", callers)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%.1f MB", float64(info.Size())/1e6)
	if runtime.GOARCH == "amd64" && info.Size() > most {
		t.Errorf("the program has %d bytes, %d are the most", info.Size(), most)
	}
	out, err := exec.CommandContext(t.Context(), path, "--data-dir", t.TempDir(), "--listen", "127.0.0.1:0").CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte("no etcd is linked into this program")) {
		t.Errorf("%v\n%s", err, out)
	}
}
