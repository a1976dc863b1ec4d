package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/client/typed"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs the program until it says that it is ready. stop interrupts it and
// fails the test unless it ends well.
func start(t *testing.T, arguments ...string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := command(ctx, append([]string{"--listen", "127.0.0.1:0"}, arguments...), writer)
		writer.CloseWithError(err)
		ended <- err
	}()
	line, err := bufio.NewReader(reader).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "ready in ") {
		cancel()
		t.Fatalf("said %q: %v", line, err)
	}
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestMemory checks that the flags choose the store, and that an unknown user is refused.
func TestMemory(t *testing.T) {
	dir := t.TempDir()
	profile := filepath.Join(dir, "cpu.prof")
	defer func() {
		if info, err := os.Stat(profile); err != nil || info.Size() == 0 {
			t.Errorf("the profile: %v %v", info, err)
		}
	}()
	defer start(t, "--data-dir", dir, "--storage", "memory", "--cpu-profile", profile)()
	loaded, err := kubeconfig.Load(filepath.Join(dir, "admin.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	config, _, err := loaded.Client("")
	if err != nil {
		t.Fatal(err)
	}
	config.TLS.Certificates = nil
	config.TLS.GetClientCertificate = nil
	api, err := client.New(config)
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	if _, _, err := typed.Pods(api).List(t.Context(), "", metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("an unknown user lists pods: %v", err)
	}
}

func TestFlags(t *testing.T) {
	for _, test := range []struct{ arguments, want string }{
		{"--storage paper", `--storage must be etcd or memory, not "paper"`},
		{"--storage memory --etcd-servers http://127.0.0.1:1", "--etcd-servers and --storage memory exclude each other"},
		{"more", `unexpected argument "more"`},
		{"--cpu-profile /none/cpu.prof", "--cpu-profile: open /none/cpu.prof: no such file or directory"},
		{"--listen nowhere", "--listen: listen tcp: address nowhere: missing port in address"},
		{"--token-auth-file none.csv", "--token-auth-file: open none.csv: no such file or directory"},
		{"--etcd-servers 127.0.0.1:1", "etcd"},
	} {
		arguments := append([]string{"--data-dir", t.TempDir(), "--listen", "127.0.0.1:0"}, strings.Fields(test.arguments)...)
		err := command(t.Context(), arguments, io.Discard)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.arguments, err, test.want)
		}
	}
}
