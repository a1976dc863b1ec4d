package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/kubelet/cri"
	"github.com/planekit/planekit/kubelet/shutdown"
	"go.uber.org/goleak"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long the test waits for each step.
const patience = 2 * time.Minute

const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: NAME}\nspec: {containers: [{name: main, image: nginx}]}\n"

// TestRun starts a pod of the directory, another one, and ends the first with its file.
func TestRun(t *testing.T) {
	root, err := os.MkdirTemp("", "kl") // a socket has a short path
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(root)
	manifests := t.TempDir()
	write := func(name string) {
		t.Helper()
		// A name with a dot is not read, so that no manifest is read half.
		half := filepath.Join(manifests, "."+name)
		err := os.WriteFile(half, []byte(strings.Replace(pod, "NAME", name, 1)), 0o600)
		if err == nil {
			err = os.Rename(half, filepath.Join(manifests, name+".yaml"))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write("web")
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+filepath.Join(root, "none")) // the pods run without logind
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, options{root: root, manifests: manifests, period: 10 * time.Millisecond, ending: shutdown.Config{GracePeriod: time.Minute}})
	}()
	await(t, root, "web-standalone")
	write("db")
	await(t, root, "db-standalone", "web-standalone")
	if err := os.Remove(filepath.Join(manifests, "web.yaml")); err != nil {
		t.Fatal(err)
	}
	await(t, root, "db-standalone")
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// await waits until the runtime runs exactly these pods.
func await(t *testing.T, root string, want ...string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		got := running(t, root)
		if slices.Equal(got, want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the pods %v run, want %v", got, want)
		}
	}
}

// running returns the names of the pods with a running container.
func running(t *testing.T, root string) []string {
	t.Helper()
	containers, err := cri.Dial(t.Context(), filepath.Join(root, "cri.sock"), cri.Options{})
	if err != nil {
		return nil // not there yet
	}
	defer containers.Close()
	list, err := containers.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{})
	if err != nil {
		return nil
	}
	var names []string
	for _, c := range list.Containers {
		if c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
			names = append(names, c.Labels["io.kubernetes.pod.name"])
		}
	}
	slices.Sort(names)
	return names
}

// TestBadDirectory: the program says what is missing.
func TestBadDirectory(t *testing.T) {
	root, err := os.MkdirTemp("", "kl")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(root)
	if err := run(t.Context(), options{root: root}); err == nil || !strings.Contains(err.Error(), "Path and URL are missing") {
		t.Error(err)
	}
}

// TestSmall: a kubelet without an API server is a program of less than 60 lines.
func TestSmall(t *testing.T) {
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(source), "func main()")
	if n := strings.Count(code, "\n"); n >= 60 {
		t.Errorf("%d lines", n)
	}
}
