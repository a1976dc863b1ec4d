package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/kubelet/cri"
	"github.com/planekit/planekit/plane/standalone"
	"go.uber.org/goleak"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestRun runs the pod of a directory until the program is to end.
func TestRun(t *testing.T) {
	root, err := os.MkdirTemp("", "kl") // a socket has a short path
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(root)
	manifest := "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: main, image: nginx}]}\n"
	if err := os.WriteFile(filepath.Join(root, "web.yaml"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, standalone.Config{Root: filepath.Join(root, "r"), Manifests: filepath.Join(root, "web.yaml")})
	}()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		state := containerState(t, filepath.Join(root, "r", "cri.sock"))
		if state == runtimeapi.ContainerState_CONTAINER_RUNNING.String() {
			break
		}
		select {
		case err := <-done:
			t.Fatalf("run = %v before the container runs, which is %s; want that it goes on", err, state)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("the container is %s after two minutes, want that it runs", state)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// containerState returns the state of the pod's only container, or why it has none yet.
func containerState(t *testing.T, socket string) string {
	t.Helper()
	containers, err := cri.Dial(t.Context(), socket, cri.Options{})
	if err != nil {
		return fmt.Sprintf("unknown (%v)", err)
	}
	defer containers.Close()
	list, err := containers.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{})
	if err != nil || len(list.Containers) != 1 {
		return fmt.Sprintf("one of %d (%v)", len(list.GetContainers()), err)
	}
	return list.Containers[0].State.String()
}

// TestBadDirectory: the program says what is missing.
func TestBadDirectory(t *testing.T) {
	root, err := os.MkdirTemp("", "kl")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(root)
	if err := run(t.Context(), standalone.Config{Root: root}); err == nil || !strings.Contains(err.Error(), "Path and URL are missing") {
		t.Error(err)
	}
	if err := run(t.Context(), standalone.Config{Root: root, Socket: "relative", Manifests: root}); err == nil {
		t.Error("a relative socket is not refused")
	}
}

// TestSmall: a kubelet without an API server is a program of less than 60 lines, in all of its files.
func TestSmall(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines += strings.Count(string(source), "\n")
	}
	if lines == 0 || lines >= 60 {
		t.Errorf("%d lines", lines)
	}
}
