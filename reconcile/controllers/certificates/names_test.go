package certificates

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/pki"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// testNames are the rules of a cluster whose API server is at 192.0.2.1, and on 192.0.2.2 beside nodes.
var testNames = NodeNames{
	Names:     []string{"api.example.com"},
	Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("2001:db8::1")},
	Shared:    netip.MustParseAddr("192.0.2.2"),
	Services:  slices.Values([]netip.Prefix{netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("fd00:96::/112")}),
}

// claims are names and addresses that a node writes into its status and requests, with what refuses them;
// empty for those that a node can have.
var claims = []struct{ claim, refused string }{
	{"n", ""},
	{"n.example.com", ""},
	{"kubernetes-1", ""},
	{"mysvc", ""},
	{"10.1.2.3", ""},
	{"2001:db8::2", ""},
	{"192.0.2.2", ""},
	{"192.0.2.1", "one of the API server"},
	{"2001:db8::1", "one of the API server"},
	{"2001:DB8:0::1", "one of the API server"},
	{"::ffff:192.0.2.1", "one of the API server"},
	{"api.example.com", "one of the API server"},
	{"API.example.com", "lower case"},
	{"api.example.com.", "lower case"},
	{"kubernetes", "reserved"},
	{"kubernetes.default", "reserved"},
	{"kubernetes.default.svc", "reserved"},
	{"kubernetes.default.svc.cluster.local", "reserved"},
	{"web.shop.svc", "reserved"},
	{"metrics-server.kube-system.svc.cluster.local", "reserved"},
	{"cluster.local", "reserved"},
	{"localhost", "reserved"},
	{"a.localhost", "reserved"},
	{"*", "lower case"},
	{"*.example.com", "lower case"},
	{"b\u00fccher.example", "lower case"},
	{"a\x00.example.com", "lower case"},
	{"a b", "lower case"},
	{strings.Repeat("a", 254), "no more than 253"},
	{"10.96.0.1", "range 10.96.0.0/12 of services"},
	{"10.111.255.255", "range 10.96.0.0/12 of services"},
	{"::ffff:10.96.0.1", "range 10.96.0.0/12 of services"},
	{"fd00:96::1", "range fd00:96::/112 of services"},
	{"127.0.0.1", "not a global unicast address"},
	{"127.8.8.8", "not a global unicast address"},
	{"::1", "not a global unicast address"},
	{"::ffff:127.0.0.1", "not a global unicast address"},
	{"0.0.0.0", "not a global unicast address"},
	{"0.1.2.3", "not a global unicast address"},
	{"::", "not a global unicast address"},
	{"169.254.169.254", "not a global unicast address"},
	{"fe80::1", "not a global unicast address"},
	{"224.0.0.1", "not a global unicast address"},
	{"ff02::1", "not a global unicast address"},
	{"255.255.255.255", "not a global unicast address"},
	{"0x7f.1", "read as an address"},
	{"2130706433", "read as an address"},
	{"0177.0.0.1", "read as an address"},
	{"10.0.0.9", "older"}, // of node-0
	{"10.0.0.8", ""},      // of node-z, which is younger
	{"zero.example.com", "older"},
	{"node-0", "another node"},
	{"node-z", "another node"},
}

// asName returns the claim as a DNS name and as an address of a request; one of them is empty.
func asName(claim string) (names []string, addresses []net.IP) {
	if ip := net.ParseIP(claim); ip != nil {
		return nil, []net.IP{ip}
	}
	return []string{claim}, nil
}

// servingRequest returns what the node n requests, by the name of the request.
func servingRequest(t *testing.T, name string, template x509.CertificateRequest) *request {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.Subject = pkix.Name{CommonName: "system:node:n", Organization: []string{"system:nodes"}}
	der, err := x509.CreateCertificateRequest(rand.Reader, &template, key)
	if err != nil {
		t.Fatal(err)
	}
	return &request{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: certificatesv1.CertificateSigningRequestSpec{
		Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
		SignerName: certificatesv1.KubeletServingSignerName, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageServerAuth, certificatesv1.UsageDigitalSignature},
		Username: "system:node:n", Groups: []string{"system:nodes", "system:authenticated"},
	}}
}

// approvals keeps the requests that were approved.
type approvals map[string]*request

func (a approvals) UpdateApproval(_ context.Context, r *request) (*request, error) {
	a[r.Name] = r
	return r, nil
}

func nodeWith(name string, age time.Duration, addresses ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Now().Add(-age))}}
	for _, a := range addresses {
		kind := corev1.NodeInternalIP
		if net.ParseIP(a) == nil {
			kind = corev1.NodeExternalDNS
		}
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: kind, Address: a})
	}
	return n
}

// TestClaims: a node writes each claim into its status, requests it alone and together with an address of
// its own, and gets the approval only of what a node can have.
func TestClaims(t *testing.T) {
	for _, c := range claims {
		if asDNS, _ := asName(c.claim); len(asDNS) > 0 && strings.ContainsFunc(c.claim, func(r rune) bool { return r > 127 }) {
			continue // no request can be made of it: TestClaimsAreNotSigned has the check
		}
		synctest.Test(t, func(t *testing.T) {
			node := nodeWith("n", time.Hour, c.claim, "10.0.0.1")
			nodes := localcache.NewMap(node, nodeWith("node-0", 2*time.Hour, "::ffff:10.0.0.9", "192.0.2.2", "zero.example.com"), nodeWith("node-z", time.Minute, "10.0.0.8"))
			names, addresses := asName(c.claim)
			requests := localcache.NewMap(
				servingRequest(t, "alone", x509.CertificateRequest{DNSNames: names, IPAddresses: addresses}),
				servingRequest(t, "twice", x509.CertificateRequest{DNSNames: append(names, names...), IPAddresses: append(addresses, addresses...)}),
				servingRequest(t, "beside", x509.CertificateRequest{DNSNames: names, IPAddresses: append(addresses, net.IPv4(10, 0, 0, 1))}),
			)
			approved := approvals{}
			a, err := NewServingApprover(ServingApproverConfig{Requests: requests, Nodes: nodes, Writer: approved, Names: testNames, Workers: 1})
			if err != nil {
				t.Fatal(err)
			}
			runUntilIdle(t, a.Run)
			want := 3
			if c.refused != "" {
				want = 0
			}
			if len(approved) != want {
				t.Errorf("%q is approved in %d of 3 requests, want %d", c.claim, len(approved), want)
			}
		})
	}
}

func runUntilIdle(t *testing.T, run func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	synctest.Wait()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestClaimsAreNotSigned: the signer refuses what no node can have, even if the request was approved, and
// says why. Which of two nodes has an address is the approver's matter.
func TestClaimsAreNotSigned(t *testing.T) {
	authority, err := pki.New()
	if err != nil {
		t.Fatal(err)
	}
	serving, err := authority.Derived("kubelet-serving")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range claims {
		want := c.refused
		if want == "older" || want == "another node" {
			want = ""
		}
		names, addresses := asName(c.claim)
		err := testNames.check(&x509.CertificateRequest{DNSNames: names, IPAddresses: addresses})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("check(%q) = %v, want %q", c.claim, err, want)
		}
		if strings.ContainsFunc(c.claim, func(r rune) bool { return r > 127 }) {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			r := servingRequest(t, "r", x509.CertificateRequest{DNSNames: names, IPAddresses: addresses})
			r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue}}
			written := &statuses{}
			// The certificates of the bubble's time are good there alone, which is no matter here.
			s, err := NewSigner(SignerConfig{Requests: localcache.NewMap(r), Writer: written, CA: authority.Certificate, Key: authority.Key,
				ServingCA: serving.Certificate, ServingKey: serving.Key, Names: testNames})
			if err != nil {
				t.Fatal(err)
			}
			runUntilIdle(t, s.Run)
			if written.last == nil {
				t.Fatalf("%q: no status", c.claim)
			}
			block, _ := pem.Decode(written.last.Status.Certificate)
			if (block != nil) != (want == "") {
				t.Fatalf("%q: the status is %+v, want a certificate: %v", c.claim, written.last.Status, want == "")
			}
			if block == nil {
				return
			}
			leaf, err := x509.ParseCertificate(block.Bytes)
			if err != nil || leaf.CheckSignatureFrom(serving.Certificate) != nil || leaf.CheckSignatureFrom(authority.Certificate) == nil {
				t.Errorf("%q: the certificate is not of the authority of kubelets alone: %v", c.claim, err)
			}
		})
	}
}

// TestManyNames: a request with too many names is refused, whatever they are.
func TestManyNames(t *testing.T) {
	parsed := &x509.CertificateRequest{}
	for i := range 101 {
		parsed.DNSNames = append(parsed.DNSNames, fmt.Sprintf("n-%d", i))
	}
	if err := testNames.check(parsed); err == nil || err.Error() != "the request has 101 names and addresses, of at most 100" {
		t.Errorf("check of 101 names = %v", err)
	}
	parsed.DNSNames = parsed.DNSNames[1:]
	if err := testNames.check(parsed); err != nil {
		t.Errorf("check of 100 names = %v, want nil", err)
	}
}

// TestNodeSubjects: both signers of nodes want the user of one node as the subject.
func TestNodeSubjects(t *testing.T) {
	client := []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature}
	server := []certificatesv1.KeyUsage{certificatesv1.UsageServerAuth, certificatesv1.UsageDigitalSignature}
	for name, good := range map[string]bool{
		"system:node:n": true, "system:node:n.example.com": true, "system:node:": false, "system:node:a/b": false,
		"system:node:a\x00b": false, "system:node:A": false, "system:node:a b": false, "system:node:system:node:a": false, "system:nodes": false,
	} {
		parsed := &x509.CertificateRequest{Subject: pkix.Name{CommonName: name, Organization: []string{"system:nodes"}}}
		if err := checkNodeClient(parsed, client); (err == nil) != good {
			t.Errorf("checkNodeClient of %q = %v, want success: %v", name, err, good)
		}
		parsed.DNSNames = []string{"n"}
		if err := checkNodeServing(parsed, server); (err == nil) != good {
			t.Errorf("checkNodeServing of %q = %v, want success: %v", name, err, good)
		}
	}
}
