package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/examples/cluster/containerd"
	"github.com/planekit/planekit/pki"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// patience is how long a test waits for what must come. No machine is so slow:
// what has not come by then never does.
const patience = 3 * time.Minute

// running is a cluster in this process.
type running struct {
	config string // the administrator's kubeconfig
	said   *output
	stop   func()
}

// output holds what a cluster has written after "ready in ".
type output struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// invitation returns the command that adds a node to a cluster.
func (r *running) invitation(t *testing.T) (command string) {
	t.Helper()
	awaited(t, "an invitation", func(context.Context) string {
		r.said.mu.Lock()
		defer r.said.mu.Unlock()
		for line := range strings.Lines(r.said.text.String()) {
			if strings.Contains(line, " --role node --join ") && strings.HasSuffix(line, "\n") {
				command = strings.TrimSpace(line)
				return ""
			}
		}
		return "the cluster said " + r.said.text.String()
	})
	return command
}

// start runs a cluster on the in-process runtime until stop, or the end of the
// test.
func start(t *testing.T, dir string, arguments ...string) *running {
	t.Helper()
	return startLogging(t, dir, testr.New(t), arguments...)
}

// startLogging is start with a log of its own.
func startLogging(t *testing.T, dir string, log logr.Logger, arguments ...string) *running {
	t.Helper()
	return startRole(t, log, append([]string{"--data-dir", dir, "--listen", "127.0.0.1:0", "--runtime", "fake"}, arguments...)...)
}

// startRole runs a role until stop, or the end of the test.
func startRole(t *testing.T, log logr.Logger, arguments ...string) *running {
	t.Helper()
	o, err := parse(arguments...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	stdout, said := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, o, said, log)
		said.Close()
	}()
	first := make([]byte, len("ready in "))
	if _, err := io.ReadFull(stdout, first); err != nil || string(first) != "ready in " {
		cancel()
		t.Fatalf("the cluster said %q: %v, %v", first, err, <-ended)
	}
	r := &running{config: o.kubeconfig, said: &output{}}
	go io.Copy(r.said, stdout) //nolint:errcheck // ends with the cluster
	r.stop = func() {
		if ctx.Err() != nil {
			return
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(r.stop)
	return r
}

func (r *running) client(t *testing.T) *client.Client {
	t.Helper()
	config, err := kubeconfig.Load(r.config)
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := config.Client("")
	if err != nil {
		t.Fatal(err)
	}
	api, err := client.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	return api
}

func TestNoGoroutineIsLeft(t *testing.T) {
	for _, storage := range []string{"memory", "etcd"} {
		t.Run(storage, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			cluster := start(t, t.TempDir(), "--storage", storage, "--nodes", "2")
			api := cluster.client(t)
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
			pod.Spec.Containers = []corev1.Container{{Name: "web", Image: "nginx"}}
			if _, err := typed.Pods(api).Create(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			api.Close()
			cluster.stop()
			noneLeft(t, before)
		})
	}
}

// noneLeft waits until all goroutines have ended that were begun since before.
func noneLeft(t *testing.T, before goleak.Option) {
	t.Helper()
	awaited(t, "goroutines end", func(context.Context) string { return text(goleak.Find(before)) })
}

func TestKubeconfigIsTheOwnersAlone(t *testing.T) {
	cluster := start(t, t.TempDir(), "--storage", "memory", "--nodes", "0")
	info, err := os.Stat(cluster.config)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the kubeconfig has mode %v", info.Mode())
	}
}

// TestFaults: one clear line for what keeps a cluster from starting.
func TestFaults(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("not a directory"), 0o600); err != nil {
		t.Fatal(err)
	}
	badID := t.TempDir()
	if err := os.WriteFile(filepath.Join(badID, "id"), []byte("../../etc"), 0o600); err != nil {
		t.Fatal(err)
	}
	badTokens := filepath.Join(t.TempDir(), "tokens.csv")
	if err := os.WriteFile(badTokens, []byte("only-a-secret-token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	inUse := t.TempDir()
	start(t, inUse, "--storage", "memory", "--nodes", "0")

	for _, test := range []struct {
		name      string
		arguments []string
		want      string
	}{
		{"port taken", []string{"--listen", taken.Addr().String()}, "address already in use"},
		{"data directory is a file", []string{"--data-dir", file}, "data directory: mkdir " + file},
		{"data directory in use", []string{"--data-dir", inUse}, "in use by another cluster"},
		{"identity is none", []string{"--data-dir", badID}, "not a cluster's identity"},
		{"dead etcd", []string{"--etcd-servers", "http://127.0.0.1:1"}, "http://127.0.0.1:1"},
		{"no such certificate", []string{"--etcd-servers", "https://127.0.0.1:1", "--etcd-cafile", "/no/ca.crt"}, "/no/ca.crt"},
		{"tokens without a user", []string{"--storage", "memory", "--token-auth-file", badTokens}, badTokens},
		{"keys that are none", []string{"--encryption-provider-config", badTokens}, "--encryption-provider-config: " + badTokens},
		{"no such keys", []string{"--encryption-provider-config", "/no/keys.yaml"}, "/no/keys.yaml"},
		{"wrong flag", []string{"--rumtime", "fake"}, "unknown flag: --rumtime"},
		{"wrong argument", []string{"start"}, `unknown command "start"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := command(how{})
			c.SetArgs(append([]string{"--data-dir", t.TempDir(), "--listen", "127.0.0.1:0", "--runtime", "fake"}, test.arguments...))
			var stdout bytes.Buffer
			c.SetOut(&stdout)
			c.SetErr(&stdout)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			err := c.ExecuteContext(ctx)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			if err != nil && (strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "only-a-secret")) {
				t.Errorf("not one clear line: %v", err)
			}
			if stdout.Len() > 0 {
				t.Errorf("it printed %q", &stdout)
			}
		})
	}
}

// TestExternalEtcd keeps a cluster's objects in an etcd that is not its own and
// that wants a client certificate.
func TestExternalEtcd(t *testing.T) {
	etcd, flags := externalEtcd(t)
	defer etcd.Close()

	first := start(t, t.TempDir(), append(flags, "--nodes", "0")...)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}
	if _, err := typed.Namespaces(first.client(t)).Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	first.stop()
	second := start(t, t.TempDir(), append(flags, "--nodes", "0")...)
	if _, err := typed.Namespaces(second.client(t)).Get(t.Context(), "", "kept"); err != nil {
		t.Error(err)
	}
}

// externalEtcd serves an etcd over TLS, and returns the flags that lead to it.
func externalEtcd(t *testing.T) (*embed.Etcd, []string) {
	t.Helper()
	dir := t.TempDir()
	authority, err := pki.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := authority.Serving("etcd", "127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	if _, err := authority.Client("client", "planekit"); err != nil {
		t.Fatal(err)
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	config := embed.NewConfig()
	config.Dir = t.TempDir()
	config.LogLevel = "error"
	config.LogOutputs = []string{file("etcd.log")}
	config.UnsafeNoFsync = true
	config.ListenPeerUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	endpoint := url.URL{Scheme: "https", Host: free(t)} // embed does not tell which port it took
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{endpoint}, []url.URL{endpoint}
	config.ClientTLSInfo.CertFile, config.ClientTLSInfo.KeyFile = file("etcd.crt"), file("etcd.key")
	config.ClientTLSInfo.TrustedCAFile, config.ClientTLSInfo.ClientCertAuth = file("ca.crt"), true
	etcd, err := embed.StartEtcd(config)
	if err != nil {
		t.Fatal(err)
	}
	<-etcd.Server.ReadyNotify()
	return etcd, []string{
		"--etcd-servers", endpoint.String(), "--etcd-cafile", file("ca.crt"),
		"--etcd-certfile", file("client.crt"), "--etcd-keyfile", file("client.key"),
	}
}

// free returns an address of this machine at which nothing listens, nor will
// soon: its port is not among those that the kernel gives to connections, such as
// those that look for an etcd which is away.
func free(t *testing.T) string {
	t.Helper()
	const lowest, ports = 20_000, 12_000
	for {
		address := fmt.Sprintf("127.0.0.1:%d", lowest+rand.IntN(ports))
		if listener, err := net.Listen("tcp", address); err == nil {
			_ = listener.Close()
			return address
		}
	}
}

// TestForeignContainerd runs a node on a containerd that the cluster did not
// start, and leaves it as it was.
func TestForeignContainerd(t *testing.T) {
	if err := containerd.Available(); err != nil {
		t.Skip(err)
	}
	root := t.TempDir()
	confDir, binDir := filepath.Join(root, "net.d"), filepath.Join(root, "plugins")
	daemon, err := containerd.New(containerd.Config{Root: filepath.Join(root, "containerd"), CNIConf: confDir, CNIBin: binDir})
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := daemon.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	cluster := start(t, filepath.Join(root, "data"), "--runtime", "containerd", "--containerd-socket", daemon.Socket(), "--offline-images", "off")
	for _, dir := range []string{confDir, binDir} {
		if entries, err := os.ReadDir(dir); err != nil || len(entries) == 0 {
			t.Errorf("nothing was put into %s: %v", dir, err)
		}
	}
	node, err := typed.Nodes(cluster.client(t)).Get(t.Context(), "", "node-1")
	if err != nil {
		t.Fatal(err)
	}
	if version := node.Status.NodeInfo.ContainerRuntimeVersion; !strings.HasPrefix(version, "containerd://") {
		t.Errorf("the node runs on %s", version)
	}
	cluster.stop()
	for _, dir := range []string{confDir, binDir} {
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
			t.Errorf("left in %s: %v, %v", dir, entries, err)
		}
	}
}
