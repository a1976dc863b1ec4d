package main

import (
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/client/typed"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestServingCertificates: the administrator's kubeconfig verifies the certificates of flags and the server's
// own, by the names that each has. Wrong files are errors with the flag's name.
func TestServingCertificates(t *testing.T) {
	// The first server makes a certificate of an authority that is not the second one's.
	other := t.TempDir()
	start(t, "--data-dir", other, "--storage", "memory", "--tls-san", "api.example.com", "--tls-san", "sni.example.com")()
	cert, key := filepath.Join(other, "pki", "apiserver.crt"), filepath.Join(other, "pki", "apiserver.key")
	dir := t.TempDir()
	defer start(t, "--data-dir", dir, "--storage", "memory", "--tls-cert-file", cert, "--tls-private-key-file", key,
		"--tls-sni-cert-key", cert+","+key+":*.named.example.com", "--tls-san", "lb.example.com")()
	config, err := kubeconfig.Load(filepath.Join(dir, "admin.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "127.0.0.1", "localhost", "api.example.com", "lb.example.com", "kubernetes.default.svc"} {
		c, _, err := config.Client("")
		if err != nil {
			t.Fatal(err)
		}
		if name != "" {
			c.TLS = c.TLS.Clone()
			c.TLS.ServerName = name
		}
		api, err := client.New(c)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := typed.Pods(api).List(t.Context(), "", metav1.ListOptions{}); err != nil {
			t.Errorf("the server as %q: %v", name, err)
		}
		api.Close()
	}
	for arguments, want := range map[string]string{
		"--tls-cert-file " + cert: "--tls-cert-file and --tls-private-key-file go together",
		"--tls-cert-file " + cert + " --tls-private-key-file " + filepath.Join(dir, "pki", "ca.key"): "--tls-cert-file, --tls-private-key-file: " + cert + " and " + dir,
		"--tls-sni-cert-key " + cert:                             "certfile,keyfile",
		"--tls-sni-cert-key " + cert + "," + key + ":kubernetes": "--tls-sni-cert-key: " + cert + ": the pattern kubernetes",
		"--tls-san a/b": `"a/b" is neither a domain name nor an IP address`,
	} {
		err := command(t.Context(), append([]string{"--data-dir", t.TempDir(), "--listen", "127.0.0.1:0", "--storage", "memory"}, strings.Fields(arguments)...), io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", arguments, err, want)
		}
	}
}
