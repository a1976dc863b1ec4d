package standalone

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/pki"
	corev1 "k8s.io/api/core/v1"
)

const header = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

// TestConfiguration runs a kubelet on a configuration file: its pods come from the folder in the file, its
// server has the certificate of the file, believes clients of the file's authority, and follows both.
func TestConfiguration(t *testing.T) {
	root, err := os.MkdirTemp("", "kl") // a socket has a short path
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(root)
	dir := t.TempDir()
	write := func(name string, data []byte) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file+".new", data, 0o600), os.Rename(file+".new", file)); err != nil {
			t.Fatal(err)
		}
	}
	authority, err := pki.New()
	if err != nil {
		t.Fatal(err)
	}
	rotate := func() string {
		t.Helper()
		pair, err := authority.Kubelet("standalone", "127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		write("tls.key", pair.KeyPEM)
		write("tls.crt", pair.CertificatePEM)
		return pair.Certificate.SerialNumber.String()
	}
	first := rotate()
	write("ca.crt", authority.CertificatePEM)
	write("manifests/web.yaml", []byte(strings.Replace(pod, "NAME", "web", 1)))
	write("kubelet.yaml", []byte(header+`
staticPodPath: manifests
fileCheckFrequency: 10ms
tlsMinVersion: VersionTLS13
tlsCertFile: tls.crt
tlsPrivateKeyFile: tls.key
authentication: {x509: {clientCAFile: ca.crt}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
enableDebuggingHandlers: false
`))
	address := make(chan string, 1)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, Config{Root: root, ConfigFile: filepath.Join(dir, "kubelet.yaml"), Listen: func(network, wanted string) (net.Listener, error) {
			if wanted != "0.0.0.0:10250" {
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

	client, err := authority.Client("admin", "jane")
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string, certificates ...tls.Certificate) (*http.Response, error) {
		transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: authority.Pool(), Certificates: certificates}}
		return (&http.Client{Transport: transport}).Get("https://" + at + path)
	}
	ask := func(certificates ...tls.Certificate) (*http.Response, error) { return get("/pods", certificates...) }
	answer, err := ask(client.TLS())
	if err != nil {
		t.Fatal(err)
	}
	var list corev1.PodList
	if err := json.NewDecoder(answer.Body).Decode(&list); err != nil || len(list.Items) != 1 || answer.TLS.Version != tls.VersionTLS13 {
		t.Errorf("%d pods (%v), TLS %x", len(list.Items), err, answer.TLS.Version)
	}
	answer.Body.Close()
	if got := answer.TLS.PeerCertificates[0].SerialNumber.String(); got != first {
		t.Errorf("the server has the certificate %s", got)
	}
	if answer, err = get("/containerLogs/default/web-standalone/main", client.TLS()); err != nil || answer.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("logs without enableDebuggingHandlers: %v, %v", answer, err)
	} else {
		answer.Body.Close()
	}
	if answer, err = ask(); err != nil || answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a certificate: %v", err)
	} else {
		answer.Body.Close()
	}
	want := rotate()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		answer, err := ask(client.TLS())
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.TLS.PeerCertificates[0].SerialNumber.String() == want {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the new certificate is not used")
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestConfigurationRefused(t *testing.T) {
	for fields, want := range map[string]string{
		"tlsCertFile: a":                       "tlsCertFile and tlsPrivateKeyFile go together",
		"tlsCertFile: a\ntlsPrivateKeyFile: b": "authentication.webhook.enabled must be false",
		"tlsCertFile: a\ntlsPrivateKeyFile: b\nauthentication: {webhook: {enabled: false}}":                                                                                   "authorization.mode must be AlwaysAllow",
		"tlsCertFile: a\ntlsPrivateKeyFile: b\nauthentication: {webhook: {enabled: false}}\nauthorization: {mode: AlwaysAllow}":                                               "nobody could use the server",
		"tlsCertFile: a\ntlsPrivateKeyFile: b\nauthentication: {webhook: {enabled: false}, anonymous: {enabled: true}}\nauthorization: {mode: AlwaysAllow}\nstaticPodPath: x": "a: no such file",
		"maxPod: 1":       `unknown field "maxPod"`,
		"staticPodURL: x": "URL is not an HTTP address",
	} {
		root, err := os.MkdirTemp("", "kl")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(root)
		file := filepath.Join(t.TempDir(), "kubelet.yaml")
		if err := os.WriteFile(file, []byte(header+fields), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := run(t.Context(), Config{Root: root, ConfigFile: file}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", fields, err, want)
		}
	}
	if err := run(t.Context(), Config{Root: t.TempDir(), ConfigFile: "missing"}); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Error(err)
	}
}

// TestWarnings: without a certificate there is no server, and what the file says about it is named.
func TestWarnings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubelet.yaml")
	for fields, want := range map[string]int{
		"staticPodPath: x": 0, "address: 127.0.0.1\nport: 1": 2, "authorization: {mode: AlwaysAllow}": 1, "tlsMinVersion: VersionTLS13": 1,
		"tlsCertFile: a\ntlsPrivateKeyFile: b\naddress: 127.0.0.1\ntlsMinVersion: VersionTLS13": 0,
		"enableDebuggingHandlers: false": 1, "tlsCertFile: a\ntlsPrivateKeyFile: b\nenableDebuggingHandlers: false": 0,
		"tlsCertFile: a\ntlsPrivateKeyFile: b\nenableServer: false\nreadOnlyPort: 10255\nmaxOpenFiles: 1000": 0, "healthzPort: 1": 1,
	} {
		if err := os.WriteFile(file, []byte(header+fields), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := readSettings(file)
		if got := c.warnings(); err != nil || len(got) != want {
			t.Errorf("the warnings about %q are %s (%v), want %d", fields, fmt.Sprint(got), err, want)
		}
	}
}
