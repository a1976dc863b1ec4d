package main

import (
	"bytes"
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/planekit/planekit/pki"
	"github.com/planekit/planekit/pki/clusterinfo"
	"github.com/planekit/planekit/plane/planetest"
)

// TestTokenOfTheClustersAuthority: nodes are invited to trust the cluster's authority, and none that the
// kubeconfig trusts besides.
func TestTokenOfTheClustersAuthority(t *testing.T) {
	p := planetest.Start(t)
	other, err := pki.New()
	if err != nil {
		t.Fatal(err)
	}
	config := p.Kubeconfig()
	for name, cluster := range config.Clusters {
		cluster.CertificateAuthorityData = slices.Concat(cluster.CertificateAuthorityData, other.CertificatePEM)
		config.Clusters[name] = cluster
	}
	file := filepath.Join(t.TempDir(), "config")
	if err := config.Write(file); err != nil {
		t.Fatal(err)
	}
	var out, wrong bytes.Buffer
	code := execute(context.Background(), []string{"--kubeconfig=" + file, "token", "create", "abcdef.0123456789abcdef", "--print-join-command"},
		environment{Out: &out, Err: &wrong, Getenv: func(string) string { return "" }})
	want := "--join " + p.URL() + " --token abcdef.0123456789abcdef --discovery-token-ca-cert-hash " + clusterinfo.PublicKeyHash(p.Credentials.Authority.Certificate) + "\n"
	if code != 0 || out.String() != want {
		t.Errorf("planectl token create: %d, %q, %q, want %q", code, &out, &wrong, want)
	}
}
