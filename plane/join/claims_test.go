package join_test

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"net/netip"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane/join"
	"github.com/planekit/planekit/plane/planetest"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestClaims: a node writes names and addresses of the API server and of services into its status, with its
// own credentials, and requests a serving certificate with them, which it does not get. What it gets does not
// make clients of the API server take it for a server.
func TestClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, planetest.WithoutNetwork())
		invitation := invite(t, p)
		server, err := url.Parse(p.URL())
		if err != nil {
			t.Fatal(err)
		}
		service, err := typed.Services(p.Client()).Get(t.Context(), "default", "kubernetes")
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			claim  string
			issued bool
		}{
			{"kubernetes.default.svc", false},
			{"kubernetes", false},
			{"web.shop.svc.cluster.local", false},
			{"localhost", false},
			{service.Spec.ClusterIP, false},
			{"::ffff:" + service.Spec.ClusterIP, false},
			{server.Hostname(), false},
			{"127.0.0.1", false},
			{"10.1.2.3", true},
			{"web.example.com", true},
		} {
			config := newConfig(t, p, invitation)
			address, err := netip.ParseAddr(c.claim)
			kind := corev1.NodeInternalIP
			if err != nil {
				kind = corev1.NodeInternalDNS
			}
			config.Addresses = func() ([]netip.Addr, []string) {
				if kind == corev1.NodeInternalDNS {
					return nil, []string{c.claim}
				}
				return []netip.Addr{address}, nil
			}
			j := newJoiner(t, config)
			if err := j.Join(t.Context()); err != nil {
				t.Fatal(err)
			}
			claim(t, p.As("system:node:node-1", "system:nodes"), corev1.NodeAddress{Type: kind, Address: c.claim})
			stop := run(t, j)
			time.Sleep(time.Minute)
			stop()
			serving, err := j.ServingCertificate(nil)
			switch {
			case !c.issued:
				if !errors.Is(err, join.ErrNotIssued) {
					t.Errorf("the certificate for %q: %v, want %v", c.claim, err, join.ErrNotIssued)
				}
				continue
			case err != nil:
				t.Errorf("the certificate for %q: %v, want one", c.claim, err)
				continue
			}
			verify := func(pool *x509.CertPool) error {
				_, err := serving.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: c.claim})
				return err
			}
			if err := verify(p.Credentials.Authority.Pool()); err == nil {
				t.Errorf("clients of the API server trust the certificate for %q", c.claim)
			}
			if err := verify(p.Credentials.Kubelets.Pool()); err != nil {
				t.Errorf("the certificate for %q: %v", c.claim, err)
			}
		}
	})
}

// claim writes an address into the status of node-1, as its kubelet does.
func claim(t *testing.T, api *client.Client, address corev1.NodeAddress) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	if _, err := typed.Nodes(api).Create(t.Context(), node); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	node.Status.Addresses = []corev1.NodeAddress{address}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"addresses": node.Status.Addresses}})
	if err == nil {
		_, err = typed.Nodes(api).Patch(t.Context(), "", "node-1", "application/merge-patch+json", patch, "status")
	}
	if err != nil {
		t.Fatal(err)
	}
}
