package objectstore

import (
	"bytes"
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/planekit/planekit/pki"
)

// TestClientCertificateIsFollowed: a new connection to an external etcd shows the certificate in the files. Files that
// do not match leave the last one in use, and the log says so.
func TestClientCertificateIsFollowed(t *testing.T) {
	dir := t.TempDir()
	authority, err := pki.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	var pairs []*pki.Pair
	for _, name := range []string{"client", "next"} {
		pair, err := authority.Client(name, "planekit")
		if err != nil {
			t.Fatal(err)
		}
		pairs = append(pairs, pair)
	}
	certificate, key := filepath.Join(dir, "client.crt"), filepath.Join(dir, "client.key")
	o := parse(t, "--etcd-servers", "https://127.0.0.1:1", "--etcd-cafile", filepath.Join(dir, "ca.crt"), "--etcd-certfile", certificate, "--etcd-keyfile", key)
	var logged strings.Builder
	config, err := o.external.tls(funcr.New(func(_, text string) { logged.WriteString(text) }, funcr.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name string
		file string
		data []byte
		want *pki.Pair
		log  string
	}{
		{"the first", certificate, pairs[0].CertificatePEM, pairs[0], ""},
		{"half of the next", certificate, pairs[1].CertificatePEM, pairs[0], "private key does not match"},
		{"the next", key, pairs[1].KeyPEM, pairs[1], ""},
	} {
		if err := os.WriteFile(step.file, step.data, 0o600); err != nil {
			t.Fatal(err)
		}
		logged.Reset()
		shown, err := config.GetClientCertificate(&tls.CertificateRequestInfo{})
		if err != nil || !bytes.Equal(shown.Certificate[0], step.want.Certificate.Raw) {
			t.Errorf("%s: another certificate is shown than wanted, %v", step.name, err)
		}
		if said := logged.String(); (said != "") != (step.log != "") || !strings.Contains(said, step.log) {
			t.Errorf("%s: logged %q, want %q", step.name, said, step.log)
		}
	}
}
