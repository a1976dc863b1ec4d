package join

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/compat/stock"
	"github.com/planekit/planekit/pki"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/join"
	"github.com/planekit/planekit/plane/planetest"
)

// certificateControllers are the controllers of kube-controller-manager that nodes need to join.
var certificateControllers = []string{"csrapproving", "csrsigning", "csrcleaner", "bootstrapsigner", "tokencleaner"}

// writeAuthority writes the certificate and the key of an authority for a stock program.
func writeAuthority(t *testing.T, authority *pki.Authority) (certificate, key string) {
	t.Helper()
	dir := t.TempDir()
	certificate, key = filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key")
	if err := errors.Join(os.WriteFile(certificate, authority.CertificatePEM, 0o600), os.WriteFile(key, authority.KeyPEM, 0o600)); err != nil {
		t.Fatal(err)
	}
	return certificate, key
}

// joins has a node join by an invitation, register, and get its serving certificate, which approve, if it is
// not nil, approves.
func joins(t *testing.T, admin *client.Client, url string, authority []byte, approve func(*certificatesv1.CertificateSigningRequest)) {
	t.Helper()
	invitation, err := join.Invite(t.Context(), join.InviteConfig{Client: admin, Server: url, CA: authority})
	if err != nil {
		t.Fatal(err)
	}
	j, err := join.New(join.Config{
		Server: url, Token: invitation.Token, CAHashes: invitation.CAHashes, Node: "joined", Dir: t.TempDir(),
		Addresses: func() ([]netip.Addr, []string) { return []netip.Addr{netip.MustParseAddr("10.1.2.3")}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if err := j.Join(ctx); err != nil {
		t.Fatal(err)
	}
	node, err := kubeconfig.Connect(j.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	if _, err := typed.Nodes(node).Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "joined"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := typed.Nodes(node).Patch(ctx, "", "joined", "application/merge-patch+json",
		[]byte(`{"status":{"addresses":[{"type":"InternalIP","address":"10.1.2.3"}]}}`), "status"); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	running, stop := context.WithCancel(ctx)
	go func() { ended <- j.Run(running) }()
	defer func() { stop(); <-ended }()
	planetest.Eventually(t, func() error {
		if approve != nil {
			all, _, err := typed.CertificateSigningRequests(admin).List(ctx, "", metav1.ListOptions{FieldSelector: "spec.signerName=" + certificatesv1.KubeletServingSignerName})
			if err != nil {
				return err
			}
			for _, r := range all {
				approve(r)
			}
		}
		_, err := j.ServingCertificate(nil)
		return err
	})
}

// TestJoinStockServer has a node join a stock kube-apiserver, whose controllers approve and sign.
func TestJoinStockServer(t *testing.T) {
	bin, err := stock.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	authority, err := pki.New()
	if err != nil {
		t.Fatal(err)
	}
	serving, err := authority.Serving("apiserver", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	certificate, key := writeAuthority(t, authority)
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "tls.crt"), serving.CertificatePEM, 0o600), os.WriteFile(filepath.Join(dir, "tls.key"), serving.KeyPEM, 0o600)); err != nil {
		t.Fatal(err)
	}
	server := stock.NewServer(t, bin, "--tls-cert-file", filepath.Join(dir, "tls.crt"), "--tls-private-key-file", filepath.Join(dir, "tls.key"),
		"--client-ca-file", certificate, "--enable-bootstrap-token-auth", "--authorization-mode", "Node")
	stock.NewManager(t, bin, stock.ManagerConfig{Kubeconfig: server.Kubeconfig, Controllers: certificateControllers, CA: string(authority.CertificatePEM)},
		"--cluster-signing-cert-file", certificate, "--cluster-signing-key-file", key)
	admin, err := kubeconfig.Connect(server.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	joins(t, admin, server.URL, authority.CertificatePEM, func(r *certificatesv1.CertificateSigningRequest) {
		if len(r.Status.Conditions) > 0 {
			return
		}
		r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test"}}
		if _, err := typed.CertificateSigningRequests(admin).UpdateSubresource(t.Context(), r, "approval"); err != nil {
			t.Log(err)
		}
	})
}

// TestJoinStockManager has a node join our API server, where the stock kube-controller-manager approves
// and signs.
func TestJoinStockManager(t *testing.T) {
	bin, err := stock.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := planetest.Start(t, planetest.With(func(c *plane.Config) {
		c.BootstrapTokens = true
		c.Controllers.Choose = []string{"kubelet-serving-approving-controller"}
	}))
	certificate, key := writeAuthority(t, p.Credentials.Authority)
	stock.NewManager(t, bin, stock.ManagerConfig{Kubeconfig: p.KubeconfigFile(), Controllers: certificateControllers, CA: string(p.Credentials.Authority.CertificatePEM)},
		"--cluster-signing-cert-file", certificate, "--cluster-signing-key-file", key)
	joins(t, p.Client(), p.URL(), p.Credentials.Authority.CertificatePEM, nil)
}
