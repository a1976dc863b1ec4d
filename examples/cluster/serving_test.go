package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr/testr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/pki"
)

// corporate makes an authority that is not the cluster's, with a certificate name.crt for hosts, and returns
// the folder of both.
func corporate(t *testing.T, name string, hosts ...string) string {
	t.Helper()
	dir := t.TempDir()
	authority, err := pki.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := authority.Serving(name, hosts...); err != nil {
		t.Fatal(err)
	}
	return dir
}

// pairFlag returns the two files of a certificate as --tls-sni-cert-key has them.
func pairFlag(dir, name string) string {
	return filepath.Join(dir, name+".crt") + "," + filepath.Join(dir, name+".key")
}

// TestServingCertificates: servers of both roles serve the certificates of flags to clients outside, that of the
// cluster's authority to clients inside, and write a kubeconfig that trusts both. Nodes join as before.
func TestServingCertificates(t *testing.T) {
	main := corporate(t, "main", "api.example.com", "127.0.0.1", "kubernetes.default.svc")
	named := corporate(t, "named", "unused.example.com")
	flags := []string{
		"--storage", "memory", "--tls-cert-file", filepath.Join(main, "main.crt"), "--tls-private-key-file", filepath.Join(main, "main.key"),
		"--tls-sni-cert-key", pairFlag(named, "named") + ":*.named.example.com", "--tls-san", "LB.example.com,192.0.2.9",
	}
	for role, loopback := range map[string]string{roleAll: main, roleServer: ""} { // the authority at 127.0.0.1; empty for the cluster's
		t.Run(role, func(t *testing.T) {
			dir := t.TempDir()
			var r *running
			if role == roleServer {
				r = startServer(t, dir, flags...)
			} else {
				r = start(t, dir, append(flags, "--nodes", "1")...)
			}
			api := r.client(t)
			if _, _, err := typed.Pods(api).List(t.Context(), "", metav1.ListOptions{}); err != nil {
				t.Errorf("the administrator's kubeconfig: %v", err)
			}
			config, err := kubeconfig.Load(r.config)
			if err != nil {
				t.Fatal(err)
			}
			cluster := config.Clusters[config.Contexts[config.CurrentContext].Cluster]
			bundle := x509.NewCertPool()
			bundle.AppendCertsFromPEM(cluster.CertificateAuthorityData)
			own := filepath.Join(dir, "pki")
			for name, authority := range map[string]string{
				"api.example.com": main, "elsewhere.example.com": main, "a.named.example.com": named,
				"kubernetes.default.svc": own, "lb.example.com": own, "localhost": own, "": loopback,
			} {
				if authority == "" {
					authority = own
				}
				pem, err := os.ReadFile(filepath.Join(authority, "ca.crt"))
				if err != nil {
					t.Fatal(err)
				}
				roots := x509.NewCertPool()
				roots.AppendCertsFromPEM(pem)
				// A client verifies the chain here; the name of some is not in the certificate.
				var leaf *x509.Certificate
				c, err := tls.Dial("tcp", strings.TrimPrefix(cluster.Server, "https://"), &tls.Config{ServerName: name, InsecureSkipVerify: true, VerifyConnection: func(s tls.ConnectionState) error {
					leaf = s.PeerCertificates[0]
					_, err1 := leaf.Verify(x509.VerifyOptions{Roots: roots})
					_, err2 := leaf.Verify(x509.VerifyOptions{Roots: bundle})
					return errors.Join(err1, err2)
				}})
				if err != nil {
					t.Errorf("the name %q: %v, want a certificate of %s", name, err, authority)
					continue
				}
				c.Close()
				if authority == own && (!slices.Contains(leaf.DNSNames, "lb.example.com") || leaf.VerifyHostname("192.0.2.9") != nil) {
					t.Errorf("the server's own certificate has the names %q and %v, want those of --tls-san too", leaf.DNSNames, leaf.IPAddresses)
				}
			}
			pem, err := os.ReadFile(filepath.Join(own, "ca.crt"))
			if err != nil {
				t.Fatal(err)
			}
			published, err := typed.ConfigMaps(api).Get(t.Context(), "default", "kube-root-ca.crt")
			if err != nil || published.Data["ca.crt"] != string(pem) {
				t.Errorf("kube-root-ca.crt: %q, %v, want the cluster's authority alone", published.Data, err)
			}
			if role == roleServer {
				startFakeNode(t, "joined", strings.Fields(r.invitation(t))[3:]...)
				awaited(t, "the node", func(ctx context.Context) string {
					_, err := typed.Nodes(api).Get(ctx, "", "joined")
					return text(err)
				})
			}
		})
	}
}

// TestServingErrors: wrong files and flags are reported by their names, before the cluster keeps anything.
func TestServingErrors(t *testing.T) {
	dir := corporate(t, "tls", "kubernetes.default.svc")
	for _, test := range []struct{ arguments, want string }{
		{"--tls-cert-file c", "--tls-cert-file and --tls-private-key-file go together"},
		{"--tls-sni-cert-key c", `invalid argument "c" for "--tls-sni-cert-key" flag`},
		{"--tls-san a/b", `--tls-san: "a/b" is neither a domain name nor an IP address`},
		{"--tls-cert-file /none.crt --tls-private-key-file /none.key", "--tls-cert-file, --tls-private-key-file: open /none.crt: no such file or directory"},
		{"--tls-sni-cert-key " + dir + "/tls.crt," + dir + "/ca.key", "--tls-sni-cert-key: " + dir + "/tls.crt and " + dir + "/ca.key: "},
		{"--tls-sni-cert-key " + pairFlag(dir, "tls") + ":kubernetes", "the pattern kubernetes: clients inside the cluster"},
		{"--role node --kubeconfig f --tls-sni-cert-key c,k", "--role node does not use --tls-sni-cert-key"},
	} {
		o, err := parse(append([]string{"--data-dir", t.TempDir(), "--listen", "127.0.0.1:0", "--runtime", "fake", "--storage", "memory"}, strings.Fields(test.arguments)...)...)
		if strings.Contains(test.arguments, "--role node") {
			o, err = parse(strings.Fields(test.arguments)...)
		}
		if err == nil {
			err = run(t.Context(), o, io.Discard, testr.New(t))
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.arguments, err, test.want)
		}
	}
}
