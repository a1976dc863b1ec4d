package stock

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/client/kubeconfig"
)

// Server is a kube-apiserver with an etcd of its own.
type Server struct {
	// URL is the URL of the server, Token the administrator's token.
	URL, Token string
	// Kubeconfig is the path of a kubeconfig of the administrator.
	Kubeconfig string
	// Etcd is the URL of its etcd.
	Etcd string

	t       testing.TB
	bin     string
	dir     string
	port    string
	key     string
	web     *http.Client
	etcd    *process
	process *process

	nodeToken string
}

// Node is the name of the node that a [Server] knows.
const Node = "node-1"

// NewServer starts a kube-apiserver with further arguments and waits until it is ready.
func NewServer(t testing.TB, bin string, more ...string) *Server {
	t.Helper()
	s := &Server{t: t, bin: bin, dir: t.TempDir(), Token: rand.Text(), port: FreePort(t)}
	s.URL = "https://127.0.0.1:" + s.port
	// The server signs its own certificate.
	s.web = &http.Client{Timeout: time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	t.Cleanup(s.web.CloseIdleConnections)
	s.key = filepath.Join(s.dir, "sa.key")
	writeKey(t, s.key)
	s.nodeToken = rand.Text()
	write(t, s.tokens(), s.Token+`,admin,,"system:masters,system:authenticated"`+"\n"+
		s.nodeToken+`,`+user.NodePrefix+Node+`,,"system:nodes,system:authenticated"`+"\n")
	s.Kubeconfig = filepath.Join(s.dir, "kubeconfig")
	WriteKubeconfig(t, s.Kubeconfig, kubeconfig.Cluster{Server: s.URL, InsecureSkipTLSVerify: true}, s.Token)
	s.startEtcd()
	s.Start(more...)
	return s
}

func (s *Server) tokens() string { return filepath.Join(s.dir, "tokens.csv") }

func (s *Server) startEtcd() {
	s.t.Helper()
	s.Etcd = "http://127.0.0.1:" + FreePort(s.t)
	peer := "http://127.0.0.1:" + FreePort(s.t)
	s.etcd = launch(s.t, s.dir, filepath.Join(s.bin, "etcd"),
		"--data-dir", filepath.Join(s.dir, "etcd"), "--log-level", "error", "--unsafe-no-fsync",
		"--listen-client-urls", s.Etcd, "--advertise-client-urls", s.Etcd, "--listen-peer-urls", peer,
		"--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
}

// Start starts kube-apiserver, which must not be running, and waits until it is
// ready.
func (s *Server) Start(more ...string) {
	s.t.Helper()
	arguments := []string{
		"--etcd-servers", s.Etcd, "--bind-address", "127.0.0.1", "--secure-port", s.port,
		"--cert-dir", filepath.Join(s.dir, "certs"), "--token-auth-file", s.tokens(), "--authorization-mode", "RBAC",
		"--service-cluster-ip-range", "10.0.0.0/24", "--service-account-issuer", "https://stock",
		"--service-account-key-file", s.key, "--service-account-signing-key-file", s.key,
	}
	s.process = launch(s.t, s.dir, filepath.Join(s.bin, "kube-apiserver"), append(arguments, more...)...)
	await(s.t, s.process, func(ctx context.Context) bool {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/readyz", nil)
		if err != nil {
			s.t.Fatal(err)
		}
		answer, err := s.web.Do(request)
		if err != nil {
			return false // not listening yet
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
}

// Stop kills kube-apiserver; its etcd keeps running.
func (s *Server) Stop() { s.process.kill() }

// NodeKubeconfig writes a kubeconfig of [Node] and returns its path.
func (s *Server) NodeKubeconfig() string {
	s.t.Helper()
	path := filepath.Join(s.dir, "node.kubeconfig")
	WriteKubeconfig(s.t, path, kubeconfig.Cluster{Server: s.URL, InsecureSkipTLSVerify: true}, s.nodeToken)
	return path
}

// WriteKubeconfig writes a kubeconfig with a bearer token.
func WriteKubeconfig(t testing.TB, path string, cluster kubeconfig.Cluster, token string) {
	t.Helper()
	err := (&kubeconfig.Config{
		CurrentContext: "test",
		Clusters:       map[string]kubeconfig.Cluster{"test": cluster},
		Users:          map[string]kubeconfig.User{"test": {Token: token}},
		Contexts:       map[string]kubeconfig.Context{"test": {Cluster: "test", User: "test"}},
	}).Write(path)
	if err != nil {
		t.Fatal(err)
	}
}

// await waits until done reports true. This may take minutes on a busy machine.
func await(t testing.TB, p *process, so func(context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !so(ctx) {
		select {
		case <-tick.C:
		case <-p.done:
			t.Fatalf("%s ended:\n%s", p.cmd.Path, p.tail())
		case <-ctx.Done():
			t.Fatalf("%s is not ready:\n%s", p.cmd.Path, p.tail())
		}
	}
}

// given holds the ports that FreePort has returned.
var given sync.Map

// FreePort returns a loopback port without a listener. It is outside the range from which the
// kernel chooses ports for connections, many of which are opened before a program listens, or while
// it is restarted.
func FreePort(t testing.TB) string {
	t.Helper()
	const lowest, ports = 20_000, 12_000
	for {
		port := strconv.Itoa(lowest + mathrand.IntN(ports))
		if _, taken := given.LoadOrStore(port, true); taken {
			continue
		}
		if listener, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			_ = listener.Close()
			return port
		}
	}
}

// writeKey creates a key that signs tokens of service accounts.
func writeKey(t testing.TB, path string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})))
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Compact makes etcd forget revisions before a resourceVersion. kube-apiserver forgets them when it
// is restarted, because it has a cache.
func (s *Server) Compact(ctx context.Context, version string) {
	s.t.Helper()
	body := strings.NewReader(`{"revision": "` + version + `", "physical": true}`)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Etcd+"/v3/kv/compaction", body)
	if err != nil {
		s.t.Fatal(err)
	}
	answer, err := s.web.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		s.t.Fatalf("compact etcd: %s", answer.Status)
	}
}
