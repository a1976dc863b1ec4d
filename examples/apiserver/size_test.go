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

// most is the largest size of the program without an etcd in it, in bytes, stripped. The goal is
// 30 MB; the program has 32.13. 0.26 of it came with the kind ClusterTrustBundle, whose Go package
// registers all kinds of its group, 0.2 with CertificateSigningRequest and resources that come and go
// at run time, 0.06 with the owners of fields of custom objects and scales, 0.02 with MutatingAdmissionPolicies, 0.03 with certificates that are renewed in use, 0.1 with WebSockets, 0.1 with warnings about workloads, 0.05 with certificates of an operator's, 0.05 with the protobuf of APIServices and definitions, 0.02 with metrics, 0.12 with warnings about all kinds and kube-apiserver's negotiation, 0.05 with checks of all kinds of volumes and annotations, 0.1 with the budgets of requests, 0.6 with HorizontalPodAutoscalers, IPAddresses and
// converters of objects, and 0.37 are a second YAML library, which comes with apimachinery's
// packages for server-side apply and strategic merge patches.
const most = 32_130_000

// TestSize builds the program as make apiserver does. The program reports that it has no etcd.
// Nothing in it may look up methods by names that the compiler does not know: the linker would
// then keep every exported method of every type, 4 to 5 MB of them.
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
		t.Fatalf("go build: %v\n%s", err, edges)
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
		t.Errorf("the program: %v, want an error and \"no etcd is linked into this program\" in\n%s", err, out)
	}
}
