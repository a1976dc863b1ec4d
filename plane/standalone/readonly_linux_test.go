package standalone

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestReadOnlyPort: with readOnlyPort and without a certificate, a server shows the pods to everybody. The
// process may have as many files open as maxOpenFiles says.
func TestReadOnlyPort(t *testing.T) {
	root, err := os.MkdirTemp("", "kl") // a socket has a short path
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(root)
	manifests := t.TempDir()
	if err := os.WriteFile(filepath.Join(manifests, "web.yaml"), []byte(strings.Replace(pod, "NAME", "web", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "kubelet.yaml")
	text := fmt.Sprintf("%saddress: 127.0.0.1\nreadOnlyPort: 10255\nmaxOpenFiles: %d\n", header, files.Cur-1)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	address := make(chan string, 1)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, Config{Root: root, Manifests: manifests, ConfigFile: config, Listen: func(network, wanted string) (net.Listener, error) {
			if wanted != "127.0.0.1:10255" {
				t.Errorf("it listens at %s", wanted)
			}
			listener, err := net.Listen(network, "127.0.0.1:0")
			if err == nil {
				address <- listener.Addr().String()
			}
			return listener, err
		}})
	}()
	var at string
	select {
	case at = <-address:
	case err := <-done:
		t.Fatal(err)
	}
	await(t, root, "web-standalone")
	answer, err := http.Get("http://" + at + "/pods")
	if err != nil {
		t.Fatal(err)
	}
	var list corev1.PodList
	if err := json.NewDecoder(answer.Body).Decode(&list); err != nil || len(list.Items) != 1 {
		t.Errorf("%d pods (%v)", len(list.Items), err)
	}
	answer.Body.Close()
	var now syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &now); err != nil || now.Cur != files.Cur-1 {
		t.Errorf("%d files may be open, want %d (%v)", now.Cur, files.Cur-1, err)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
