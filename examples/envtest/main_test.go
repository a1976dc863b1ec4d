package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/pki"
	"github.com/planekit/planekit/plane/customresources"
	"github.com/planekit/planekit/plane/nodes"
	"go.uber.org/goleak"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// freePort returns a port that was free a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	return port
}

// run runs a program until the test ends, and returns what it writes to standard error.
func run(t *testing.T, name string, arguments ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- command(ctx, name, arguments, io.Discard, io.Discard) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("command(%s, %q) = %v, want nil", name, arguments, err)
		}
	})
}

// environment has the files that envtest makes.
type environment struct {
	dir, port string
	clients   *pki.Authority
	config    client.Config
}

func newEnvironment(t *testing.T) *environment {
	t.Helper()
	e := &environment{dir: t.TempDir(), port: freePort(t)}
	authority, err := pki.New()
	if err != nil {
		t.Fatal(err)
	}
	serving, err := authority.Serving("apiserver", "localhost", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	if e.clients, err = pki.New(); err != nil {
		t.Fatal(err)
	}
	key, err := pki.New()
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"apiserver.crt": serving.CertificatePEM, "apiserver.key": serving.KeyPEM, "sa-signer.crt": key.CertificatePEM,
		"sa-signer.key": key.KeyPEM, "client-cert-auth-ca.crt": e.clients.CertificatePEM,
	} {
		if err := os.WriteFile(filepath.Join(e.dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	admin, err := e.clients.Client("admin", "admin", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	e.config = client.Config{Server: "https://127.0.0.1:" + e.port, TLS: &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: authority.Pool(), Certificates: []tls.Certificate{admin.TLS()},
	}}
	return e
}

// arguments are the flags that envtest passes, and more.
func (e *environment) arguments(more ...string) []string {
	file := func(name string) string { return filepath.Join(e.dir, name) }
	return append([]string{
		"--allow-privileged=true", "--authorization-mode=RBAC", "--bind-address=127.0.0.1", "--cert-dir=" + e.dir,
		"--client-ca-file=" + file("client-cert-auth-ca.crt"), "--disable-admission-plugins=ServiceAccount",
		"--etcd-servers=http://127.0.0.1:1", "--secure-port=" + e.port, "--service-account-issuer=https://127.0.0.1:" + e.port + "/",
		"--service-account-key-file=" + file("sa-signer.crt"), "--service-account-signing-key-file=" + file("sa-signer.key"),
		"--service-cluster-ip-range=10.0.0.0/24",
	}, more...)
}

// awaitHealth polls as envtest does.
func awaitHealth(t *testing.T, url string) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // as envtest does
	defer transport.CloseIdleConnections()
	for end := time.Now().Add(time.Minute); ; {
		answer, err := (&http.Client{Transport: transport}).Get(url)
		if err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return
			}
			t.Fatalf("Get(%s) = %s, want 200 OK", url, answer.Status)
		}
		if time.Now().After(end) {
			t.Fatalf("Get(%s) = %v after a minute, want 200 OK", url, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
`

// TestServer starts the server with the flags that envtest passes, and others of its users. The first answer is
// that of a whole server, without what controllers make.
func TestServer(t *testing.T) {
	e := newEnvironment(t)
	run(t, "kube-apiserver", e.arguments("--feature-gates=A=true", "--runtime-config=api/all=true", "--advertise-address=127.0.0.1", "--v=4")...)
	awaitHealth(t, e.config.Server+"/healthz")
	api, err := client.New(e.config)
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	definitions, err := customresources.Parse([]byte(definition))
	if err != nil {
		t.Fatal(err)
	}
	if err := customresources.Install(t.Context(), api, definitions...); err != nil {
		t.Error(err)
	}
	accounts, _, err := typed.ServiceAccounts(api).List(t.Context(), "default", metav1.ListOptions{})
	if err != nil || len(accounts) > 0 {
		t.Errorf("%d accounts: %v", len(accounts), err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	if _, err := typed.Pods(api).Create(t.Context(), pod); err != nil {
		t.Error(err)
	}
	e.checkToken(t, api)
}

// checkToken checks that the server believes the tokens that it issues.
func (e *environment) checkToken(t *testing.T, api *client.Client) {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot", Namespace: "default"}}
	if _, err := typed.ServiceAccounts(api).Create(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	token, err := nodes.RequestTokens(api)(t.Context(), "default", "robot", &authenticationv1.TokenRequest{})
	if err != nil {
		t.Fatal(err)
	}
	config := e.config
	config.TLS = config.TLS.Clone()
	config.TLS.Certificates = nil
	config.BearerToken = token.Status.Token
	robot, err := client.New(config)
	if err != nil {
		t.Fatal(err)
	}
	defer robot.Close()
	_, err = typed.Pods(robot).Get(t.Context(), "default", "p")
	if err == nil || !strings.Contains(err.Error(), `User "system:serviceaccount:default:robot" cannot get`) {
		t.Error(err)
	}
}

// TestEtcd starts etcd with the flags that envtest passes.
func TestEtcd(t *testing.T) {
	url := "http://127.0.0.1:" + freePort(t)
	run(t, "etcd", "--listen-peer-urls=http://127.0.0.1:0", "--data-dir="+t.TempDir(), "--advertise-client-urls="+url, "--listen-client-urls="+url, "--unsafe-no-fsync=true")
	awaitHealth(t, url+"/health")
	answer, err := http.Post(url+"/v3/kv/range", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusNotImplemented {
		t.Error(answer.Status)
	}
}

// TestHelp: envtest reads the help to learn which flags there are.
func TestHelp(t *testing.T) {
	for name, want := range map[string]string{"etcd": "\n      --unsafe-no-fsync ", "kube-apiserver": "\n      --secure-port "} {
		var out bytes.Buffer
		err := command(t.Context(), name, []string{"--help"}, &out, io.Discard)
		if err == nil || !strings.Contains(out.String(), want) || strings.Contains(out.String(), "insecure-port") || strings.Contains(out.String(), "--controllers") {
			t.Errorf("command(%s, --help) = %v with the output %s, want an error and %q in the output, not insecure-port or --controllers",
				name, err, out.String(), want)
		}
	}
}

func TestRefused(t *testing.T) {
	e := newEnvironment(t)
	other := newEnvironment(t)
	for _, test := range []struct{ name, argument, want string }{
		{"kube-apiserver", "--no-such-flag=1", "unknown flag: --no-such-flag"},
		{"kube-apiserver", "--controllers=*", "unknown flag: --controllers"},
		{"kube-apiserver", "--allow-privileged=false", "--allow-privileged=false is not supported"},
		{"kube-apiserver", "--bind-address=localhost", `--bind-address must be an IP address, not "localhost"`},
		{"kube-apiserver", "--secure-port=70000", "--secure-port must be between 0 and 65535, not 70000"},
		{"kube-apiserver", "--tls-cert-file=x", "--tls-cert-file and --tls-private-key-file go together"},
		{"kube-apiserver", "--client-ca-file=/none", "--client-ca-file"},
		{"kube-apiserver", "--service-account-signing-key-file=/none", "--service-account-signing-key-file: open /none"},
		{"kube-apiserver", "--service-account-signing-key-file=" + other.dir + "/sa-signer.key", "--service-account-key-file must have the public key of --service-account-signing-key-file"},
		{"kube-apiserver", "more", `unexpected argument "more"`},
		{"etcd", "--no-such-flag=1", "unknown flag: --no-such-flag"},
		{"etcd", "--listen-client-urls=unix://x", `--listen-client-urls: "unix://x" is no URL of http`},
		{"envtest", "run", "usage: envtest install DIR"},
	} {
		arguments := []string{test.argument}
		if test.name == "kube-apiserver" {
			arguments = e.arguments(test.argument)
		}
		if err := command(t.Context(), test.name, arguments, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s %s: %v, want %s", test.name, test.argument, err, test.want)
		}
	}
}

// TestAlwaysAllow: as in kube-apiserver, the mode needs no --anonymous-auth=false.
func TestAlwaysAllow(t *testing.T) {
	e := newEnvironment(t)
	run(t, "kube-apiserver", e.arguments("--authorization-mode=AlwaysAllow", "--token-auth-file="+e.file(t, "tokens", "secret,jane,1"))...)
	e.config.TLS.Certificates, e.config.BearerToken = nil, "secret"
	e.awaitListener(t)
	api, err := client.New(e.config)
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	if _, err := typed.Namespaces(api).Get(t.Context(), "", "default"); err != nil {
		t.Error(err)
	}
}

// awaitListener waits until the server listens; what it answers comes once it is complete.
func (e *environment) awaitListener(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", "127.0.0.1:"+e.port)
		if err == nil {
			conn.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatalf("Dial(127.0.0.1:%s) = %v after a minute, want a connection", e.port, err)
		}
	}
}

func (e *environment) file(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(e.dir, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestInstall copies the program under both names, twice.
func TestInstall(t *testing.T) {
	program := filepath.Join(t.TempDir(), "envtest")
	dir := filepath.Join(t.TempDir(), "assets")
	for i := range 2 {
		if err := os.WriteFile(program, []byte(fmt.Sprint(i)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := install(program, dir); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			file := filepath.Join(dir, name)
			data, err := os.ReadFile(file)
			info, statErr := os.Stat(file)
			if err != nil || statErr != nil || string(data) != fmt.Sprint(i) || info.Mode().Perm() != 0o755 {
				t.Errorf("install %d: ReadFile(%s) = %q, %v and Stat = %v, %v, want %q of mode 0755",
					i, file, data, err, info, statErr, fmt.Sprint(i))
			}
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != len(names) {
		t.Errorf("ReadDir(%s) = %v, %v, want %d entries", dir, entries, err, len(names))
	}
}
