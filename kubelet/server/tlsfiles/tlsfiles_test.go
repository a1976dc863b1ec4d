package tlsfiles_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/planekit/planekit/authn/x509"
	"github.com/planekit/planekit/kubelet/server"
	"github.com/planekit/planekit/kubelet/server/tlsfiles"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/pki"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node has the files of a server, and their authority.
type node struct {
	t         *testing.T
	authority *pki.Authority
	config    tlsfiles.Config
}

func newNode(t *testing.T) *node {
	t.Helper()
	dir := t.TempDir()
	n := &node{t: t, authority: newAuthority(t), config: tlsfiles.Config{
		CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key"), ClientCAFile: filepath.Join(dir, "ca.crt"),
	}}
	n.rotate()
	n.write(n.config.ClientCAFile, n.authority.CertificatePEM)
	return n
}

func newAuthority(t *testing.T) *pki.Authority {
	t.Helper()
	authority, err := pki.New()
	if err != nil {
		t.Fatal(err)
	}
	return authority
}

func (n *node) write(path string, data []byte) {
	n.t.Helper()
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		n.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) sign() *pki.Pair {
	n.t.Helper()
	pair, err := n.authority.Kubelet("n", "127.0.0.1")
	if err != nil {
		n.t.Fatal(err)
	}
	return pair
}

// rotate replaces the key first, so that it does not match the certificate for a moment.
func (n *node) rotate() string {
	pair := n.sign()
	n.write(n.config.KeyFile, pair.KeyPEM)
	n.write(n.config.CertFile, pair.CertificatePEM)
	return pair.Certificate.SerialNumber.String()
}

// serve runs a kubelet's server on the files. It returns its address.
func (n *node) serve(files *tlsfiles.Files) string {
	n.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		n.t.Fatal(err)
	}
	clients, err := x509.New(x509.Config{CurrentRoots: files.Authorities})
	if err != nil {
		n.t.Fatal(err)
	}
	s, err := server.New(server.Config{
		Listener: listener, TLS: files.TLS(), LogRoot: n.t.TempDir(),
		Authenticate: func(r *http.Request) (string, []string, error) {
			u, known, err := clients.Authenticate(r)
			if err != nil || !known {
				return "", nil, err
			}
			return u.Name, u.Groups, nil
		},
		Authorize: func(context.Context, string, []string, string, string) (bool, error) { return true, nil },
		Pods:      localcache.NewMap[*corev1.Pod](), Runtime: struct{ server.Runtime }{},
	})
	if err != nil {
		n.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx); err != nil {
			n.t.Error(err)
		}
	})
	running.Go(func() {
		if err := files.Run(ctx); err != nil {
			n.t.Error(err)
		}
	})
	n.t.Cleanup(func() {
		stop()
		running.Wait()
	})
	return listener.Addr().String()
}

// client returns a client with a certificate of an authority.
func (n *node) client(authority *pki.Authority, change func(*http.Transport)) *http.Client {
	n.t.Helper()
	pair, err := authority.Client("api", "system:kube-apiserver")
	if err != nil {
		n.t.Fatal(err)
	}
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: n.authority.Pool(), Certificates: []tls.Certificate{pair.TLS()}}}
	if change != nil {
		change(transport)
	}
	n.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// get returns the status, and the serial number of the server's certificate.
func get(t *testing.T, c *http.Client, address string) (int, string) {
	t.Helper()
	answer, err := c.Get("https://" + address + "/pods")
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		t.Error(err)
	}
	return answer.StatusCode, answer.TLS.PeerCertificates[0].SerialNumber.String()
}

// TestRotates replaces the serving certificate of a kubelet's server while requests run. None of them
// fails, and new connections see the new certificate.
func TestRotates(t *testing.T) {
	n := newNode(t)
	n.config.Every = time.Millisecond
	files, err := tlsfiles.New(n.config)
	if err != nil {
		t.Fatal(err)
	}
	address := n.serve(files)
	fresh := n.client(n.authority, func(t *http.Transport) { t.DisableKeepAlives = true })
	kept := n.client(n.authority, nil)
	_, first := get(t, kept, address)
	if answer, err := kept.Get("https://" + address + "/healthz"); err != nil || answer.ProtoMajor != 2 || answer.Body.Close() != nil {
		t.Errorf("not HTTP/2: %v", err)
	}

	var stop atomic.Bool
	var clients sync.WaitGroup
	for _, c := range []*http.Client{fresh, fresh, kept} {
		clients.Go(func() {
			for !stop.Load() && !t.Failed() {
				if code, _ := get(t, c, address); code != http.StatusOK {
					t.Errorf("status %d", code)
				}
			}
		})
	}
	for range 5 {
		want := n.rotate()
		for !t.Failed() {
			if _, got := get(t, fresh, address); got == want {
				break
			}
		}
	}
	stop.Store(true)
	clients.Wait()
	if _, got := get(t, kept, address); got != first {
		t.Error("the open connection was closed")
	}
	if got := files.Certificate().Leaf.SerialNumber.String(); got == first {
		t.Error("the current certificate is the first one")
	}
}

// TestSettings checks the further settings on real connections. HTTP/2 cannot be spoken with these.
func TestSettings(t *testing.T) {
	n := newNode(t)
	n.config.TLS = &tls.Config{CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384}}
	files, err := tlsfiles.New(n.config)
	if err != nil {
		t.Fatal(err)
	}
	address := n.serve(files)
	dial := func(change func(*tls.Config)) (tls.ConnectionState, error) {
		config := &tls.Config{RootCAs: n.authority.Pool(), NextProtos: []string{"h2", "http/1.1"}}
		change(config)
		conn, err := tls.Dial("tcp", address, config)
		if err != nil {
			return tls.ConnectionState{}, err
		}
		defer conn.Close()
		return conn.ConnectionState(), nil
	}
	state, err := dial(func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 })
	if err != nil || state.CipherSuite != tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 || state.NegotiatedProtocol != "http/1.1" {
		t.Errorf("dial with TLS 1.2 = %s, %s, %v, want TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, http/1.1",
			tls.CipherSuiteName(state.CipherSuite), state.NegotiatedProtocol, err)
	}
	_, err = dial(func(c *tls.Config) {
		c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}
	})
	if err == nil {
		t.Error("another cipher suite is accepted")
	}
	if _, err := dial(func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }); err == nil {
		t.Error("TLS 1.1 is accepted")
	}
}

// TestAuthorities: a removed authority ends access, on open connections too, and an added one gives it.
func TestAuthorities(t *testing.T) {
	n := newNode(t)
	files, err := tlsfiles.New(n.config)
	if err != nil {
		t.Fatal(err)
	}
	address := n.serve(files)
	other := newAuthority(t)
	ours, theirs := n.client(n.authority, nil), n.client(other, func(t *http.Transport) { t.DisableKeepAlives = true })
	check := func(when string, us, them int) {
		t.Helper()
		if code, _ := get(t, ours, address); code != us {
			t.Errorf("%s: status %d for a client of the first authority, want %d", when, code, us)
		}
		if code, _ := get(t, theirs, address); code != them {
			t.Errorf("%s: status %d for a client of the other authority, want %d", when, code, them)
		}
	}
	check("at first", http.StatusOK, http.StatusUnauthorized)
	n.write(n.config.ClientCAFile, append(append([]byte{}, n.authority.CertificatePEM...), other.CertificatePEM...))
	if err := files.Reload(); err != nil {
		t.Error(err)
	}
	check("with both", http.StatusOK, http.StatusOK)
	n.write(n.config.ClientCAFile, other.CertificatePEM)
	if err := files.Reload(); err != nil {
		t.Error(err)
	}
	check("with the other", http.StatusUnauthorized, http.StatusOK)
	n.write(n.config.ClientCAFile, other.CertificatePEM[:100])
	if err := files.Reload(); err == nil {
		t.Error("half an authority is accepted")
	}
	check("with half a file", http.StatusUnauthorized, http.StatusOK)
}

// TestBadFiles: whatever is wrong with the files, the earlier ones stay, the error is logged once, and
// valid files are used again.
func TestBadFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		var mu sync.Mutex
		var lines []string
		n.config.Log = funcr.New(func(_, line string) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, line)
		}, funcr.Options{})
		take := func() []string {
			mu.Lock()
			defer mu.Unlock()
			taken := lines
			lines = nil
			return taken
		}
		files, err := tlsfiles.New(n.config)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- files.Run(ctx) }()
		other := n.sign()
		pipe := func(path string) {
			if err := errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		for _, test := range []struct {
			want string
			do   func()
		}{
			{"private key does not match public key", func() { n.write(n.config.KeyFile, other.KeyPEM) }},
			{"the last block is incomplete", func() {
				n.write(n.config.KeyFile, other.KeyPEM)
				n.write(n.config.CertFile, append(other.CertificatePEM, n.authority.CertificatePEM[:99]...))
			}},
			{"failed to find any PEM data", func() { n.write(n.config.CertFile, []byte("none")) }},
			{"no such file", func() { os.Remove(n.config.CertFile) }},
			{"no such file", func() { os.Remove(n.config.ClientCAFile) }},
			{"not a regular file", func() { pipe(n.config.KeyFile) }},
			{"no certificate in PEM form", func() { n.write(n.config.ClientCAFile, other.KeyPEM) }},
		} {
			serial := n.rotate()
			n.write(n.config.ClientCAFile, n.authority.CertificatePEM)
			time.Sleep(2 * tlsfiles.DefaultEvery)
			synctest.Wait()
			take()
			authorities := files.Authorities()
			test.do()
			time.Sleep(time.Minute)
			synctest.Wait()
			logged := take()
			if got := files.Certificate().Leaf.SerialNumber.String(); got != serial || files.Authorities() != authorities {
				t.Errorf("%s: the earlier files are not used any more", test.want)
			}
			if len(logged) != 1 || !strings.Contains(logged[0], test.want) || !strings.Contains(logged[0], `"error"=`) {
				t.Errorf("logged %q, want once %q", logged, test.want)
			}
			if strings.Contains(fmt.Sprint(logged), "PRIVATE KEY") {
				t.Errorf("%q quotes the key", logged)
			}
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	for want, change := range map[string]func(*tlsfiles.Config){
		"CertFile or KeyFile is missing": func(c *tlsfiles.Config) { c.KeyFile = "" },
		"is negative":                    func(c *tlsfiles.Config) { c.Every = -1 },
		"serving certificate":            func(c *tlsfiles.Config) { c.CertFile += ".none" },
		"client authorities":             func(c *tlsfiles.Config) { c.ClientCAFile += ".none" },
	} {
		n := newNode(t)
		change(&n.config)
		if _, err := tlsfiles.New(n.config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func Example() {
	authority, err := pki.Open(filepath.Join(os.TempDir(), "tlsfiles-example"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(filepath.Join(os.TempDir(), "tlsfiles-example"))
	dir := filepath.Join(os.TempDir(), "tlsfiles-example")
	if _, err := authority.Kubelet("node-1", "127.0.0.1"); err != nil {
		fmt.Println(err)
		return
	}
	files, err := tlsfiles.New(tlsfiles.Config{
		CertFile: filepath.Join(dir, "kubelet-node-1.crt"), KeyFile: filepath.Join(dir, "kubelet-node-1.key"),
		ClientCAFile: filepath.Join(dir, "ca.crt"), Log: logr.Discard(),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(files.Certificate().Leaf.Subject)
	// Output: CN=system:node:node-1,O=system:nodes
}
